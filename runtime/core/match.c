#include "runtime/core/match.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_TABLE_SIZE = 256, BINS_PER_SLAB = 64 };

static unsigned class_of(const struct hc_match_key *key)
{
    return (key->source == HCOMM_ANY_SOURCE ? HC_MATCH_ANY_SOURCE : 0) |
           (key->tag == HCOMM_ANY_TAG ? HC_MATCH_ANY_TAG : 0);
}

_Static_assert((HC_MATCH_ANY_SOURCE | HC_MATCH_ANY_TAG) == HC_MATCH_ANY, "classes are bit sets");

static struct hc_match_key widen(const struct hc_match_key *key, unsigned class)
{
    struct hc_match_key wide = *key;
    if (class & HC_MATCH_ANY_SOURCE)
        wide.source = HCOMM_ANY_SOURCE;
    if (class & HC_MATCH_ANY_TAG)
        wide.tag = HCOMM_ANY_TAG;
    return wide;
}

/* Multiply-and-fold of the three parts; the table takes the low bits. */
static size_t hash_key(const struct hc_match_key *key)
{
    uint64_t pair = ((uint64_t)(uint32_t)key->source << 32) | (uint32_t)key->tag;
    uint64_t mixed = (pair ^ (key->comm * UINT64_C(0x9e3779b97f4a7c15))) * UINT64_C(0xd6e8feb86659fd93);
    return (size_t)(mixed ^ (mixed >> 32));
}

hcomm_status_t hc_match_init(struct hc_match *match)
{
    *match = (struct hc_match){.table_size = FIRST_TABLE_SIZE};
    match->table = calloc(match->table_size, sizeof(struct hc_match_bin *));
    if (!match->table)
        return hc_error(HCOMM_ERR_NO_MEMORY, "matching table: out of memory");
    hc_pool_init(&match->bin_pool, sizeof(struct hc_match_bin), BINS_PER_SLAB);
    match->indexed[HC_MATCH_EXACT] = true;
    hc_list_init(&match->all);
    return HCOMM_OK;
}

void hc_match_fini(struct hc_match *match)
{
    free(match->table);
    match->table = NULL;
    hc_pool_fini(&match->bin_pool);
}

static inline struct hc_match_bin *bin_find(const struct hc_match *match, const struct hc_match_key *key)
{
    struct hc_match_bin *bin = match->table[hash_key(key) & (match->table_size - 1)];
    while (bin && !hc_match_same_key(&bin->key, key))
        bin = bin->next;
    return bin;
}

static bool bin_idle(const struct hc_match_bin *bin)
{
    return hc_list_empty(&bin->posted) && hc_list_empty(&bin->messages);
}

/* Bins are kept when they run empty, for the next message of the same pattern; this frees those. */
static void sweep_idle_bins(struct hc_match *match)
{
    for (size_t i = 0; i < match->table_size; i++) {
        struct hc_match_bin **link = &match->table[i];
        while (*link) {
            struct hc_match_bin *bin = *link;
            if (!bin_idle(bin)) {
                link = &bin->next;
                continue;
            }
            *link = bin->next;
            if (match->recent == bin)
                match->recent = NULL;
            hc_pool_put(&match->bin_pool, bin);
            match->num_bins--;
        }
    }
}

static void grow_table(struct hc_match *match)
{
    size_t size = match->table_size * 4;
    struct hc_match_bin **table = calloc(size, sizeof(struct hc_match_bin *));
    if (!table)
        return; /* longer chains are slower, not wrong */
    for (size_t i = 0; i < match->table_size; i++) {
        while (match->table[i]) {
            struct hc_match_bin *bin = match->table[i];
            match->table[i] = bin->next;
            size_t slot = hash_key(&bin->key) & (size - 1);
            bin->next = table[slot];
            table[slot] = bin;
        }
    }
    free(match->table);
    match->table = table;
    match->table_size = size;
}

/* Sweeping pays for itself: it runs after table_size new bins, and growth follows only when most are in use.
 */
static void make_room(struct hc_match *match)
{
    if (match->num_bins < match->table_size)
        return;
    sweep_idle_bins(match);
    if (match->num_bins > match->table_size / 2)
        grow_table(match);
}

static struct hc_match_bin *bin_create(struct hc_match *match, const struct hc_match_key *key)
{
    make_room(match);
    struct hc_match_bin *bin = hc_pool_get(&match->bin_pool);
    if (!bin)
        return NULL;
    size_t slot = hash_key(key) & (match->table_size - 1);
    bin->key = *key;
    bin->class = class_of(key);
    bin->next = match->table[slot];
    hc_list_init(&bin->posted);
    hc_list_init(&bin->messages);
    match->table[slot] = bin;
    match->num_bins++;
    return bin;
}

static struct hc_match_bin *bin_get(struct hc_match *match, const struct hc_match_key *key)
{
    struct hc_match_bin *bin = bin_find(match, key);
    return hc_likely(bin != NULL) ? bin : bin_create(match, key);
}

void hc_match_unpost(struct hc_match *match, struct hc_match_recv *recv)
{
    if (!recv->bin)
        return;
    hc_list_remove(&recv->node);
    match->posted[recv->bin->class]--;
    match->posted_wild -= recv->bin->class != HC_MATCH_EXACT;
    recv->bin = NULL;
}

