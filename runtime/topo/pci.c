#include "runtime/topo/pci.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The device's place in the tree of buses. The name may come from elsewhere: it must be one path component.
 */
static bool resolve(const char *sysfs, const char *folder, const char *name, const char *below,
                    char place[PATH_MAX])
{
    char path[PATH_MAX];
    if (!*name || strchr(name, '/') || name[0] == '.')
        return false;
    int used = snprintf(path, sizeof(path), "%s/%s/%s%s", sysfs, folder, name, below);
    return used > 0 && (size_t)used < sizeof(path) && realpath(path, place);
}

static int steps(const char *rest)
{
    int count = 0;
    for (; *rest; rest++)
        count += *rest == '/';
    return count;
}

/* From each up to the deepest folder that both are in. */
static int distance(const char *a, const char *b)
{
    size_t shared = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '/' || (!a[i + 1] && (b[i + 1] == '/' || !b[i + 1])))
            shared = i + (a[i] != '/');
    return steps(a + shared) + steps(b + shared);
}

int hc_pci_nic_distance(const char *sysfs, const char *pci, const char *nic)
{
    char device[PATH_MAX], card[PATH_MAX];
    if (!resolve(sysfs, "bus/pci/devices", pci, "", device))
        return -1;
    if (!resolve(sysfs, "class/net", nic, "/device", card) &&
        !resolve(sysfs, "class/infiniband", nic, "/device", card))
        return -1;
    return strstr(card, "/pci") ? distance(device, card) : -1;
}
