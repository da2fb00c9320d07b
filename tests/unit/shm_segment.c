/* Segments and addresses of the shm transport. */
#include "transports/shm/shm.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct hc_shm_segment own;
static struct hc_shm_addr addr;
static int fd;

static void setup(void)
{
    struct hc_shm_identity self;
    struct stat info;
    cr_assert(hc_shm_identity_get(&self) == HCOMM_OK);
    cr_assert(hc_shm_segment_create(3, 8, 77, &own, &fd) == HCOMM_OK);
    cr_assert(fstat(fd, &info) == 0);
    addr = (struct hc_shm_addr){
        .magic = HC_SHM_ADDR_MAGIC,
        .version = HC_SHM_VERSION,
        .host = self.host,
        .pid_ns = self.pid_ns,
        .user_ns = self.user_ns,
        .job = 1,
        .cookie = 77,
        .start = self.start,
        .inode = info.st_ino,
        .uid = self.uid,
        .pid = self.pid,
        .fd = fd,
        .ring_count = 3,
        .chunk_count = 8,
    };
}

static void teardown(void)
{
    hc_shm_segment_unmap(&own);
    (void)close(fd);
}

TestSuite(shm_segment, .init = setup, .fini = teardown);

Test(shm_segment, parts_lie_inside_and_apart)
{
    unsigned char *base = (unsigned char *)own.header;
    cr_assert((unsigned char *)own.sync >= base + sizeof(*own.header));
    cr_assert((unsigned char *)own.flags >= (unsigned char *)own.sync + HC_SYNC_AREA);
    cr_assert((void *)own.rings >= (void *)(own.flags + own.chunk_count));
    cr_assert(own.chunks >= (unsigned char *)(own.rings + own.ring_count));
    cr_assert(own.chunks + (size_t)own.chunk_count * HC_SHM_CHUNK_BYTES == base + own.size);
}

Test(shm_segment, unused_memory_costs_nothing)
{
    struct stat info;
    cr_assert(fstat(fd, &info) == 0);
    cr_assert(info.st_blocks * 512 <= 4 * HC_SHM_PAGE, "%lld bytes are in use",
              (long long)info.st_blocks * 512);
}

Test(shm_segment, attach_reaches_the_same_memory)
{
    struct hc_shm_segment again;
    cr_assert(hc_shm_segment_attach(&addr, &again) == HCOMM_OK);
    memcpy(again.sync, "hello", 6);
    cr_assert(memcmp(own.sync, "hello", 6) == 0);
    hc_shm_segment_unmap(&again);
}

Test(shm_segment, size_cannot_change)
{
    cr_assert(ftruncate(fd, 1) < 0);
    cr_assert(ftruncate(fd, (off_t)own.size * 2) < 0);
}

static hcomm_status_t attach(struct hc_shm_addr changed)
{
    struct hc_shm_segment again = {0};
    hcomm_status_t status = hc_shm_segment_attach(&changed, &again);
    cr_assert(status == HCOMM_OK || again.header == NULL, "written though the call failed");
    hc_shm_segment_unmap(&again);
    return status;
}

Test(shm_segment, attach_refuses_what_is_not_meant)
{
    struct hc_shm_addr bad = addr;
    cr_assert(attach(addr) == HCOMM_OK);
    bad.cookie++;
    cr_assert(attach(bad) == HCOMM_ERR_PROTOCOL);
    bad = addr;
    bad.start++; /* the PID was given to another process since */
    cr_assert(attach(bad) == HCOMM_ERR_PROTOCOL);
    bad = addr;
    bad.inode++;
    cr_assert(attach(bad) == HCOMM_ERR_PEER_LOST);
    bad = addr;
    bad.fd = 999999;
    cr_assert(attach(bad) == HCOMM_ERR_PEER_LOST);
    bad = addr;
    bad.ring_count = 4;
    cr_assert(attach(bad) == HCOMM_ERR_PROTOCOL);
    bad = addr;
    bad.pid = 0x3fffffff;
    cr_assert(attach(bad) == HCOMM_ERR_PEER_LOST);
}

Test(shm_segment, unsealed_file_is_refused)
{
    struct hc_shm_addr bad = addr;
    struct stat info;
    int file = open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (file < 0)
        cr_skip_test("no O_TMPFILE in /tmp");
    cr_assert(ftruncate(file, (off_t)own.size) == 0 && fstat(file, &info) == 0);
    bad.fd = file;
    bad.inode = info.st_ino;
    cr_assert(attach(bad) == HCOMM_ERR_PROTOCOL);
    (void)close(file);
}

Test(shm_segment, address_of_elsewhere_is_refused)
{
    struct hc_shm_addr out;
    struct hc_shm_addr variants[11];
    for (size_t i = 0; i < hc_array_len(variants); i++)
        variants[i] = addr;
    variants[0].magic++;
    variants[1].version++;
    variants[2].host++;
    variants[3].pid_ns++;
    variants[4].uid++;
    variants[5].job++;
    variants[6].ring_count = HC_SHM_RINGS_MAX + 1;
    variants[7].chunk_count = HC_SHM_CHUNKS_MAX + 1;
    variants[8].local_rank = 3;
    variants[9].pid = 0;
    variants[10].user_ns++;
    cr_assert(hc_shm_addr_check(&addr, &addr, sizeof(addr), &out) == NULL);
    for (size_t i = 0; i < hc_array_len(variants); i++)
        cr_assert(hc_shm_addr_check(&addr, &variants[i], sizeof(addr), &out) != NULL, "variant %zu", i);
    cr_assert(hc_shm_addr_check(&addr, NULL, 0, &out) != NULL);
    cr_assert(hc_shm_addr_check(&addr, &addr, sizeof(addr) - 1, &out) != NULL);
}

Test(shm_segment, start_time_is_that_of_a_living_process)
{
    cr_assert(hc_shm_start_time(getpid()) != 0);
    cr_assert(hc_shm_start_time(getpid()) == hc_shm_start_time(getpid()));
    cr_assert(hc_shm_start_time(0x3fffffff) == 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    siginfo_t info;
    cr_assert(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    cr_assert(hc_shm_start_time(pid) == 0, "a zombie counts as living");
    cr_assert(waitid(P_PID, (id_t)pid, &info, WEXITED) == 0);
}
