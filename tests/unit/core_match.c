#include "runtime/core/match.h"

#include <criterion/criterion.h>
#include <hcomm/types.h>
#include <stdlib.h>

/* ---- a model that is too simple to be wrong: two lists in order, searched from the front ---- */

enum { OBJECTS = 400, STEPS = 60000, MANY = 100000 };

struct receive {
    struct hc_match_recv recv;
    struct hc_match_key pattern;
    bool posted;
    unsigned order;
};

struct arrived {
    struct hc_match_message message;
    bool kept;
    unsigned order;
};

struct model {
    struct hc_match match;
    struct receive receives[OBJECTS];
    struct arrived messages[OBJECTS];
    unsigned order, state;
};

static unsigned draw(struct model *model, unsigned below)
{
    model->state ^= model->state << 13;
    model->state ^= model->state >> 17;
    model->state ^= model->state << 5;
    return model->state % below;
}

static bool takes(const struct hc_match_key *pattern, const struct hc_match_key *key)
{
    return pattern->comm == key->comm &&
           (pattern->source == HCOMM_ANY_SOURCE || pattern->source == key->source) &&
           (pattern->tag == HCOMM_ANY_TAG || pattern->tag == key->tag);
}

static struct hc_match_key draw_key(struct model *model)
{
    return (struct hc_match_key){draw(model, 3), (int32_t)draw(model, 4), (int32_t)draw(model, 4)};
}

static struct hc_match_key draw_pattern(struct model *model)
{
    struct hc_match_key pattern = draw_key(model);
    if (draw(model, 3) == 0)
        pattern.source = HCOMM_ANY_SOURCE;
    if (draw(model, 3) == 0)
        pattern.tag = HCOMM_ANY_TAG;
    return pattern;
}

static struct receive *oldest_receive(struct model *model, const struct hc_match_key *key)
{
    struct receive *oldest = NULL;
    for (int i = 0; i < OBJECTS; i++) {
        struct receive *receive = &model->receives[i];
        if (receive->posted && takes(&receive->pattern, key) && (!oldest || receive->order < oldest->order))
            oldest = receive;
    }
    return oldest;
}

static struct arrived *oldest_message(struct model *model, const struct hc_match_key *pattern)
{
    struct arrived *oldest = NULL;
    for (int i = 0; i < OBJECTS; i++) {
        struct arrived *arrived = &model->messages[i];
        if (arrived->kept && takes(pattern, &arrived->message.key) &&
            (!oldest || arrived->order < oldest->order))
            oldest = arrived;
    }
    return oldest;
}

/* A receive is started: it takes the oldest message, or is posted. */
static void receive_one(struct model *model)
{
    struct receive *receive = &model->receives[draw(model, OBJECTS)];
    if (receive->posted)
        return;
    receive->pattern = draw_pattern(model);
    struct arrived *expected = oldest_message(model, &receive->pattern);
    struct hc_match_message *found = hc_match_find(&model->match, &receive->pattern);
    cr_assert_eq(found, expected ? &expected->message : NULL);
    if (expected) {
        hc_match_drop(&model->match, found);
        expected->kept = false;
        return;
    }
    receive->order = model->order++;
    receive->posted = true;
    cr_assert_eq(hc_match_post(&model->match, &receive->pattern, &receive->recv), HCOMM_OK);
}

/* A message arrives: the oldest receive takes it, or it is kept. */
static void arrive_one(struct model *model)
{
    struct arrived *arrived = &model->messages[draw(model, OBJECTS)];
    if (arrived->kept)
        return;
    struct hc_match_key key = draw_key(model);
    struct receive *expected = oldest_receive(model, &key);
    struct hc_match_recv *found = hc_match_arrive(&model->match, &key);
    cr_assert_eq(found, expected ? &expected->recv : NULL);
    if (expected) {
        cr_assert_null(found->bin);
        expected->posted = false;
        return;
    }
    arrived->message.key = key;
    arrived->order = model->order++;
    arrived->kept = true;
    cr_assert_eq(hc_match_keep(&model->match, &arrived->message), HCOMM_OK);
}

