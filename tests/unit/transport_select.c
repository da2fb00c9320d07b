/* Which transports the settings leave. */
#include "transports/transport.h"

#include <criterion/criterion.h>
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

Test(transport_select, unknown_name_is_answered_with_all_transports_when_one_was_asked)
{
    settings.transports = "verbs";
    cr_assert(hc_transport_query_one(&hc_transport_self, &list) == HCOMM_ERR_CONFIG);
    cr_assert(strstr(hc_error_detail(), "there are shm, ofi, self"), "%s", hc_error_detail());
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
