/*
 * Device memory: each rank fills a buffer of its NPU and sends it around the ring; no byte passes through
 * memory of the program. Works on Ascend NPUs, and without one on the simulator:
 *
 *     HCOMM_NPU=sim hcommrun -n 4 ./device
 */
#include <hcomm.h>

#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 8 << 20, TAG = 1 };

static void check(hcomm_status_t status, const char *what)
{
    if (status == HCOMM_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, hcomm_error_detail());
    exit(1);
}

/* The launcher numbers the ranks; each takes the device with its number. */
static int own_number(void)
{
    const char *text = getenv("PMIX_RANK");
    return text ? atoi(text) : 0;
}

int main(void)
{
    hcomm_handle_t hcomm = NULL;
    const hcomm_config_t config = {.device_id = HCOMM_DEVICE(own_number())};
    check(hcomm_init(&hcomm, &config), "hcomm_init");
    int rank = hcomm_rank(hcomm), size = hcomm_size(hcomm);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    hcomm_comm_t world = hcomm_comm_world(hcomm);

    void *outgoing = NULL, *incoming = NULL;
    check(hcomm_mem_alloc(hcomm, SIZE, HCOMM_MEMORY_DEVICE, &outgoing), "hcomm_mem_alloc");
    check(hcomm_mem_alloc(hcomm, SIZE, HCOMM_MEMORY_DEVICE, &incoming), "hcomm_mem_alloc");
    check(hcomm_memset(hcomm, outgoing, rank % 256, SIZE), "hcomm_memset");

    check(hcomm_sendrecv(outgoing, SIZE, next, TAG, incoming, SIZE, previous, TAG, world, NULL),
          "hcomm_sendrecv");

    unsigned char last = 255;
    check(hcomm_memcpy(hcomm, &last, (unsigned char *)incoming + SIZE - 1, 1, HCOMM_COPY_DEVICE_TO_HOST),
          "hcomm_memcpy");
    const hcomm_topology_t *topology = NULL;
    check(hcomm_get_topology(hcomm, &topology), "hcomm_get_topology");
    printf("rank %d on device %d: %d MiB of %d from rank %d on device %d, link %s\n", rank,
           topology->ranks[rank].device, SIZE >> 20, last, previous, topology->ranks[previous].device,
           hcomm_device_link_name(topology->ranks[previous].device_link));

    check(hcomm_mem_free(hcomm, outgoing), "hcomm_mem_free");
    check(hcomm_mem_free(hcomm, incoming), "hcomm_mem_free");
    check(hcomm_finalize(hcomm), "hcomm_finalize");
    return last == previous % 256 ? 0 : 1;
}