static void cancel_one(struct model *model)
{
    struct receive *receive = &model->receives[draw(model, OBJECTS)];
    hc_match_unpost(&model->match, &receive->recv);
    receive->posted = false;
}

static void discard_one(struct model *model)
{
    struct arrived *arrived = &model->messages[draw(model, OBJECTS)];
    if (!arrived->kept)
        return;
    hc_match_drop(&model->match, &arrived->message);
    arrived->kept = false;
}

Test(core_match, random_operations_agree_with_a_linear_search)
{
    for (unsigned seed = 1; seed <= 4; seed++) {
        struct model *model = calloc(1, sizeof(*model));
        cr_assert(model);
        model->state = seed * 7919;
        cr_assert_eq(hc_match_init(&model->match), HCOMM_OK);
        for (int step = 0; step < STEPS; step++) {
            unsigned what = draw(model, 20);
            if (what < 9)
                receive_one(model);
            else if (what < 18)
                arrive_one(model);
            else if (what == 18)
                cancel_one(model);
            else
                discard_one(model);
        }
        hc_match_fini(&model->match);
        free(model);
    }
}

static bool count_and_keep(struct hc_match_recv *recv, void *arg)
{
    (void)recv;
    ++*(size_t *)arg;
    return false;
}

static bool remove_odd(struct hc_match_recv *recv, void *arg)
{
    const struct receive *receive = (const struct receive *)recv;
    (void)arg;
    return receive->pattern.tag % 2 == 1;
}

Test(core_match, hundred_thousand_posted_receives_are_found_by_any_order)
{
    struct hc_match match;
    struct receive *receives = calloc(MANY, sizeof(*receives));
    cr_assert(receives);
    cr_assert_eq(hc_match_init(&match), HCOMM_OK);
    for (int i = 0; i < MANY; i++) {
        receives[i].pattern = (struct hc_match_key){1, i % 3 ? i % 7 : HCOMM_ANY_SOURCE, i};
        cr_assert_eq(hc_match_post(&match, &receives[i].pattern, &receives[i].recv), HCOMM_OK);
    }
    size_t visited = 0;
    hc_match_visit_posted(&match, count_and_keep, &visited);
    cr_assert_eq(visited, MANY);
    hc_match_visit_posted(&match, remove_odd, NULL);
    for (int i = MANY - 1; i >= 0; i--) {
        const struct hc_match_key key = {1, i % 7, i};
        cr_assert_eq(hc_match_arrive(&match, &key), i % 2 ? NULL : &receives[i].recv);
    }
    hc_match_fini(&match);
    free(receives);
}

Test(core_match, hundred_thousand_unexpected_messages_are_found_by_every_kind_of_pattern)
{
    struct hc_match match;
    struct arrived *messages = calloc(MANY, sizeof(*messages));
    cr_assert(messages);
    cr_assert_eq(hc_match_init(&match), HCOMM_OK);
    for (int i = 0; i < MANY; i++) {
        messages[i].message.key = (struct hc_match_key){1, i % 100, i / 100};
        cr_assert_eq(hc_match_keep(&match, &messages[i].message), HCOMM_OK);
    }
    for (int i = 0; i < MANY; i++) { /* in this order every pattern's oldest is number i */
        const struct hc_match_key patterns[] = {
            {1, i % 100, i / 100},
            {1, HCOMM_ANY_SOURCE, i / 100},
            {1, i % 100, HCOMM_ANY_TAG},
            {1, HCOMM_ANY_SOURCE, HCOMM_ANY_TAG},
        };
        for (int k = 0; k < 4; k++)
            cr_assert_eq(hc_match_find(&match, &patterns[k]), &messages[i].message);
        const struct hc_match_key other = {2, HCOMM_ANY_SOURCE, HCOMM_ANY_TAG};
        cr_assert_null(hc_match_find(&match, &other));
        hc_match_drop(&match, &messages[i].message);
    }
    cr_assert_eq(match.num_messages, 0);
    hc_match_fini(&match);
    free(messages);
}
