/*
 * Arenas: ranges of this process' memory that other processes of the host may map and load from and store to
 * directly. An arena is a memfd, sealed against resizing and without any name; it lies on huge pages where
 * the system gives some. Its data is followed by one control page that all who map it share.
 *
 *   file: data (a multiple of 2 MiB) | control page
 *
 * The registry of arenas is the process': a message may lie in memory that another context allocated.
 *
 * Lifetime: a process that maps an arena cannot be asked to leave, so destroying one marks it dead and gives
 * its pages back to the system at once; those who still map it find zeros, never a fault, and unmap when they
 * see the mark.
 *
 * Threads: any; creation, lookup and destruction are serialised by a lock inside. Who destroys an arena must
 * know that nobody of this process uses it any more.
 */
#ifndef HC_ARENA_H
#define HC_ARENA_H

#include "runtime/base/compiler.h"
#include "runtime/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HC_ARENA_CONTROL_BYTES = 4096 };

/* The control page. Peers may write here what they want: the owner reads nothing of it. */
struct hc_arena_control {
    uint64_t magic, id;
    _Atomic uint32_t alive; /* 1, and 0 once the arena was destroyed */
    uint32_t reserved;
};
_Static_assert(sizeof(struct hc_arena_control) <= HC_ARENA_CONTROL_BYTES, "the control block is one page");

struct hc_arena {
    unsigned char *base;              /* of the data */
    size_t size;                      /* of the data; a multiple of 2 MiB */
    struct hc_arena_control *control; /* NULL: the memory is private, nobody can map it */
    int fd;                           /* -1 when private */
    uint64_t inode;                   /* of the file */
    uint64_t id;                      /* random, never 0; also in the control page */
};

/*
 * Reserve `size` bytes (rounded up to 2 MiB) at an address that is a multiple of `alignment` (a power of
 * two). Pages are provided at first touch. Where memfds are not to be had the memory is private.
 * HCOMM_ERR_NO_MEMORY with errno in words.
 */
hcomm_status_t hc_arena_create(size_t size, size_t alignment, struct hc_arena **arena) HC_MUST_CHECK;
/* NULL is accepted. */
void hc_arena_destroy(struct hc_arena *arena);

/*
 * A block is about to be used: put it on huge pages where that is possible, which takes its memory from the
 * system at once. A hint, cheap when it is done already; small blocks are left alone, contents stay.
 */
void hc_arena_prepare(struct hc_arena *arena, const void *ptr, size_t len);

/* The arena that holds all of the len bytes and can be mapped by others; NULL: none. */
struct hc_arena *hc_arena_find(const void *ptr, size_t len);

/* ---- the other side ---- */

/* An arena of another process, mapped here. */
struct hc_arena_map {
    unsigned char *base;
    size_t size;
    struct hc_arena_control *control;
};

/*
 * Map the arena behind a descriptor, after checking that it is the one with that inode, size and id. The
 * descriptor stays the caller's and may be closed at once. HCOMM_ERR_PROTOCOL when it is something else,
 * HCOMM_ERR_NO_MEMORY when it cannot be mapped.
 */
hcomm_status_t hc_arena_map_open(int fd, uint64_t inode, size_t size, uint64_t id,
                                 struct hc_arena_map *map) HC_MUST_CHECK;
void hc_arena_map_close(struct hc_arena_map *map);
/* Whether its owner has not destroyed it. */
bool hc_arena_map_alive(const struct hc_arena_map *map);

#endif
