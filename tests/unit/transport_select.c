/* Which transports the settings leave. */
#include "transports/transport.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hc_resource_list list;
static struct hc_settings settings;

static void setup(void)
{
    (void)clearenv();
    cr_assert(hc_settings_load(NULL, &settings, NULL) == HCOMM_OK);
    list.settings = &settings;
}

TestSuite(transport_select, .init = setup);

static const struct hc_resource *find(const char *name)
{
    for (size_t i = 0; i < list.count; i++)
        if (strcmp(list.entries[i].name, name) == 0)
            return &list.entries[i];
    return NULL;
}

Test(transport_select, default_uses_all)
{
    cr_assert(hc_transport_query(&list) == HCOMM_OK);
    cr_assert(find("self") && find("self")->usable);
    cr_assert(find("shm") && find("shm")->usable, "%s", find("shm") ? find("shm")->reason : "missing");
}

Test(transport_select, list_excludes_the_others_with_a_reason)
{
    settings.transports = "self";
    cr_assert(hc_transport_query(&list) == HCOMM_OK);
    cr_assert(find("self")->usable && !find("shm")->usable);
    cr_assert(strstr(find("shm")->reason, "transports"), "%s", find("shm")->reason);
}

Test(transport_select, self_needs_no_mention_and_blanks_do_not_matter)
{
    settings.transports = " shm ,";
    cr_assert(hc_transport_query(&list) == HCOMM_OK);
    cr_assert(find("self")->usable && find("shm")->usable);
    cr_assert(strcmp(list.entries[0].name, "self") == 0 && strcmp(list.entries[1].name, "shm") == 0);
}

Test(transport_select, unknown_name_is_named_with_those_there_are)
{
    settings.transports = "shm,smh";
    list.count = 0;
    cr_assert(hc_transport_query(&list) == HCOMM_ERR_CONFIG);
    cr_assert(strstr(hc_error_detail(), "'smh'") && strstr(hc_error_detail(), "self, shm"), "%s",
              hc_error_detail());
    settings.transports = "sh";
    cr_assert(hc_transport_query(&list) == HCOMM_ERR_CONFIG, "a part of a name is not a name");
    settings.transports = "shm:x";
    cr_assert(hc_transport_query(&list) == HCOMM_ERR_CONFIG);
}

Test(transport_select, unknown_name_is_answered_alike_when_one_transport_was_asked)
{
    char all[512];
    settings.transports = "verbs";
    cr_assert(hc_transport_query(&list) == HCOMM_ERR_CONFIG);
    (void)snprintf(all, sizeof(all), "%s", hc_error_detail());
    cr_assert(strstr(all, "there are self, shm, ofi:"), "%s", all);
    for (size_t i = 0; hc_transports[i]; i++) {
        settings.transports = "verbs";
        cr_assert(hc_transport_query_one(hc_transports[i], &list) == HCOMM_ERR_CONFIG);
        cr_assert(strcmp(hc_error_detail(), all) == 0, "%s", hc_error_detail());
        settings.transports = "ofi:nothing";
        cr_assert(hc_transport_query_one(hc_transports[i], &list) == HCOMM_ERR_CONFIG,
                  "refused whether or not libfabric is asked while starting");
    }
}

Test(transport_select, protocol_excludes_other_families)
{
    settings.protocol = HC_PROTOCOL_TCP;
    cr_assert(hc_transport_query(&list) == HCOMM_OK);
    cr_assert(find("self")->usable && !find("shm")->usable);
    cr_assert(strstr(find("shm")->reason, "protocol=tcp"), "%s", find("shm")->reason);
    settings.protocol = HC_PROTOCOL_SHM;
    cr_assert(hc_transport_query(&list) == HCOMM_OK);
    cr_assert(find("shm")->usable);
}

Test(transport_select, first_reason_is_kept)
{
    settings.protocol = HC_PROTOCOL_RDMA;
    settings.transports = "self";
    cr_assert(hc_transport_query(&list) == HCOMM_OK);
    cr_assert(strstr(find("shm")->reason, "protocol=rdma"), "%s", find("shm")->reason);
}

Test(transport_select, sizes_are_told_in_the_largest_unit_that_fits)
{
    cr_expect_str_eq(hc_transport_size_text(0).text, "0 B");
    cr_expect_str_eq(hc_transport_size_text(1023).text, "1023 B");
    cr_expect_str_eq(hc_transport_size_text(8192).text, "8 KiB");
    cr_expect_str_eq(hc_transport_size_text(8192 - 64).text, "8128 B");
    cr_expect_str_eq(hc_transport_size_text(1536 << 10).text, "1536 KiB");
    cr_expect_str_eq(hc_transport_size_text(1 << 20).text, "1 MiB");
    cr_expect_str_eq(hc_transport_size_text((size_t)3 << 30).text, "3 GiB");
}

Test(transport_select, clauses_are_cut_where_their_room_ends)
{
    char texts[2][HC_THRESHOLDS_MAX] = {"of an earlier query", "the next entry's"};
    struct hc_resource_list one = {.texts = texts};
    struct hc_resource resource = {.thresholds = hc_transport_text(&one)};
    hc_transport_tell(&resource, "eager up to %d", 8);
    hc_transport_tell(&resource, "then get");
    cr_expect_str_eq(texts[0], "eager up to 8; then get");
    for (int i = 0; i < HC_THRESHOLDS_MAX; i++)
        hc_transport_tell(&resource, "a clause");
    cr_expect_eq(strlen(texts[0]), HC_THRESHOLDS_MAX - 1);
    cr_expect_str_eq(texts[1], "the next entry's");
}

Test(transport_select, thresholds_are_told_only_to_who_asks)
{
    static char texts[HC_RESOURCE_MAX][HC_THRESHOLDS_MAX];
    cr_assert(hc_transport_query(&list) == HCOMM_OK);
    cr_assert_null(find("self")->thresholds);
    list.texts = texts;
    list.local_size = 1;
    cr_assert(hc_transport_query(&list) == HCOMM_OK);
    cr_assert(strstr(find("shm")->thresholds, "in pieces"), "%s", find("shm")->thresholds);
    cr_assert_not(strstr(find("shm")->thresholds, "more ranks than processors"));
    for (size_t i = 0; i < list.count; i++)
        cr_expect(strlen(texts[i]) < HC_THRESHOLDS_MAX - 1, "%s: no room for \"%s\"", list.entries[i].name,
                  texts[i]);
}
