/*
 * The head of a device's memfd: which parts are exported, to whom, and who imported them. The exporting
 * process and its importers map it. The lock of a process does not reach the others: fields that change are
 * atomic, and an importer's registration is ordered against a free by sequential consistency (import_register
 * and npusim_exports_withdraw in ipc.c). Importers take nothing from it for granted.
 */
#ifndef NPUSIM_CONTROL_H
#define NPUSIM_CONTROL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define NPUSIM_CONTROL_MAGIC UINT64_C(0x316d69737570e46e)

enum {
    NPUSIM_CONTROL_VERSION = 1,
    NPUSIM_EXPORTS = 512,
    NPUSIM_EXPORT_PIDS = 64,
    NPUSIM_EXPORT_IMPORTERS = 64
};

struct npusim_export {
    _Atomic uint64_t cookie; /* random; 0: free slot */
    _Atomic uint64_t offset; /* in the device's memory */
    _Atomic uint64_t size;
    _Atomic uint32_t flags;
    _Atomic uint32_t live;                               /* 0: being withdrawn, imports fail */
    _Atomic int32_t pids[NPUSIM_EXPORT_PIDS];            /* who may import, 0: unused */
    _Atomic uint64_t importers[NPUSIM_EXPORT_IMPORTERS]; /* pid, and 32 bits of its start time; 0: unused */
};

struct npusim_control {
    uint64_t magic;
    uint32_t version;
    int32_t physical;
    uint64_t memory; /* bytes that follow this head */
    struct npusim_export exports[NPUSIM_EXPORTS];
};

_Static_assert(sizeof(struct npusim_export) == 32 + 4 * NPUSIM_EXPORT_PIDS + 8 * NPUSIM_EXPORT_IMPORTERS,
               "layout shared between processes");
_Static_assert(sizeof(struct npusim_control) == 24 + NPUSIM_EXPORTS * sizeof(struct npusim_export),
               "layout shared between processes");

#endif
