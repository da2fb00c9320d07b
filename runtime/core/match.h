/*
 * The matching engine: MPI's rules for (communicator, source, tag) with wildcards. One per context, above all
 * transports, so that a wildcard receive is right whichever transports its senders use.
 *
 * Receives are kept in one queue per pattern, messages in one queue per pattern that could ask for them, all
 * found through one hash table: posting, arriving and removing cost O(1), whatever the queues' lengths. A
 * global sequence number orders receives of different patterns. Messages are indexed under wildcard patterns
 * only from the first use of such a pattern on.
 *
 * Not thread-safe: the context's lock serialises calls.
 */
#ifndef HC_MATCH_H
#define HC_MATCH_H

#include "runtime/base/list.h"
#include "runtime/base/pool.h"
#include "runtime/base/status.h"

#include <hcomm/types.h>

#include <stdbool.h>
#include <stdint.h>

/* Pattern classes, by which of source and tag are wildcards. */
enum { HC_MATCH_EXACT, HC_MATCH_ANY_SOURCE, HC_MATCH_ANY_TAG, HC_MATCH_ANY, HC_MATCH_CLASSES };

struct hc_match_key {
    uint64_t comm;
    int32_t source; /* HCOMM_ANY_SOURCE for any */
    int32_t tag;    /* HCOMM_ANY_TAG for any */
};

struct hc_match_bin;

/* A posted receive; embedded in the request. */
struct hc_match_recv {
    struct hc_list node;
    struct hc_match_bin *bin; /* NULL when not posted */
    uint64_t sequence;
};

/* An unexpected message; embedded in its record. */
struct hc_match_message {
    struct hc_list nodes[HC_MATCH_CLASSES];
    struct hc_match_bin *bins[HC_MATCH_CLASSES]; /* NULL where not indexed */
    struct hc_list all;                          /* in arrival order, over all communicators */
    struct hc_match_key key;                     /* exact */
};

struct hc_match {
    struct hc_match_bin **table;
    size_t table_size, num_bins;
    struct hc_pool bin_pool;
    size_t posted[HC_MATCH_CLASSES]; /* receives per class */
    size_t posted_wild;              /* those of the classes with a wildcard */
    bool indexed[HC_MATCH_CLASSES];  /* messages are kept under this class */
    struct hc_list all;
    size_t num_messages;
    uint64_t next_sequence;
};

hcomm_status_t hc_match_init(struct hc_match *match) HC_MUST_CHECK;
void hc_match_fini(struct hc_match *match);

/* Whether no receive is posted. */
static inline bool hc_match_nothing_posted(const struct hc_match *match)
{
    return match->posted[HC_MATCH_EXACT] + match->posted_wild == 0;
}

/* Whether a pattern takes a message with an exact key. */
static inline bool hc_match_takes(const struct hc_match_key *pattern, const struct hc_match_key *key)
{
    return pattern->comm == key->comm && (pattern->tag == key->tag || pattern->tag == HCOMM_ANY_TAG) &&
           (pattern->source == key->source || pattern->source == HCOMM_ANY_SOURCE);
}

/* Post a receive: it takes part in matching until found or removed. */
hcomm_status_t hc_match_post(struct hc_match *match, const struct hc_match_key *pattern,
                             struct hc_match_recv *recv) HC_MUST_CHECK;
/* Take a receive out; harmless when it is not posted. */
void hc_match_unpost(struct hc_match *match, struct hc_match_recv *recv);
/* The receive that an arriving message (exact key) belongs to, taken out of matching; NULL when unexpected.
 */
struct hc_match_recv *hc_match_arrive(struct hc_match *match, const struct hc_match_key *key);

/* Keep an unexpected message; message->key is set by the caller. */
hcomm_status_t hc_match_keep(struct hc_match *match, struct hc_match_message *message) HC_MUST_CHECK;
/* The oldest message that a pattern matches, left in place; NULL when there is none. */
struct hc_match_message *hc_match_find(struct hc_match *match, const struct hc_match_key *pattern);
/* Take a message out. */
void hc_match_drop(struct hc_match *match, struct hc_match_message *message);

/*
 * Visit every posted receive; the visitor may unpost the visited one only (it does so by returning true).
 * Cost is linear: for failures and clean-up.
 */
void hc_match_visit_posted(struct hc_match *match, bool (*visit)(struct hc_match_recv *recv, void *arg),
                           void *arg);

#endif
