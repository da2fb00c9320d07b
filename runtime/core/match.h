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

/* Everything with one pattern: receives that ask for it, messages that it could take. */
struct hc_match_bin {
    struct hc_match_key key;
    struct hc_match_bin *next; /* in the table's chain */
    struct hc_list posted, messages;
    unsigned class;
};

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
    struct hc_match_bin *recent; /* what the last receive or message was found in; NULL: none */
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

static inline bool hc_match_same_key(const struct hc_match_key *a, const struct hc_match_key *b)
{
    return a->tag == b->tag && a->source == b->source && a->comm == b->comm;
}

/* The queue of a pattern, remembered as recent; NULL when there is none. */
struct hc_match_bin *hc_match_look_up(struct hc_match *match, const struct hc_match_key *key);
/* The same, made where there is none; NULL, with an error detail, when memory is exhausted. */
struct hc_match_bin *hc_match_make(struct hc_match *match, const struct hc_match_key *key);
/* The receive that was posted first, of those of all classes that take a message; NULL when none does. */
struct hc_match_recv *hc_match_oldest(const struct hc_match *match, const struct hc_match_key *key);

static inline bool hc_match_is_recent(const struct hc_match *match, const struct hc_match_key *key)
{
    return hc_likely(match->recent != NULL) && hc_match_same_key(&match->recent->key, key);
}

static inline void hc_match_append(struct hc_match *match, struct hc_match_bin *bin,
                                   struct hc_match_recv *recv)
{
    recv->bin = bin;
    recv->sequence = match->next_sequence++;
    hc_list_append(&bin->posted, &recv->node);
    match->posted[bin->class]++;
    match->posted_wild += bin->class != HC_MATCH_EXACT;
}

/* Post a receive of the recent pattern. */
static inline void hc_match_post_recent(struct hc_match *match, struct hc_match_recv *recv)
{
    hc_match_append(match, match->recent, recv);
}

/* Post a receive: it takes part in matching until found or removed. */
static inline hcomm_status_t HC_MUST_CHECK hc_match_post(struct hc_match *match,
                                                         const struct hc_match_key *pattern,
                                                         struct hc_match_recv *recv)
{
    struct hc_match_bin *bin =
        hc_likely(hc_match_is_recent(match, pattern)) ? match->recent : hc_match_make(match, pattern);
    if (hc_unlikely(!bin))
        return HCOMM_ERR_NO_MEMORY;
    hc_match_append(match, bin, recv);
    return HCOMM_OK;
}

/* Take a receive out; harmless when it is not posted. */
void hc_match_unpost(struct hc_match *match, struct hc_match_recv *recv);

/* The same for the first receive of an exact pattern. */
static inline void hc_match_unpost_first(struct hc_match *match, struct hc_match_recv *recv)
{
    struct hc_list *head = recv->node.prev;
    head->next = recv->node.next;
    recv->node.next->prev = head;
    match->posted[HC_MATCH_EXACT]--;
    recv->bin = NULL;
}

/* The receive that an arriving message (exact key) belongs to, taken out of matching; NULL when unexpected.
 */
static inline struct hc_match_recv *hc_match_arrive(struct hc_match *match, const struct hc_match_key *key)
{
    if (hc_unlikely(match->posted_wild)) {
        struct hc_match_recv *recv = hc_match_oldest(match, key);
        if (recv)
            hc_match_unpost(match, recv);
        return recv;
    }
    struct hc_match_bin *bin =
        hc_likely(hc_match_is_recent(match, key)) ? match->recent : hc_match_look_up(match, key);
    if (!bin || hc_list_empty(&bin->posted))
        return NULL;
    struct hc_match_recv *recv = hc_list_entry(bin->posted.next, struct hc_match_recv, node);
    hc_match_unpost_first(match, recv);
    return recv;
}

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
