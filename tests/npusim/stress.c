/*
 * Random operations on streams of several devices, from several threads, against a model.
 *
 * Every location (a word of device memory) is written by copies that form chains. The model is a partial
 * order: an operation comes after the one before it on its stream, and after the record it waits for. The
 * program draws operations in one sequence and only lets an operation touch a location when the model says
 * that all earlier ones on the location come before it, so that executing the sequence one by one gives the
 * only legal result; each host function checks the values it must see at that point.
 */
#include "tests/npusim/npusim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum {
    DEVICES = 3,
    STREAMS = 9,
    EVENTS = 12,
    CELLS = 24,
    WORDS = 257,
    STEPS = 4000,
    ROUNDS = 3,
    THREADS = 2
};

/* What a stream is known to come after: how many operations of each stream. */
struct knowledge {
    int of[STREAMS];
};

struct model {
    struct knowledge stream[STREAMS], event[EVENTS];
    bool recorded[EVENTS];
    struct {
        uint32_t value;
        int last_stream, last_step; /* of the last operation that touched it */
    } cell[CELLS];
};

struct world {
    unsigned seed;
    hc_acl_stream_t streams[STREAMS];
    hc_acl_event_t events[EVENTS];
    uint32_t *cells[CELLS]; /* on device i % DEVICES */
    uint32_t *host;         /* pinned: one block of words per step */
    struct model model;
};

/* One expectation per step: the block must hold the value when the function runs. */
struct check {
    const uint32_t *block;
    uint32_t value;
};

static struct check checks[THREADS][STEPS];
static atomic_int wrong, checked;

static unsigned draw(struct world *world, unsigned below)
{
    world->seed = world->seed * 1664525u + 1013904223u;
    return (world->seed >> 10) % below;
}

static void check_block(void *arg)
{
    const struct check *check = arg;
    for (int i = 0; i < WORDS; i++)
        if (check->block[i] != check->value + (uint32_t)i)
            (void)atomic_fetch_add(&wrong, 1);
    (void)atomic_fetch_add(&checked, 1);
}

static int device_of(int stream)
{
    return stream % DEVICES;
}

static void learn(struct knowledge *to, const struct knowledge *from)
{
    for (int i = 0; i < STREAMS; i++)
        if (to->of[i] < from->of[i])
            to->of[i] = from->of[i];
}

/* Whether everything that touched the cell comes before the next operation of the stream. */
static bool ordered(const struct model *model, int stream, int cell)
{
    return model->stream[stream].of[model->cell[cell].last_stream] >= model->cell[cell].last_step;
}

/* The next operation of a stream; returns its number. */
static int advance(struct model *model, int stream)
{
    return ++model->stream[stream].of[stream];
}

static void touch(struct model *model, int stream, int cell, int step)
{
    model->cell[cell].last_stream = stream;
    model->cell[cell].last_step = step;
}

static int pick_cell(struct world *world, int stream)
{
    for (int tries = 0; tries < 8; tries++) {
        int cell = (int)draw(world, CELLS);
        if (ordered(&world->model, stream, cell))
            return cell;
    }
    return -1;
}

/* Copies from or to the host are the cell's device's; between devices, the stream's. */
static void write_cell(struct world *world, int stream, int cell, uint32_t *block, uint32_t value)
{
    for (int i = 0; i < WORDS; i++)
        block[i] = value + (uint32_t)i;
    expect_ok(acl.aclrtMemcpyAsync(world->cells[cell], WORDS * 4, block, WORDS * 4, HC_ACL_H2D,
                                   world->streams[stream]));
    world->model.cell[cell].value = value;
    touch(&world->model, stream, cell, advance(&world->model, stream));
}

static void copy_cell(struct world *world, int stream, int from, int to)
{
    expect_ok(acl.aclrtMemcpyAsync(world->cells[to], WORDS * 4, world->cells[from], WORDS * 4, HC_ACL_D2D,
                                   world->streams[stream]));
    int step = advance(&world->model, stream);
    world->model.cell[to].value = world->model.cell[from].value;
    touch(&world->model, stream, to, step);
    touch(&world->model, stream, from, step);
}

static void read_cell(struct world *world, int stream, int cell, uint32_t *block, struct check *check)
{
    *check = (struct check){.block = block, .value = world->model.cell[cell].value};
    expect_ok(acl.aclrtMemcpyAsync(block, WORDS * 4, world->cells[cell], WORDS * 4, HC_ACL_D2H,
                                   world->streams[stream]));
    expect_ok(acl.aclrtLaunchHostFunc(world->streams[stream], check_block, check));
    touch(&world->model, stream, cell, advance(&world->model, stream));
    (void)advance(&world->model, stream);
}

static void use_event(struct world *world, int stream, int event)
{
    struct model *model = &world->model;
    if (draw(world, 2)) {
        expect_ok(acl.aclrtRecordEvent(world->events[event], world->streams[stream]));
        (void)advance(model, stream);
        model->event[event] = model->stream[stream];
        model->recorded[event] = true;
        return;
    }
    expect_ok(acl.aclrtStreamWaitEvent(world->streams[stream], world->events[event]));
    if (model->recorded[event])
        learn(&model->stream[stream], &model->event[event]);
}

