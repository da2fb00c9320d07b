/*
 * Where libfabric is to look for providers that are not built in: the provider npu is installed with hcomm,
 * which need not be where libfabric looks by itself.
 */
#ifndef HC_OFI_PROVIDER_H
#define HC_OFI_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The value of FI_PROVIDER_PATH that adds hcomm's own provider to those that libfabric (loaded; `function` is
 * one of its functions) finds anyway. False: there is nothing to add, or the user has set the variable.
 */
bool hc_ofi_provider_path(const void *function, char *path, size_t size);

#endif
