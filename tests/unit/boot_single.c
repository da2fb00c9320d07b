#include "runtime/base/clock.h"
#include "runtime/boot/boot.h"

#include "tests/unit/capture.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 20000, SHORT_MS = 1000 };

static void leave_launcher(void)
{
    static const char *const variables[] = {"PMIX_NAMESPACE", "PMIX_RANK", "SLURM_NTASKS",
                                            "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < hc_array_len(variables); i++)
        (void)unsetenv(variables[i]);
}

static struct hc_boot *open_boot(int timeout_ms)
{
    struct hc_boot *boot = NULL;
    leave_launcher();
    cr_assert_eq(hc_boot_open(timeout_ms, &boot), HCOMM_OK, "%s", hc_error_detail());
    return boot;
}

static bool is_readable(struct hc_boot *boot, int timeout_ms)
{
    struct pollfd readable = {.fd = hc_boot_fd(boot), .events = POLLIN};
    return poll(&readable, 1, timeout_ms) == 1;
}

Test(boot_single, alone_is_a_job_of_one_rank)
{
    struct hc_boot *boot = open_boot(TIMEOUT_MS);
    const struct hc_boot_job *job = hc_boot_job(boot);
    uint32_t host_of[1] = {9};
    cr_assert(job->rank == 0 && job->size == 1 && job->local_rank == 0 && job->local_size == 1);
    cr_assert(job->num_hosts == 1 && job->local_ranks[0] == 0 && !job->launched);
    cr_assert_str_eq(job->launcher, "none");
    cr_assert(strlen(job->hostname) > 0 && strlen(job->name_space) > 0 && strlen(job->version) > 0);
    cr_assert_eq(hc_boot_hosts(boot, host_of), HCOMM_OK);
    cr_assert_eq(host_of[0], 0);
    cr_assert_eq(hc_boot_next_event(boot).kind, HC_BOOT_EVENT_NONE);
    hc_boot_close(boot);
    hc_boot_close(NULL);
}

Test(boot_single, instances_are_counted_and_name_spaces_differ)
{
    struct hc_boot *first = open_boot(TIMEOUT_MS), *second = open_boot(TIMEOUT_MS);
    cr_assert_eq(hc_boot_instance(second), hc_boot_instance(first) + 1);
    cr_assert_str_neq(hc_boot_job(first)->name_space, hc_boot_job(second)->name_space);
    hc_boot_close(first);
    hc_boot_close(second);
}

Test(boot_single, get_returns_what_was_put_last)
{
    struct hc_boot *boot = open_boot(TIMEOUT_MS);
    struct hc_boot_op op;
    cr_assert_eq(hc_boot_put(boot, "key", "old", 4), HCOMM_OK);
    cr_assert_eq(hc_boot_put(boot, "other", "x", 2), HCOMM_OK);
    cr_assert_eq(hc_boot_put(boot, "key", "newer", 6), HCOMM_OK);
    cr_assert_eq(hc_boot_get(boot, 0, "key", &op), HCOMM_OK);
    cr_assert(hc_boot_op_done(&op));
    cr_assert_eq(op.status, HCOMM_OK);
    cr_assert_eq(op.size, 6);
    cr_assert_str_eq(op.data, "newer");
    free(op.data);
    hc_boot_close(boot);
}

Test(boot_single, empty_blob_is_a_blob)
{
    struct hc_boot *boot = open_boot(TIMEOUT_MS);
    struct hc_boot_op op;
    cr_assert_eq(hc_boot_put(boot, "key", NULL, 0), HCOMM_OK);
    cr_assert_eq(hc_boot_get(boot, 0, "key", &op), HCOMM_OK);
    cr_assert(hc_boot_op_done(&op) && op.status == HCOMM_OK && op.size == 0);
    free(op.data);
    hc_boot_close(boot);
}

Test(boot_single, get_before_put_is_answered_after_it)
{
    struct hc_boot *boot = open_boot(TIMEOUT_MS);
    struct hc_boot_op op;
    cr_assert_eq(hc_boot_get(boot, 0, "key", &op), HCOMM_OK);
    for (int i = 0; i < 3; i++) {
        cr_assert(is_readable(boot, TIMEOUT_MS));
        hc_boot_drain(boot);
        cr_assert_not(hc_boot_op_done(&op));
    }
    cr_assert_eq(hc_boot_put(boot, "key", "v", 2), HCOMM_OK);
    while (!hc_boot_op_done(&op)) {
        cr_assert(is_readable(boot, TIMEOUT_MS));
        hc_boot_drain(boot);
    }
    cr_assert_str_eq(op.data, "v");
    free(op.data);
    hc_boot_close(boot);
}

Test(boot_single, missing_key_ends_at_the_deadline_by_polling)
{
    struct hc_boot *boot = open_boot(SHORT_MS);
    struct hc_boot_op op;
    uint64_t start = hc_clock_ns();
    cr_assert_eq(hc_boot_get(boot, 0, "key", &op), HCOMM_OK);
    while (!hc_boot_op_done(&op)) {
        cr_assert(is_readable(boot, TIMEOUT_MS));
        hc_boot_drain(boot);
    }
    cr_assert_eq(op.status, HCOMM_ERR_TIMEOUT);
    cr_assert_not_null(op.reason);
    cr_assert_null(op.data);
    cr_assert_geq(hc_clock_ns() - start, SHORT_MS * UINT64_C(1000000));
    hc_boot_close(boot);
}

Test(boot_single, fence_signals_and_drain_resets)
{
    struct hc_boot *boot = open_boot(TIMEOUT_MS);
    struct hc_boot_op op;
    cr_assert_not(is_readable(boot, 0));
    cr_assert_eq(hc_boot_fence(boot, &op), HCOMM_OK);
    cr_assert(hc_boot_op_done(&op) && op.status == HCOMM_OK);
    cr_assert(is_readable(boot, TIMEOUT_MS));
    hc_boot_drain(boot);
    cr_assert_not(is_readable(boot, 0));
    hc_boot_op_cancel(boot, &op);
    hc_boot_close(boot);
}

Test(boot_single, cancelled_and_abandoned_operations_are_never_touched)
{
    struct hc_boot *boot = open_boot(SHORT_MS);
    struct hc_boot_op *cancelled = calloc(1, sizeof(*cancelled)), abandoned;
    cr_assert_eq(hc_boot_get(boot, 0, "key", cancelled), HCOMM_OK);
    cr_assert_eq(hc_boot_get(boot, 0, "key", &abandoned), HCOMM_OK);
    hc_boot_op_cancel(boot, cancelled);
    free(cancelled); /* a later write would be found by the sanitizer */
    cr_assert_eq(hc_boot_put(boot, "key", "v", 2), HCOMM_OK);
    (void)is_readable(boot, TIMEOUT_MS);
    hc_boot_close(boot);
}

Test(boot_single, bad_keys_and_ranks_are_refused)
{
    struct hc_boot *boot = open_boot(TIMEOUT_MS);
    struct hc_boot_op op;
    cr_assert_eq(hc_boot_put(boot, "", "v", 1), HCOMM_ERR_INTERNAL);
    cr_assert_eq(hc_boot_put(boot, "0123456789012345678901234567890", "v", 1), HCOMM_OK);
    cr_assert_eq(hc_boot_put(boot, "01234567890123456789012345678901", "v", 1), HCOMM_ERR_INTERNAL);
    cr_assert_eq(hc_boot_get(boot, 1, "key", &op), HCOMM_ERR_INTERNAL);
    hc_boot_close(boot);
}

static int count_descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory))
        count++;
    (void)closedir(directory);
    return count;
}

