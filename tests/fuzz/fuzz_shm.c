/* clang-format off */
/*
 * Addresses of shm's segments and the headers in them, laid over right ones: refused, or what they lead to is the
 * segment meant, all of it readable.
 * fuzz-sources: transports/shm/identity.c transports/shm/segment.c runtime/base/status.c runtime/base/log.c
 */
/* clang-format on */
#include "transports/shm/shm.h"

#include "tests/fuzz/fuzz.h"

#include <sys/stat.h>
#include <unistd.h>

enum { RINGS = 2, CHUNKS = 4, COOKIE = 99, EDITS = 8, HEADER_BYTES = 64 };

static struct hc_shm_segment own;
static struct hc_shm_addr right;

static void make_segment(void)
{
    struct hc_shm_identity self;
    struct stat info;
    int fd = -1;
    FUZZ_CHECK(hc_shm_identity_get(&self) == HCOMM_OK);
    FUZZ_CHECK(hc_shm_segment_create(RINGS, CHUNKS, COOKIE, &own, &fd) == HCOMM_OK && fstat(fd, &info) == 0);
    right = (struct hc_shm_addr){
        .magic = HC_SHM_ADDR_MAGIC,
        .version = HC_SHM_VERSION,
        .host = self.host,
        .pid_ns = self.pid_ns,
        .user_ns = self.user_ns,
        .job = 1,
        .cookie = COOKIE,
        .start = self.start,
        .inode = info.st_ino,
        .uid = self.uid,
        .pid = self.pid,
        .fd = fd,
        .ring_count = RINGS,
        .chunk_count = CHUNKS,
    };
}

/* Some bytes of `size` are replaced: the input is pairs of place and value. */
static void edit(void *bytes, size_t size, const uint8_t **data, size_t *left)
{
    unsigned edits = *left ? **data % EDITS : 0;
    *data += *left > 0;
    *left -= *left > 0;
    for (; edits > 0 && *left >= 2; edits--, *data += 2, *left -= 2)
        ((uint8_t *)bytes)[(*data)[0] % size] = (*data)[1];
}

static void check_attached(const struct hc_shm_addr *addr, const struct hc_shm_segment *segment)
{
    const volatile unsigned char *bytes = (const volatile unsigned char *)segment->header;
    /* the input may have edited the cookie in both places */
    FUZZ_CHECK(addr->inode == right.inode && addr->cookie == segment->header->cookie &&
               addr->start == right.start);
    FUZZ_CHECK(segment->ring_count == RINGS && segment->chunk_count == CHUNKS && segment->size == own.size);
    FUZZ_CHECK((const unsigned char *)segment->rings + RINGS * sizeof(struct hc_shm_ring) <=
               (const unsigned char *)segment->header + segment->size);
    (void)bytes[0];
    (void)bytes[segment->size - 1];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!own.header)
        make_segment();
    struct hc_shm_addr wrong = right, checked;
    struct hc_shm_segment segment;
    uint8_t saved[HEADER_BYTES];
    (void)hc_shm_addr_check(&right, data, size, &checked); /* any bytes of any length */
    edit(&wrong, sizeof(wrong), &data, &size);
    wrong.pid = right.pid; /* nobody else's files are looked at */
    if (hc_shm_addr_check(&right, &wrong, sizeof(wrong), &checked) == NULL) {
        FUZZ_CHECK(memcmp(&checked, &wrong, sizeof(wrong)) == 0);
        FUZZ_CHECK(checked.ring_count >= 1 && checked.ring_count <= HC_SHM_RINGS_MAX &&
                   checked.local_rank < checked.ring_count && checked.chunk_count <= HC_SHM_CHUNKS_MAX);
    }
    (void)memcpy(saved, own.header, sizeof(saved));
    edit(own.header, HEADER_BYTES, &data, &size);
    if (hc_shm_segment_attach(&wrong, &segment) == HCOMM_OK) {
        check_attached(&wrong, &segment);
        hc_shm_segment_unmap(&segment);
    }
    (void)memcpy(own.header, saved, sizeof(saved));
    return 0;
}