struct hc_match_bin *hc_match_look_up(struct hc_match *match, const struct hc_match_key *key)
{
    struct hc_match_bin *bin = bin_find(match, key);
    if (bin)
        match->recent = bin;
    return bin;
}

struct hc_match_bin *hc_match_make(struct hc_match *match, const struct hc_match_key *key)
{
    struct hc_match_bin *bin = bin_get(match, key);
    if (hc_likely(bin != NULL))
        match->recent = bin;
    else
        (void)hc_error(HCOMM_ERR_NO_MEMORY, "posting a receive: out of memory");
    return bin;
}

static struct hc_match_recv *first_posted(const struct hc_match *match, const struct hc_match_key *key,
                                          unsigned class)
{
    struct hc_match_key wide = widen(key, class);
    struct hc_match_bin *bin = bin_find(match, &wide);
    if (!bin || hc_list_empty(&bin->posted))
        return NULL;
    return hc_list_entry(bin->posted.next, struct hc_match_recv, node);
}

/* Of the first receives of all classes the one that was posted first. */
struct hc_match_recv *hc_match_oldest(const struct hc_match *match, const struct hc_match_key *key)
{
    struct hc_match_recv *oldest = NULL;
    for (unsigned class = 0; class < HC_MATCH_CLASSES; class ++) {
        if (!match->posted[class])
            continue;
        struct hc_match_recv *recv = first_posted(match, key, class);
        if (recv && (!oldest || recv->sequence < oldest->sequence))
            oldest = recv;
    }
    return oldest;
}

static hcomm_status_t index_message(struct hc_match *match, struct hc_match_message *message, unsigned class)
{
    struct hc_match_key wide = widen(&message->key, class);
    struct hc_match_bin *bin = bin_get(match, &wide);
    if (!bin)
        return hc_error(HCOMM_ERR_NO_MEMORY, "keeping an unexpected message: out of memory");
    message->bins[class] = bin;
    hc_list_append(&bin->messages, &message->nodes[class]);
    return HCOMM_OK;
}

static void unindex_message(struct hc_match_message *message, unsigned class)
{
    if (!message->bins[class])
        return;
    hc_list_remove(&message->nodes[class]);
    message->bins[class] = NULL;
}

hcomm_status_t hc_match_keep(struct hc_match *match, struct hc_match_message *message)
{
    for (unsigned class = 0; class < HC_MATCH_CLASSES; class ++)
        message->bins[class] = NULL;
    for (unsigned class = 0; class < HC_MATCH_CLASSES; class ++) {
        hcomm_status_t status = match->indexed[class] ? index_message(match, message, class) : HCOMM_OK;
        if (status != HCOMM_OK) {
            while (class -- > 0)
                unindex_message(message, class);
            return status;
        }
    }
    hc_list_append(&match->all, &message->all);
    match->num_messages++;
    return HCOMM_OK;
}

void hc_match_drop(struct hc_match *match, struct hc_match_message *message)
{
    for (unsigned class = 0; class < HC_MATCH_CLASSES; class ++)
        unindex_message(message, class);
    hc_list_remove(&message->all);
    match->num_messages--;
}

static void unindex_all(struct hc_match *match, unsigned class)
{
    struct hc_list *node;
    hc_list_for_each(node, &match->all)
        unindex_message(hc_list_entry(node, struct hc_match_message, all), class);
}

/* First use of a class of wildcards: index what is there already, in arrival order. */
static bool index_class(struct hc_match *match, unsigned class)
{
    struct hc_list *node;
    hc_list_for_each(node, &match->all)
    {
        struct hc_match_message *message = hc_list_entry(node, struct hc_match_message, all);
        if (index_message(match, message, class) != HCOMM_OK) {
            unindex_all(match, class);
            return false;
        }
    }
    match->indexed[class] = true;
    return true;
}

/* Without memory for an index the answer is still right, only slower. */
static struct hc_match_message *find_linear(const struct hc_match *match, const struct hc_match_key *pattern)
{
    struct hc_list *node;
    hc_list_for_each(node, &match->all)
    {
        struct hc_match_message *message = hc_list_entry(node, struct hc_match_message, all);
        if (hc_match_takes(pattern, &message->key))
            return message;
    }
    return NULL;
}

struct hc_match_message *hc_match_find(struct hc_match *match, const struct hc_match_key *pattern)
{
    if (!match->num_messages)
        return NULL;
    unsigned class = class_of(pattern);
    if (hc_unlikely(!match->indexed[class]) && !index_class(match, class))
        return find_linear(match, pattern);
    struct hc_match_bin *bin = bin_find(match, pattern);
    if (!bin || hc_list_empty(&bin->messages))
        return NULL;
    struct hc_list *node = bin->messages.next;
    return hc_container_of(node - class, struct hc_match_message, nodes);
}

void hc_match_visit_posted(struct hc_match *match, bool (*visit)(struct hc_match_recv *recv, void *arg),
                           void *arg)
{
    for (size_t i = 0; i < match->table_size; i++) {
        for (struct hc_match_bin *bin = match->table[i]; bin; bin = bin->next) {
            struct hc_list *node, *next;
            hc_list_for_each_safe(node, next, &bin->posted)
            {
                struct hc_match_recv *recv = hc_list_entry(node, struct hc_match_recv, node);
                if (visit(recv, arg))
                    hc_match_unpost(match, recv);
            }
        }
    }
}
