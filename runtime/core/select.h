/* Opening transports and choosing one per peer. Lock held, or the context not yet shared. */
#ifndef HC_SELECT_H
#define HC_SELECT_H

#include "runtime/core/core.h"

/*
 * Open what the job needs, best first in context->ifaces. HCOMM_ERR_UNREACHABLE when nothing leads to other
 * ranks, HCOMM_ERR_CONFIG for an unknown name in setting `transports`.
 */
hcomm_status_t hc_select_open(struct hcomm_context *context,
                              const struct hc_iface_params *params) HC_MUST_CHECK;
/*
 * Open ofi afterwards, behind what is open. HCOMM_ERR_UNREACHABLE, with what was rejected and why, when the
 * settings exclude it or nothing of it is usable.
 */
hcomm_status_t hc_select_add_ofi(struct hcomm_context *context,
                                 const struct hc_iface_params *params) HC_MUST_CHECK;
/* Whether `transports` does not exclude it. */
bool hc_select_allows_ofi(const struct hcomm_context *context);
/* Whether to open it afterwards has a point: it is not open, besides. */
bool hc_select_may_add_ofi(const struct hcomm_context *context);
void hc_select_close(struct hcomm_context *context);
/* From now on something can arrive on the iface: poll it. */
void hc_select_poll(struct hcomm_context *context, struct hc_iface_slot *slot);

/*
 * The best iface that reaches the described rank, and the address to use; NULL when none does. Those before
 * `after` (NULL: none) are left out, and itself.
 */
struct hc_iface_slot *hc_select_iface(struct hcomm_context *context, uint32_t rank,
                                      const struct hc_blob *info, const struct hc_iface_slot *after,
                                      const struct hc_blob_address **address);

#endif
