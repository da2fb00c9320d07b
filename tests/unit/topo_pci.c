#include "runtime/topo/pci.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tree of buses like the kernel's: bus/pci/devices and class/net are links into devices/. */
static void make_tree(char *root, size_t size)
{
    char command[2048];
    (void)snprintf(root, size, "%s/hcomm-pci.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    cr_assert_not_null(mkdtemp(root));
    (void)snprintf(
        command, sizeof(command),
        "cd %s && p=devices/pci0000:00 && mkdir -p bus/pci/devices class/net class/infiniband && "
        "mkdir -p $p/0000:00:01.0/0000:01:00.0/0000:02:00.0 $p/0000:00:01.0/0000:01:00.0/0000:03:00.0 "
        "$p/0000:00:02.0/0000:04:00.0 devices/pci0000:80/0000:80:00.0 devices/virtual/net/lo && "
        "for d in $p/0000:00:01.0/0000:01:00.0/0000:02:00.0 $p/0000:00:01.0/0000:01:00.0/0000:03:00.0 "
        "$p/0000:00:02.0/0000:04:00.0 devices/pci0000:80/0000:80:00.0; do "
        "ln -s ../../../$d bus/pci/devices/${d##*/}; done && "
        "for n in near=02 far=04 ; do mkdir -p class/net/${n%%=*}; "
        "ln -s ../../../bus/pci/devices/0000:${n#*=}:00.0 class/net/${n%%=*}/device; done && "
        "mkdir class/infiniband/mlx5_0 class/net/veth0 && "
        "ln -s ../../../bus/pci/devices/0000:80:00.0 class/infiniband/mlx5_0/device && "
        "ln -s ../../../devices/virtual/net/lo class/net/veth0/device",
        root);
    cr_assert_eq(system(command), 0);
}

static void remove_tree(const char *root)
{
    char command[PATH_MAX + 16];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
    cr_assert_eq(system(command), 0);
}

Test(topo_pci, distance_counts_the_bridges_between)
{
    char root[PATH_MAX];
    make_tree(root, sizeof(root));
    int same = hc_pci_nic_distance(root, "0000:02:00.0", "near");
    int below_one_switch = hc_pci_nic_distance(root, "0000:03:00.0", "near");
    int under_one_root = hc_pci_nic_distance(root, "0000:03:00.0", "far");
    int other_root = hc_pci_nic_distance(root, "0000:03:00.0", "mlx5_0");
    cr_assert_eq(same, 0);
    cr_assert_eq(below_one_switch, 2);
    cr_assert_eq(under_one_root, 5);
    cr_assert_eq(other_root, 6);
    remove_tree(root);
}

Test(topo_pci, what_is_not_on_the_bus_has_no_distance)
{
    char root[PATH_MAX];
    make_tree(root, sizeof(root));
    cr_assert_eq(hc_pci_nic_distance(root, "ffff:02:00.0", "near"), -1);
    cr_assert_eq(hc_pci_nic_distance(root, "0000:02:00.0", "eth9"), -1);
    cr_assert_eq(hc_pci_nic_distance(root, "0000:02:00.0", "veth0"), -1);
    cr_assert_eq(hc_pci_nic_distance(root, "0000:02:00.0", ""), -1);
    cr_assert_eq(hc_pci_nic_distance(root, "", "near"), -1);
    cr_assert_eq(hc_pci_nic_distance(root, "../0000:02:00.0", "near"), -1);
    remove_tree(root);
}
