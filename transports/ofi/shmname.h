/*
 * Names of the regions that libfabric's shm provider keeps in /dev/shm. The provider unlinks its region when
 * the endpoint closes, not when the process is killed; so regions carry a name that says whose they are, and
 * what dead processes left is removed by whoever comes next or sees them die.
 */
#ifndef HC_OFI_SHMNAME_H
#define HC_OFI_SHMNAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { HC_OFI_SHMNAME_MAX = 64 };

/*
 * The provider's address for an endpoint of this process: "fi_shm://hcomm.SCOPE.PID.NUMBER". scope: see
 * hc_ofi_scope_id(), so that processes of other pid name spaces are not mistaken for dead ones.
 */
void hc_ofi_shmname_make(uint64_t scope, char name[HC_OFI_SHMNAME_MAX]);

/* Whether a file in /dev/shm is a region of ours in this scope, and whose. */
bool hc_ofi_shmname_parse(const char *file, uint64_t scope, pid_t *pid);

/* Remove the regions that dead processes of this user and scope left in `folder` ("/dev/shm"); how many. */
unsigned hc_ofi_shmname_sweep(const char *folder, uint64_t scope);

#endif
