/* For unit tests of ofi with two ends in one process, over tcp, which every machine has. */
#ifndef HC_TESTS_OFI_TCP_H
#define HC_TESTS_OFI_TCP_H

#include "transports/transport.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The resource ofi:tcp, looked for once. */
static const struct hc_resource *ofi_tcp_resource(const struct hc_transport *ofi,
                                                  const struct hc_settings *settings)
{
    static struct hc_resource resource;
    if (resource.transport)
        return &resource;
    struct hc_resource_list *list = calloc(1, sizeof(*list));
    cr_assert_not_null(list);
    list->settings = settings;
    cr_assert_eq(ofi->query(list), HCOMM_OK, "%s", hc_error_detail());
    for (size_t i = 0; i < list->count && !resource.transport; i++)
        if (list->entries[i].usable && !strcmp(list->entries[i].name, "ofi:tcp"))
            resource = list->entries[i];
    free(list);
    cr_assert_not_null(resource.transport, "libfabric offers no tcp here");
    return &resource;
}

/* Open the end of `rank` in a job of two on one host; the other parameters, its settings too, are given. */
static struct hc_iface *ofi_tcp_open(const struct hc_transport *ofi, struct hc_iface_params params,
                                     uint32_t rank)
{
    struct hc_iface *iface = NULL;
    params.world_rank = params.local_rank = rank;
    params.world_size = params.local_size = 2;
    cr_assert_eq(ofi->open(ofi_tcp_resource(ofi, params.settings), &params, &iface), HCOMM_OK, "%s",
                 hc_error_detail());
    return iface;
}

#endif
