/*
 * Which way messages take, learned while they move, because what is faster depends on the machine and on how
 * far apart the two processors are, which nobody tells and which changes.
 *
 * - Long messages: through a stream (two copies, each side makes one), or direct, straight from the sender's
 *   buffer (one copy by the kernel), which the receiver makes alone or shares with the sender. The receiver
 *   times all, per class of sizes, and publishes whether direct is faster; the sender takes the other way
 * from time to time. Alone or shared is up to the receiver.
 * - Short messages, from some KiB on: by which loop the sender copies them into the ring. It times its copy,
 *   and the receiver tells how long it took to copy them out.
 * - Copies into streams: through the caches, or past them, which is faster where the receiver's processor is
 *   far away. The sender times some, and stays with the faster way.
 *
 * A trial costs what the slower way costs more. So there are few, a way that is much slower is only looked at
 * now and then, and what is known of a class of sizes is presumed of the next one.
 */
#ifndef NPU_WAYS_H
#define NPU_WAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <x86intrin.h>

/* Time as it is cheapest to have. */
static inline uint64_t npu_cycles(void)
{
    return __rdtsc();
}

/* Take a measured value into account: lower ones soon, higher ones slowly. Losing the processor, or touching
 * memory for the first time, must not count for long. */
static inline void npu_way_average(uint32_t *cost, uint64_t value)
{
    uint64_t limit = *cost ? (uint64_t)*cost * 2 : UINT32_MAX / 4;
    value = value > limit ? limit : value;
    if (*cost == 0)
        *cost = (uint32_t)value;
    else
        *cost = value > *cost ? (uint32_t)((*cost * UINT64_C(7) + value + 7) / 8)
                              : (uint32_t)((*cost + value + 1) / 2);
}

/* ---- Trials ---- */

enum {
    NPU_TRIAL_GROWTH = 4,    /* the next trial begins after so many times the messages, … */
    NPU_TRIAL_PERIOD = 1024, /* … at last after so many */
};

/* Messages since the last trial was to begin, given their number and that of the first trial's first. */
static inline uint32_t npu_trial_age(uint32_t number, uint32_t first)
{
    uint32_t begin = first;
    if (number < first)
        return UINT32_MAX;
    if (number >= NPU_TRIAL_PERIOD)
        return number % NPU_TRIAL_PERIOD;
    while (begin * NPU_TRIAL_GROWTH <= number)
        begin *= NPU_TRIAL_GROWTH;
    return number - begin;
}

/* ---- Long messages ---- */

enum npu_way { NPU_WAY_STREAM, NPU_WAY_ALONE, NPU_WAY_SHARED, NPU_WAYS };

enum {
    NPU_WAY_CLASSES = 12,  /* of sizes, each twice the one before */
    NPU_WAY_SMALLEST = 13, /* the first begins at 2^13 bytes */
    NPU_WAY_FIRST = 64,    /* messages of a class before the sender tries the other way */
    NPU_WAY_TRIALS = 6,    /* consecutive messages of a trial */
    NPU_WAY_SETTLED = 2,   /* the first ones after a change pay for the change, and do not count */
    NPU_WAY_GLANCE = NPU_WAY_SETTLED + 1, /* messages of a trial of a way that was much slower */

    NPU_SHARE_FIRST = 32,         /* direct messages of a class before the receiver tries the other way */
    NPU_SHARE_TRIALS = 4,         /* consecutive messages of such a trial */
    NPU_SHARE_MIN = 64 << 10,     /* shorter messages are over before the sender has been asked */
    NPU_SHARE_LIKELY = 192 << 10, /* from here on sharing is presumed faster */
};

/*
 * What a receiver publishes (npu_chan_head.ways): bit i: class i is faster direct; bit NPU_WAY_CLASSES + i:
 * the other way is much slower there.
 */
#define NPU_WAYS_OFFERED (UINT32_C(1) << 31)

static inline unsigned npu_way_class(size_t size)
{
    unsigned bits = 63 - (unsigned)__builtin_clzll(size | 1);
    unsigned index = bits < NPU_WAY_SMALLEST ? 0 : bits - NPU_WAY_SMALLEST;
    return index < NPU_WAY_CLASSES ? index : NPU_WAY_CLASSES - 1;
}

/* The sender's part: messages of each class so far. */
struct npu_way_picker {
    uint32_t count[NPU_WAY_CLASSES];
};

/* Whether the message with that number of its class is to try the other way, which may be much slower. */
static inline bool npu_way_is_trial(uint32_t number, bool slow)
{
    if (slow && number < NPU_TRIAL_PERIOD)
        return false;
    return npu_trial_age(number, NPU_WAY_FIRST) < (slow ? NPU_WAY_GLANCE : NPU_WAY_TRIALS);
}

