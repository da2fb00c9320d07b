#include "runtime/core/chooser.h"

unsigned hc_chooser_class(size_t size)
{
    unsigned bits = 63 - (unsigned)__builtin_clzll(size | 1);
    unsigned index = bits < HC_CHOOSER_SMALLEST ? 0 : (bits - HC_CHOOSER_SMALLEST) / 2;
    return index < HC_CHOOSER_CLASSES ? index : HC_CHOOSER_CLASSES - 1;
}

/* ---- runs ---- */

/* A little slower is not worth a change, during which both are under way. */
static bool is_slower(const struct hc_chooser_class *class)
{
    uint64_t used = class->cost[class->shared], other = class->cost[!class->shared];
    return used * 15 > other * 16;
}

/* So rare that trials cost a hundredth: one is a block and the message before it, which pays for the change.
 */
static uint32_t period_of(const struct hc_chooser_class *class)
{
    uint64_t used = class->cost[class->shared], other = class->cost[!class->shared];
    uint64_t lost = other > used ? (other - used) * HC_CHOOSER_BLOCK / used : 0;
    lost = lost < HC_CHOOSER_RARELY ? lost : HC_CHOOSER_RARELY;
    return HC_CHOOSER_PERIOD * (lost ? (uint32_t)lost : 1);
}

/* Whether one way takes twice as long in its best block; both are known then. */
static bool is_clear(const struct hc_chooser_class *class)
{
    uint64_t used = class->cost[class->shared], other = class->cost[!class->shared];
    return class->run >= HC_CHOOSER_START / 2 && (used > 2 * other || other > 2 * used);
}

/* At the start both ways alternate, until it is clear which is faster. */
static bool is_starting(const struct hc_chooser_class *class)
{
    return class->run <= HC_CHOOSER_START && !is_clear(class);
}

static bool is_over(const struct hc_chooser_class *class)
{
    if (!class->blocks)
        return false;
    return is_starting(class) || is_slower(class) || class->blocks >= period_of(class);
}

static void start_block(struct hc_chooser_class *class)
{
    uint32_t in_flight = class->in_flight - class->older;
    class->wanted = in_flight > HC_CHOOSER_BLOCK ? in_flight : HC_CHOOSER_BLOCK;
    class->ended = 0;
    class->bytes = class->ns = 0;
}

/* The runs alternate; one that tries the slower way is over after one block. */
static void start_run(struct hc_chooser_class *class)
{
    class->shared = class->run && !class->shared;
    class->run++;
    class->blocks = 0;
    class->older = class->in_flight;
    class->warm = false;
    start_block(class);
}

/* Begin as the class of shorter messages goes on, where that is clear: its costs are nearly right, and trials
 * show where not. */
static void start_class(struct hc_chooser_class *class, const struct hc_chooser_class *shorter)
{
    if (!shorter || !is_clear(shorter))
        return;
    class->run = HC_CHOOSER_START;
    class->cost[0] = shorter->cost[0];
    class->cost[1] = shorter->cost[1];
    class->shared = class->cost[0] <= class->cost[1]; /* the run that starts takes the other way */
}

struct hc_choice hc_chooser_pick(struct hc_chooser *chooser, size_t size, uint64_t now)
{
    struct hc_chooser_class *class = &chooser->classes[hc_chooser_class(size)];
    if (!chooser->in_flight++)
        chooser->mark = now;
    if (!class->run) {
        start_class(class, class > chooser->classes ? class - 1 : NULL);
        start_run(class);
    } else if (is_over(class))
        start_run(class);
    class->in_flight++;
    uint32_t together = class->in_flight - class->older;
    class->wanted = together > class->wanted ? together : class->wanted;
    return (struct hc_choice){class->shared ? HC_WAY_ONE_COPY : HC_WAY_PIECES, class->run};
}

/* ---- ends ---- */

static uint32_t limited(uint64_t value, uint64_t limit)
{
    return (uint32_t)(value < limit ? value : limit);
}

/* Losing the processor, or touching memory for the first time, must not count for long: more is believed
 * slowly, less at once. */
static uint32_t average(uint64_t cost, uint64_t value)
{
    value = limited(value, cost * 2);
    return (uint32_t)(value > cost ? (cost * 7 + value + 7) / 8 : (cost + value + 1) / 2);
}

static void complete_block(struct hc_chooser_class *class)
{
    uint64_t value = class->ns * 1000 / class->bytes + 1;
    uint32_t *cost = &class->cost[class->shared];
    if (class->run <= HC_CHOOSER_START && !class->blocks)
        *cost = *cost && *cost < value ? *cost : limited(value, UINT32_MAX / 4);
    else
        *cost = average(*cost, value);
    class->blocks++;
    start_block(class);
}

static bool is_current(const struct hc_chooser_class *class, struct hc_choice choice)
{
    return choice.run == class->run;
}

void hc_chooser_drop(struct hc_chooser *chooser, struct hc_choice choice, size_t size)
{
    struct hc_chooser_class *class = &chooser->classes[hc_chooser_class(size)];
    chooser->in_flight--;
    class->in_flight--;
    class->older -= !is_current(class, choice);
}

void hc_chooser_learn(struct hc_chooser *chooser, struct hc_choice choice, size_t size, uint64_t now)
{
    struct hc_chooser_class *class = &chooser->classes[hc_chooser_class(size)];
    bool mixed = class->older > 0;
    uint64_t added = now - chooser->mark;
    hc_chooser_drop(chooser, choice, size);
    chooser->mark = now;
    if (mixed)
        return;
    bool pays = !class->warm && !class->in_flight;
    class->warm = true;
    if (pays)
        return;
    class->ns += added;
    class->bytes += size;
    if (++class->ended >= class->wanted)
        complete_block(class);
}
