/*
 * Segments of the shm transport. Each iface owns one: a sealed memfd without any name, reached by the other
 * processes of the host through /proc/PID/fd/N, so nothing can outlive the processes. It is sparse: what
 * nobody uses costs no memory.
 *
 * Layout (every part page-aligned, computed from the number of rings and chunks alone):
 *   header | sync area | shares | chunk flags | ring 0 | ring 1 | … | chunk 0 | chunk 1 | …
 * Ring i is written by the process with local rank i and read by the owner. Chunks are written by the owner
 * and read by whoever got a reference through a ring.
 */
#ifndef HC_SHM_SEGMENT_H
#define HC_SHM_SEGMENT_H

#include "runtime/base/share.h"
#include "runtime/base/status.h"
#include "transports/shm/ring.h"

#include <sys/types.h>

enum {
    HC_SHM_PAGE = 4096,
    HC_SHM_RINGS_MAX = 4096,
    HC_SHM_CHUNKS_MAX = 1024,
    /* 64 KiB of payload with room for the caller's header; one page more, so that equal offsets in
     * consecutive chunks do not fall into the same cache sets */
    HC_SHM_CHUNK_BYTES = 65536 + 4096,
    HC_SHM_VERSION = 5,
    HC_SHM_ADDR_MAGIC = 0x68636d31,
};

/*
 * Address of an iface, as exchanged in the modex and in claims. Processes that can use it share a host, so
 * fields are in the host's order; a host of the other order does not recognise the magic.
 */
struct hc_shm_addr {
    uint32_t magic, version;
    uint64_t host;   /* hash of the kernel's boot id */
    uint64_t pid_ns; /* inode of the PID name space: the same number means the same numbers for processes */
    uint64_t job;    /* hash of the job id */
    uint64_t cookie; /* random; also in the segment's header */
    uint64_t start;  /* the process' start time: a recycled PID has another one */
    uint64_t inode;  /* of the memfd */
    uint64_t event_inode; /* of the wake-up pipe */
    uint32_t uid;
    int32_t pid;
    int32_t fd;       /* of the memfd in that process */
    int32_t event_fd; /* of the wake-up pipe in that process */
    uint32_t local_rank, ring_count, chunk_count;
    uint32_t user_ns; /* inode of the user name space: between two of them, one side has no access */
};
_Static_assert(sizeof(struct hc_shm_addr) == 96, "wire format");
_Static_assert((int)HC_SHM_CHUNK_BYTES <= (int)HC_SHM_LEN_MASK, "a chunk's length fits a header word");

/* What a sender tells the owner of a ring before it uses it. */
struct hc_shm_claim {
    /* Even: the fields are valid, and the value is the claim's number; odd: being written; 0: never claimed.
     */
    _Atomic uint32_t epoch;
    uint32_t world_rank;
    struct hc_shm_addr addr;
};

struct hc_shm_ring {
    HC_CACHE_ALIGNED struct hc_shm_claim claim;            /* written by the sender */
    HC_CACHE_ALIGNED _Atomic uint32_t head;                /* written by the owner */
    HC_CACHE_ALIGNED _Atomic uint32_t granted;             /* by the owner: the claim that may use the ring */
    HC_CACHE_ALIGNED unsigned char pad[HC_SHM_PAGE - 256]; /* lines start on a page */
    struct hc_shm_line lines[HC_SHM_RING_LINES];
};
_Static_assert(offsetof(struct hc_shm_ring, lines) == HC_SHM_PAGE, "lines start on a page");

/* Bits of hc_shm_doorbell.sleeping. */
enum {
    HC_SHM_SLEEP_MESSAGE = 1, /* wake for messages */
    HC_SHM_SLEEP_ROOM = 2,    /* wake for room in rings and for chunks given back, too */
};

/* Read by all peers at every message, written when somebody goes to sleep or connects. */
struct hc_shm_doorbell {
    _Atomic uint32_t sleeping;
    _Atomic uint32_t connects; /* counts claims */
};

/* Flags of the header. */
enum { HC_SHM_FLAG_BARRIER = 1 }; /* the owner issues a process-wide barrier before it sleeps */

struct hc_shm_header {
    uint64_t magic;
    uint32_t version, flags;
    uint64_t cookie;
    uint32_t ring_count, chunk_count;
    uint64_t probe; /* address, in the owner, of a word holding the cookie: tests cross-memory access */
    HC_CACHE_ALIGNED struct hc_shm_doorbell doorbell;
    HC_CACHE_ALIGNED _Atomic uint64_t active[HC_SHM_RINGS_MAX / 64]; /* rings claimed at least once */
};
_Static_assert(sizeof(struct hc_shm_header) <= HC_SHM_PAGE, "the header is one page");

/* Written 1 by the owner before it passes a chunk on, 0 by the receiver when it is done with it. */
struct hc_shm_flag {
    HC_CACHE_ALIGNED _Atomic uint32_t busy;
};

/* A mapped segment: pointers into it. */
struct hc_shm_segment {
    struct hc_shm_header *header;
    void *sync;
    struct hc_share *shares;
    struct hc_shm_flag *flags;
    struct hc_shm_ring *rings;
    unsigned char *chunks;
    uint32_t ring_count, chunk_count;
    size_t size;
};

/* The message part of a HC_SHM_CHUNK record. */
struct hc_shm_chunk_ref {
    uint32_t index;
    uint32_t cookie; /* low half of the sender's: a reference never leads into another segment */
    uint32_t total;  /* bytes of the message: when the record has fewer, HC_SHM_MORE records follow */
    uint32_t offset; /* where it begins in the chunk; a multiple of 8 */
};
_Static_assert(sizeof(struct hc_shm_chunk_ref) == 16, "wire format");

/*
 * Create and map a segment, all zero except what identifies it in the header. *fd is the memfd, close-on-exec
 * and sealed against resizing. The caller owns both: hc_shm_segment_unmap() and close(2). Errors:
 * HCOMM_ERR_NO_MEMORY, HCOMM_ERR_IO.
 */
hcomm_status_t hc_shm_segment_create(uint32_t ring_count, uint32_t chunk_count, uint64_t cookie,
                                     struct hc_shm_segment *segment, int *fd) HC_MUST_CHECK;

/*
 * Map the segment that an address leads to, after checking that it is the one meant: inode, seals, size,
 * magic, cookie, and the process' start time. Errors: HCOMM_ERR_PEER_LOST when the process is gone,
 * HCOMM_ERR_UNREACHABLE when access is denied, HCOMM_ERR_PROTOCOL when it is something else.
 */
hcomm_status_t hc_shm_segment_attach(const struct hc_shm_addr *addr,
                                     struct hc_shm_segment *segment) HC_MUST_CHECK;

/*
 * Open a file that the process of an address has open under the descriptor `number`, if it is the one with
 * that inode. Errors as above. The caller closes *fd.
 */
hcomm_status_t hc_shm_open_file(const struct hc_shm_addr *addr, int number, uint64_t inode,
                                int *fd) HC_MUST_CHECK;

/* Unmap; harmless on a zeroed structure. */
void hc_shm_segment_unmap(struct hc_shm_segment *segment);

/* Place the rings on the NUMA node of the calling thread, whoever touches them first. */
void hc_shm_segment_bind(const struct hc_shm_segment *segment);

/* Start time of a process in clock ticks since boot, 0 when there is no such process or it is dead (a
 * zombie). */
uint64_t hc_shm_start_time(pid_t pid);

#endif