/* Whether the next message of that size goes direct, given what the receiver published. */
static inline bool npu_way_pick(struct npu_way_picker *picker, size_t size, uint32_t published)
{
    unsigned class = npu_way_class(size);
    bool direct = published >> class & 1, slow = published >> (NPU_WAY_CLASSES + class) & 1;
    return npu_way_is_trial(picker->count[class]++, slow) ? !direct : direct;
}

struct npu_way_cost {
    uint32_t cost[NPU_WAYS]; /* cycles per KiB; 0: unknown */
    uint32_t run;            /* messages in a row that took the same way */
    enum npu_way way;        /* which one */
    uint32_t directs;        /* messages so far that came direct */
};

/* The receiver's part. Zero-initialised: nothing is known. */
struct npu_way_costs {
    uint64_t last_end; /* when the last message ended */
    struct npu_way_cost classes[NPU_WAY_CLASSES];
};

/* Of direct messages; 0: unknown. */
static inline uint32_t npu_way_direct_cost(const struct npu_way_cost *class)
{
    uint32_t alone = class->cost[NPU_WAY_ALONE], shared = class->cost[NPU_WAY_SHARED];
    return shared && (!alone || shared < alone) ? shared : alone;
}

/* Direct is the way of which less must be known: it needs no memory. */
static inline bool npu_way_is_direct(const struct npu_way_cost *class)
{
    uint32_t stream = class->cost[NPU_WAY_STREAM], direct = npu_way_direct_cost(class);
    /* an eighth for what the receiver does not see: telling the sender that its buffer is free */
    return !stream || direct + direct / 8 < stream;
}

/* Whether the way that is not preferred is known to be much slower, or presumed to. */
static inline bool npu_way_is_clear(const struct npu_way_cost *class, bool presumed)
{
    uint32_t stream = class->cost[NPU_WAY_STREAM], direct = npu_way_direct_cost(class);
    if (!stream || !direct)
        return presumed;
    uint32_t fast = stream < direct ? stream : direct, slow = stream < direct ? direct : stream;
    return slow - fast > fast / 2;
}

/* What to publish about the classes. Where direct is clearly better it is presumed to be so for longer
 * messages. */
static inline uint32_t npu_way_preference(const struct npu_way_costs *costs)
{
    uint32_t bits = 0;
    bool clear = false;
    for (unsigned i = 0; i < NPU_WAY_CLASSES; i++) {
        bool is_direct = npu_way_is_direct(&costs->classes[i]);
        bool is_clear = npu_way_is_clear(&costs->classes[i], clear);
        bits |= (uint32_t)is_direct << i | (uint32_t)is_clear << (NPU_WAY_CLASSES + i);
        clear = is_direct && is_clear;
    }
    return bits;
}

/* Whether to ask the sender to share in the copy of the next direct message of that size. */
static inline bool npu_way_share(struct npu_way_costs *costs, size_t size)
{
    struct npu_way_cost *class = &costs->classes[npu_way_class(size)];
    uint32_t alone = class->cost[NPU_WAY_ALONE], shared = class->cost[NPU_WAY_SHARED];
    if (size < NPU_SHARE_MIN)
        return false;
    bool share = alone && shared ? shared < alone : size >= NPU_SHARE_LIKELY;
    return npu_trial_age(class->directs++, NPU_SHARE_FIRST) < NPU_SHARE_TRIALS ? !share : share;
}

/* A message has ended. It counts for the time that it added to those before it. began: npu_cycles(). */
static inline void npu_way_learn(struct npu_way_costs *costs, enum npu_way way, size_t size, uint64_t began)
{
    uint64_t ended = npu_cycles(), from = began > costs->last_end ? began : costs->last_end;
    struct npu_way_cost *class = &costs->classes[npu_way_class(size)];
    costs->last_end = ended;
    if (class->way != way) {
        class->way = way;
        class->run = 0;
    }
    if (class->run++ < NPU_WAY_SETTLED || ended <= from || size == 0)
        return;
    npu_way_average(&class->cost[way], (ended - from) * 1024 / size + 1);
}

/* ---- Short messages: copies into the ring ---- */

enum npu_pack {
    NPU_PACK_LOOP,   /* by cache lines */
    NPU_PACK_PIECES, /* with the C library, in pieces that are too short for its string instruction */
    NPU_PACK_PAST,   /* past the caches */
    NPU_PACKS,
};

enum {
    NPU_PACK_MIN = 2048,   /* bytes: shorter ones are not learned about */
    NPU_PACK_CLASSES = 3,  /* from 2048, 4096, 8192 bytes */
    NPU_PACK_FIRST = 64,   /* copies of a class before a trial */
    NPU_PACK_TRIALS = 4,   /* consecutive copies by each loop in a trial */
    NPU_PACK_SETTLED = 2,  /* the first of them are not timed */
    NPU_PACK_PATIENCE = 8, /* long messages to wait for the receiver's answer about one */
};

