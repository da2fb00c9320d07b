/*
 * Input that arrives while the device computes: batches go to the device, each is "computed with" (the host
 * waits as long as a kernel would run), first one after the other, then with prefetching. Without
 * HCOMM_DEVICE_ID they go to other host memory.
 *
 *     HCOMM_DEVICE_ID=0 HCOMM_NPU=sim NPUSIM_HOST_BANDWIDTH=4G ./prefetch
 */
#include <hcomm.h>

#include <stdio.h>
#include <time.h>

enum { BATCHES = 32, BYTES = 4 << 20, KERNEL_NS = 2000000 };
static hcomm_handle_t hcomm;
static double waited; /* for input */

static void must(hcomm_status_t status)
{
    if (status != HCOMM_OK) {
        fprintf(stderr, "prefetch: %s\n", hcomm_error_detail());
        hcomm_abort(hcomm, 1);
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void compute(const void *batch, unsigned char expected)
{
    unsigned char last = 0;
    (void)nanosleep(&(struct timespec){.tv_nsec = KERNEL_NS}, NULL);
    must(hcomm_memcpy(hcomm, &last, (const char *)batch + BYTES - 1, 1, HCOMM_COPY_AUTO));
    must(last == expected ? HCOMM_OK : HCOMM_ERR_INTERNAL); /* a batch's bytes are its number */
}

static void copy_then_compute(const char *data, void *to)
{
    for (int i = 0; i < BATCHES; i++) {
        double begin = seconds();
        must(hcomm_memcpy(hcomm, to, data + (size_t)i * BYTES, BYTES, HCOMM_COPY_AUTO));
        waited += seconds() - begin;
        compute(to, (unsigned char)i);
    }
}

static const void *batch_at(void *user_data, uint64_t index, size_t *size)
{
    *size = BYTES;
    return index < BATCHES ? (const char *)user_data + index * BYTES : NULL;
}

static void prefetch_and_compute(char *data, hcomm_memory_type_t type)
{
    hcomm_prefetch_t prefetch;
    hcomm_prefetch_batch_t batch = {0};
    hcomm_prefetch_config_t config = {
        .source = batch_at, .user_data = data, .batch_size = BYTES, .memory_type = type};
    must(hcomm_prefetch_create(hcomm, &config, &prefetch));
    for (double begin = seconds();; begin = seconds()) {
        must(hcomm_prefetch_next(prefetch, &batch));
        waited += seconds() - begin;
        if (!batch.ptr)
            break;
        compute(batch.ptr, (unsigned char)batch.index);
    }
    must(hcomm_prefetch_destroy(prefetch));
}

static void report(const char *what, double took)
{
    printf("%s: %.3f s, %.0f %% of it waiting for input\n", what, took, 100 * waited / took);
    waited = 0;
}

int main(void)
{
    hcomm_config_t config;
    void *to = NULL;
    must(hcomm_init(&hcomm, NULL));
    must(hcomm_get_config(hcomm, &config));
    hcomm_memory_type_t type =
        config.device_id == HCOMM_DEVICE_NONE ? HCOMM_MEMORY_HOST : HCOMM_MEMORY_DEVICE;
    char *data = hcomm_alloc_host_mem(hcomm, (size_t)BATCHES * BYTES);
    must(data ? hcomm_mem_alloc(hcomm, BYTES, type, &to) : HCOMM_ERR_LIMIT);
    for (int i = 0; i < BATCHES; i++)
        must(hcomm_memset(hcomm, data + (size_t)i * BYTES, i, BYTES));
    double start = seconds();
    copy_then_compute(data, to);
    report("copy, then compute", seconds() - start);
    start = seconds();
    prefetch_and_compute(data, type);
    report("prefetch", seconds() - start);
    must(hcomm_finalize(hcomm));
    return 0;
}