/* Wait on the host: what was enqueued on the stream is then before everything enqueued later, anywhere. */
static void synchronize(struct world *world, int stream)
{
    struct model *model = &world->model;
    struct knowledge known = model->stream[stream];
    expect_ok(acl.aclrtSynchronizeStream(world->streams[stream]));
    for (int i = 0; i < STREAMS; i++)
        learn(&model->stream[i], &known);
}

static int one_step(struct world *world, int step, struct check *check)
{
    uint32_t *block = world->host + (size_t)step * WORDS;
    int stream = (int)draw(world, STREAMS), cell = pick_cell(world, stream), other = pick_cell(world, stream);
    unsigned what = draw(world, 100);
    expect_ok(acl.aclrtSetDevice(device_of(stream)));
    if (what < 40)
        use_event(world, stream, (int)draw(world, EVENTS));
    else if (what < 42)
        synchronize(world, stream);
    else if (what < 60 && cell >= 0)
        write_cell(world, stream, cell, block, (uint32_t)step * 1000003u);
    else if (what < 80 && cell >= 0 && other >= 0 && cell != other)
        copy_cell(world, stream, cell, other);
    else if (cell >= 0) {
        read_cell(world, stream, cell, block, check);
        return 1;
    }
    return 0;
}

static void prepare(struct world *world)
{
    memset(&world->model, 0, sizeof(world->model));
    expect_ok(acl.aclrtSetDevice(0));
    world->host = npusim_host_alloc((size_t)STEPS * WORDS * 4);
    for (int i = 0; i < CELLS; i++) {
        expect_ok(acl.aclrtSetDevice(i % DEVICES));
        world->cells[i] = npusim_device_alloc(WORDS * 4);
        for (int word = 0; word < WORDS; word++)
            world->host[word] = (uint32_t)word;
        expect_ok(acl.aclrtMemcpy(world->cells[i], WORDS * 4, world->host, WORDS * 4, HC_ACL_H2D));
    }
    for (int i = 0; i < STREAMS; i++) {
        expect_ok(acl.aclrtSetDevice(device_of(i)));
        world->streams[i] = npusim_stream();
    }
    for (int i = 0; i < EVENTS; i++) {
        expect_ok(acl.aclrtSetDevice(i % DEVICES));
        world->events[i] = npusim_event();
    }
}

static void clean(struct world *world)
{
    for (int i = 0; i < STREAMS; i++) {
        expect_ok(acl.aclrtSetDevice(device_of(i)));
        expect_ok(acl.aclrtDestroyStream(world->streams[i])); /* waits for what is queued */
    }
    for (int i = 0; i < EVENTS; i++)
        expect_ok(acl.aclrtDestroyEvent(world->events[i]));
    for (int i = 0; i < CELLS; i++)
        expect_ok(acl.aclrtFree(world->cells[i]));
    expect_ok(acl.aclrtFreeHost(world->host));
}

static void *work(void *arg)
{
    int thread = *(int *)arg, reads = 0;
    struct world *world = calloc(1, sizeof(*world));
    expect(world);
    world->seed = (unsigned)time(NULL) * 2u + (unsigned)thread;
    if (getenv("NPUSIM_TEST_SEED"))
        world->seed = (unsigned)strtoul(getenv("NPUSIM_TEST_SEED"), NULL, 0) + (unsigned)thread;
    (void)printf("thread %d: seed %u\n", thread, world->seed);
    for (int round = 0; round < ROUNDS; round++) {
        prepare(world);
        for (int step = 0; step < STEPS; step++)
            reads += one_step(world, step, &checks[thread][step]);
        clean(world);
    }
    expect(reads > STEPS / 20);
    free(world);
    return (void *)(intptr_t)reads;
}

static void enable_peers(void)
{
    for (int device = 0; device < DEVICES; device++)
        for (int peer = 0; peer < DEVICES; peer++) {
            expect_ok(acl.aclrtSetDevice(device));
            if (peer == device)
                continue;
            expect_ok(acl.aclrtDeviceEnablePeerAccess(peer, 0));
            npusim_await_peer(device, peer);
        }
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    int ids[THREADS];
    intptr_t reads = 0;
    npusim_open(0);
    enable_peers();
    for (int i = 0; i < THREADS; i++) {
        ids[i] = i;
        expect(!pthread_create(&threads[i], NULL, work, &ids[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;
        expect(!pthread_join(threads[i], &result));
        reads += (intptr_t)result;
    }
    expect_code(atomic_load(&wrong), 0);
    expect_code(atomic_load(&checked), reads);
    expect_ok(acl.aclFinalize());
}

static void random_operations_give_what_the_model_gives(void)
{
    run_threads();
}

static void modelled_links_keep_the_order(void)
{
    expect(!setenv("NPUSIM_HOST_LATENCY", "3000", 1) && !setenv("NPUSIM_PEER_LATENCY", "5000", 1));
    expect(!setenv("NPUSIM_HOST_BANDWIDTH", "1G", 1) && !setenv("NPUSIM_PEER_BANDWIDTH", "2G", 1));
    run_threads();
}

static const struct npusim_test tests[] = {
    {"random_operations_give_what_the_model_gives", random_operations_give_what_the_model_gives},
    {"modelled_links_keep_the_order", modelled_links_keep_the_order},
};

int main(int argc, char **argv)
{
    return npusim_run(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
