/* Ids of requests on the wire: they lead to their request while it has them, and nowhere afterwards. */
#include "runtime/core/request.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { MANY = 200 };

static struct hcomm_context *context;
static struct hcomm_request requests[MANY];

static void setup(void)
{
    context = aligned_alloc(HC_CACHE_LINE, hc_align_up(sizeof(*context), HC_CACHE_LINE));
    cr_assert(context);
    (void)memset(context, 0, sizeof(*context));
    for (int i = 0; i < MANY; i++)
        requests[i] = (struct hcomm_request){.context = context};
}

static void teardown(void)
{
    free(context->ids);
    free(context->id_generation);
    free(context->id_next);
    free(context);
}

TestSuite(core_request_ids, .init = setup, .fini = teardown);

Test(core_request_ids, id_leads_to_its_request_only)
{
    for (int i = 0; i < MANY; i++)
        cr_assert(hc_request_assign_id(&requests[i]) == HCOMM_OK);
    for (int i = 0; i < MANY; i++) {
        cr_expect(requests[i].id != 0);
        cr_expect(hc_request_by_id(context, requests[i].id) == &requests[i], "request %d", i);
        for (int k = 0; k < i; k++)
            cr_assert(requests[k].id != requests[i].id, "requests %d and %d", k, i);
    }
}

Test(core_request_ids, unknown_ids_lead_nowhere)
{
    cr_expect(hc_request_by_id(context, 0) == NULL);
    cr_expect(hc_request_by_id(context, 1) == NULL, "before any id was given");
    cr_assert(hc_request_assign_id(&requests[0]) == HCOMM_OK);
    uint64_t id = requests[0].id;
    cr_expect(hc_request_by_id(context, 0) == NULL);
    cr_expect(hc_request_by_id(context, UINT64_MAX) == NULL);
    cr_expect(hc_request_by_id(context, id + 1) == NULL, "a slot that is free");
    cr_expect(hc_request_by_id(context, id + context->num_ids) == NULL, "a slot that is not there");
    cr_expect(hc_request_by_id(context, id + (UINT64_C(1) << 32)) == NULL, "a generation to come");
    cr_expect(hc_request_by_id(context, id & UINT32_MAX) == NULL, "no generation");
}

Test(core_request_ids, released_id_is_stale_and_its_slot_gets_another_one)
{
    uint64_t seen[MANY];
    for (int i = 0; i < MANY; i++) {
        struct hcomm_request *request = &requests[i % 2];
        cr_assert(hc_request_assign_id(request) == HCOMM_OK);
        seen[i] = request->id;
        hc_request_release_id(request);
        cr_assert(request->id == 0);
        hc_request_release_id(request); /* harmless */
        for (int k = 0; k <= i; k++)
            cr_assert(hc_request_by_id(context, seen[k]) == NULL, "id %d after release %d", k, i);
        for (int k = 0; k < i; k++)
            cr_assert(seen[k] != seen[i]);
    }
    cr_expect((uint32_t)seen[0] == (uint32_t)seen[1], "slots are used again");
}

Test(core_request_ids, stale_id_does_not_lead_to_the_slots_next_request)
{
    cr_assert(hc_request_assign_id(&requests[0]) == HCOMM_OK);
    uint64_t stale = requests[0].id;
    hc_request_release_id(&requests[0]);
    cr_assert(hc_request_assign_id(&requests[1]) == HCOMM_OK);
    cr_assert((uint32_t)stale == (uint32_t)requests[1].id);
    cr_expect(hc_request_by_id(context, stale) == NULL);
    cr_expect(hc_request_by_id(context, requests[1].id) == &requests[1]);
}

Test(core_request_ids, generations_wrap_without_an_id_of_zero)
{
    cr_assert(hc_request_assign_id(&requests[0]) == HCOMM_OK);
    uint32_t slot = (uint32_t)requests[0].id - 1;
    hc_request_release_id(&requests[0]);
    context->id_generation[slot] = UINT32_MAX;
    for (int i = 0; i < 3; i++) {
        cr_assert(hc_request_assign_id(&requests[0]) == HCOMM_OK);
        cr_expect(requests[0].id != 0 && hc_request_by_id(context, requests[0].id) == &requests[0]);
        hc_request_release_id(&requests[0]);
    }
}

Test(core_request_ids, ids_survive_that_there_are_more_of_them)
{
    cr_assert(hc_request_assign_id(&requests[0]) == HCOMM_OK);
    size_t before = context->num_ids;
    uint64_t first = requests[0].id;
    for (int i = 1; i < MANY; i++)
        cr_assert(hc_request_assign_id(&requests[i]) == HCOMM_OK);
    cr_assert(context->num_ids > before);
    cr_expect(hc_request_by_id(context, first) == &requests[0]);
}
