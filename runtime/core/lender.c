#include "runtime/core/lender.h"

enum {
    PART = 8192,        /* the receiver begins to copy when that much has been written */
    HANDSHAKE_NS = 256, /* of a message that is lent, besides fetching */
};

static struct hc_lender_class *class_of(struct hc_lender *lender, size_t size)
{
    unsigned bits = 63 - (unsigned)__builtin_clzll(size | 1);
    unsigned index = bits < HC_LENDER_SMALLEST ? 0 : bits - HC_LENDER_SMALLEST;
    return &lender->classes[index < HC_LENDER_CLASSES ? index : HC_LENDER_CLASSES - 1];
}

/* Until it has been received: the receiver copies about as long, and most of it at the same time. */
static uint64_t copy_time(const struct hc_lender_class *class, size_t size)
{
    size_t more = size < PART ? size : PART;
    return (uint64_t) class->copy_cost * (size + more) / 1000;
}

static uint64_t lend_time(const struct hc_lender_class *class, size_t size)
{
    return (uint64_t) class->lend_cost * size / 1000 + HANDSHAKE_NS;
}

/* By an eighth at least: copying spares the peers each other's pace. */
static bool lending_is_faster(const struct hc_lender_class *class, size_t size)
{
    return class->copy_cost && class->lend_cost && lend_time(class, size) * 8 < copy_time(class, size) * 7;
}

static uint32_t period_of(const struct hc_lender_class *class, size_t size)
{
    uint64_t copied = copy_time(class, size), lent = lend_time(class, size);
    bool close = copied < 2 * lent && lent < 2 * copied;
    return close ? HC_LENDER_PERIOD : HC_LENDER_PERIOD * HC_LENDER_RARELY;
}

bool hc_lender_choose(struct hc_lender *lender, size_t size)
{
    struct hc_lender_class *class = class_of(lender, size);
    uint32_t message = class->count++;
    if (lender->rest) {
        lender->rest--;
        return false;
    }
    if (message < HC_LENDER_FIRST || !class->lend_cost || !class->copy_cost)
        return message >= HC_LENDER_COPIED && class->copy_cost;
    bool trial = message % period_of(class, size) < HC_LENDER_TRIALS;
    return lending_is_faster(class, size) != trial;
}

/* Losing the processor, or touching memory for the first time, must not count for long: more is believed
 * slowly, less at once. */
static uint32_t average(uint64_t known, uint64_t value)
{
    return (uint32_t)(value > known ? (known * 7 + value + 7) / 8 : (known + value + 1) / 2);
}

static void learn(const struct hc_lender_class *class, uint32_t *cost, size_t size, uint64_t ns)
{
    uint64_t value = ns * 1000 / size + 1, known = *cost;
    uint64_t limit = known ? known * 2 : UINT32_MAX / 4;
    value = value < limit ? value : limit;
    if (!known || (class->count <= HC_LENDER_FIRST && value < known))
        *cost = (uint32_t)value;
    else if (class->count > HC_LENDER_FIRST)
        *cost = average(known, value);
}

void hc_lender_copied(struct hc_lender *lender, size_t size, uint64_t ns)
{
    struct hc_lender_class *class = class_of(lender, size);
    learn(class, &class->copy_cost, size, ns);
}

/* After it the next loss ends lending again, unless as much as was lost has been saved by then. */
static void rest(struct hc_lender *lender)
{
    uint32_t next = lender->last * 2 < HC_LENDER_REST ? HC_LENDER_REST : lender->last * 2;
    lender->last = lender->rest = next < HC_LENDER_REST_MAX ? next : HC_LENDER_REST_MAX;
    lender->trust = -HC_LENDER_LOSS_MAX;
}

static void lose(struct hc_lender *lender, uint64_t ns)
{
    lender->trust -= (int32_t)(ns < HC_LENDER_WAIT_NS ? ns : HC_LENDER_WAIT_NS);
    if (lender->trust < -HC_LENDER_LOSS_MAX)
        rest(lender);
}

static void save(struct hc_lender *lender, const struct hc_lender_class *class, size_t size)
{
    uint64_t copied = copy_time(class, size), lent = lend_time(class, size);
    uint64_t saved = copied > lent ? copied - lent : 0;
    lender->trust += (int32_t)(saved < HC_LENDER_WAIT_NS ? saved : HC_LENDER_WAIT_NS);
    if (lender->trust > HC_LENDER_TRUST_MAX)
        lender->trust = HC_LENDER_TRUST_MAX;
    if (lender->trust >= 0)
        lender->last = 0;
}

void hc_lender_gave_up(struct hc_lender *lender)
{
    lose(lender, HC_LENDER_WAIT_NS);
}

void hc_lender_fetched(struct hc_lender *lender, size_t size, uint64_t ns, bool alone, uint64_t lent_ns)
{
    struct hc_lender_class *class = class_of(lender, size);
    learn(class, &class->lend_cost, size, ns);
    if (alone && lent_ns > ns + HC_LENDER_LATE_NS)
        lose(lender, lent_ns - ns);
    else
        save(lender, class, size);
}