/* Of an answer: which copy it is about, and how many cycles the receiver took. */
static inline uint64_t npu_pack_answer(uint32_t id, uint64_t cycles)
{
    return (uint64_t)id << 32 | (cycles < UINT32_MAX ? cycles : UINT32_MAX);
}

/* Copies of that many bytes, at most of the longest message in the ring, are learned about together. */
static inline unsigned npu_pack_class(size_t len)
{
    return 63 - (unsigned)__builtin_clzll(len / NPU_PACK_MIN);
}

/* Zero-initialised: nothing is known. */
struct npu_packer {
    struct {
        uint32_t count;
        uint32_t cost[NPU_PACKS]; /* cycles per KiB, of both sides; 0: unknown */
        enum npu_pack best;
    } classes[NPU_PACK_CLASSES];
    /* The copy that is timed, if `waited` is below NPU_PACK_PATIENCE. */
    uint32_t id; /* 0: none ever was */
    enum npu_pack pack;
    uint32_t len, waited;
    uint64_t cycles; /* of the sender */
};

/* How to copy the next message of that size; timed: whether to measure it. */
static inline enum npu_pack npu_pack_pick(struct npu_packer *packer, size_t len, bool *timed)
{
    unsigned class = npu_pack_class(len);
    enum npu_pack best = packer->classes[class].best;
    uint32_t age = npu_trial_age(packer->classes[class].count++, NPU_PACK_FIRST);
    bool awaiting = packer->id && packer->waited < NPU_PACK_PATIENCE;
    packer->waited += awaiting;
    *timed = age < NPU_PACKS * NPU_PACK_TRIALS && age % NPU_PACK_TRIALS >= NPU_PACK_SETTLED && !awaiting;
    return age < NPU_PACKS * NPU_PACK_TRIALS ? (best + age / NPU_PACK_TRIALS) % NPU_PACKS : best;
}

/* A timed copy was made. Returns its id, never 0, for the receiver. */
static inline uint32_t npu_pack_made(struct npu_packer *packer, size_t len, enum npu_pack pack,
                                     uint64_t cycles)
{
    packer->id = packer->id == UINT32_MAX ? 1 : packer->id + 1;
    packer->pack = pack;
    packer->len = (uint32_t)len;
    packer->cycles = cycles;
    packer->waited = 0;
    return packer->id;
}

/* What the receiver answered last, perhaps to an older copy. */
static inline void npu_pack_learn(struct npu_packer *packer, uint64_t answer)
{
    if (packer->waited >= NPU_PACK_PATIENCE || !packer->id || answer >> 32 != packer->id)
        return;
    unsigned class = npu_pack_class(packer->len);
    uint32_t *cost = packer->classes[class].cost, *mine = &cost[packer->pack];
    packer->waited = NPU_PACK_PATIENCE;
    npu_way_average(mine, (packer->cycles + (uint32_t)answer) * 1024 / packer->len + 1);
    for (unsigned i = 0; i < NPU_PACKS; i++) {
        uint32_t best = cost[packer->classes[class].best];
        if (cost[i] && best && cost[i] + cost[i] / 8 < best)
            packer->classes[class].best = (enum npu_pack)i;
    }
}

/* ---- Copies into streams ---- */

enum {
    NPU_PAST_FIRST = 64,  /* copies before a trial of the slower way, and then of the faster one */
    NPU_PAST_TRIALS = 4,  /* of either way: the first ones after a change pay for the change */
    NPU_PAST_PRICE = 128, /* cycles per KiB: what the receiver pays more for what is not in any cache */
};

/* Zero-initialised: through the caches first. */
struct npu_past {
    uint32_t count;
    uint32_t cost[2]; /* cycles per KiB: through, past the caches; 0: unknown */
    bool past;        /* the copy being made */
    uint64_t start;   /* 0: it is not timed */
};

static inline bool npu_past_is_faster(const struct npu_past *tuner)
{
    return tuner->cost[1] + NPU_PAST_PRICE < tuner->cost[0];
}

/* Begin a copy; whether to write it past the caches. */
static inline bool npu_past_begin(struct npu_past *tuner)
{
    uint32_t age = npu_trial_age(tuner->count++, NPU_PAST_FIRST);
    bool faster = npu_past_is_faster(tuner);
    /* What is faster may change between the halves of a trial. Both are timed all the same. */
    if (age < NPU_PAST_TRIALS)
        tuner->past = !faster;
    else if (age == NPU_PAST_TRIALS)
        tuner->past = !tuner->past;
    else if (age >= 2 * NPU_PAST_TRIALS)
        tuner->past = faster;
    tuner->start = age < 2 * NPU_PAST_TRIALS ? npu_cycles() : 0;
    return tuner->past;
}

/* End a copy of len bytes: learn from it. */
static inline void npu_past_end(struct npu_past *tuner, size_t len)
{
    if (!tuner->start)
        return;
    npu_way_average(&tuner->cost[tuner->past], (npu_cycles() - tuner->start) * 1024 / len);
}

#endif
