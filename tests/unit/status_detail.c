#include "runtime/base/status.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

Test(status, detail_starts_empty_and_keeps_the_last_error)
{
    cr_assert_str_empty(hcomm_error_detail());
    cr_assert_eq(hc_error(HCOMM_ERR_LIMIT, "first %d", 1), HCOMM_ERR_LIMIT);
    cr_assert_eq(hc_error(HCOMM_ERR_IO, "second %s", "one"), HCOMM_ERR_IO);
    cr_assert_str_eq(hcomm_error_detail(), "second one");
    cr_assert_eq(hc_error_detail(), hcomm_error_detail());
}

Test(status, prefixes_go_before_the_cause)
{
    (void)hc_error(HCOMM_ERR_IO, "cause");
    hc_error_prefix("rank %d: ", 3);
    hc_error_prefix("send: ");
    cr_assert_str_eq(hcomm_error_detail(), "send: rank 3: cause");
}

Test(status, endless_details_are_cut)
{
    char text[3000];
    (void)memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)hc_error(HCOMM_ERR_IO, "%s", text);
    cr_assert_eq(strlen(hcomm_error_detail()), 511);
    hc_error_prefix("%s", text);
    hc_error_prefix("p");
    cr_assert_eq(strlen(hcomm_error_detail()), 511);
    cr_assert_eq(hcomm_error_detail()[0], 'p');
}

static void *fail_elsewhere(void *arg)
{
    (void)hc_error(HCOMM_ERR_IO, "elsewhere");
    return arg;
}

Test(status, detail_is_of_the_thread)
{
    pthread_t thread;
    (void)hc_error(HCOMM_ERR_IO, "here");
    cr_assert_eq(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    (void)pthread_join(thread, NULL);
    cr_assert_str_eq(hcomm_error_detail(), "here");
}

Test(status, every_status_has_a_text_that_starts_with_its_name)
{
    for (int status = HCOMM_ERR_INTERNAL; status <= HCOMM_AGAIN; status++) {
        const char *text = hcomm_strerror((hcomm_status_t)status);
        cr_assert(strncmp(text, "HCOMM_", 6) == 0 && strstr(text, ": "), "%d: %s", status, text);
        cr_assert_null(strstr(hc_status_text((hcomm_status_t)status), "HCOMM_"));
    }
    cr_assert_not_null(hcomm_strerror((hcomm_status_t)1234));
    cr_assert_str_eq(hc_status_text(HCOMM_ERR_TIMEOUT), "the deadline passed");
    cr_assert_str_eq(hc_errno_text(ENOENT), strerror(ENOENT));
}