Test(boot_single, opening_and_closing_leaks_no_descriptor)
{
    int before = count_descriptors();
    for (int i = 0; i < 20; i++)
        hc_boot_close(open_boot(TIMEOUT_MS));
    cr_assert_eq(count_descriptors(), before);
}

static void open_and_close(void *arg)
{
    struct hc_boot *boot = NULL;
    *(hcomm_status_t *)arg = hc_boot_open(TIMEOUT_MS, &boot);
    hc_boot_close(boot);
}

Test(boot_single, many_tasks_without_pmix_get_one_warning_with_the_remedy)
{
    char text[2048];
    hcomm_status_t status = HCOMM_ERR_INTERNAL;
    leave_launcher();
    (void)setenv("SLURM_NTASKS", "4", 1);
    capture_stderr(open_and_close, &status, text, sizeof(text));
    cr_assert_eq(status, HCOMM_OK);
    cr_assert(strstr(text, "SLURM_NTASKS=4") && strstr(text, "srun --mpi=pmix"), "%s", text);
    capture_stderr(open_and_close, &status, text, sizeof(text));
    cr_assert_str_empty(text, "%s", text);
}

Test(boot_single, unreachable_server_is_an_error_not_a_job_of_one)
{
    struct hc_boot *boot = NULL;
    leave_launcher();
    (void)setenv("PMIX_NAMESPACE", "gone", 1);
    (void)setenv("PMIX_RANK", "0", 1);
    (void)setenv("PMIX_SERVER_URI41", "gone.0;tcp4://127.0.0.1:1", 1);
    cr_assert_eq(hc_boot_open(TIMEOUT_MS, &boot), HCOMM_ERR_BOOTSTRAP);
    cr_assert(strstr(hc_error_detail(), "PMIx_Init") && strstr(hc_error_detail(), "gone"), "%s",
              hc_error_detail());
    cr_assert_null(boot);
}
