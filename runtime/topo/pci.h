/* How near a device is to a network interface on the PCI bus, as the kernel's sysfs shows it. */
#ifndef HC_PCI_H
#define HC_PCI_H

/*
 * Bridges between the device with a PCI address ("0000:3b:00.0") and a network interface ("eth0") or RDMA
 * device
 * ("mlx5_0"): the steps up from each to what they share. -1 when one of them is not found on the PCI bus.
 * sysfs: where it is mounted. Reads links only; any thread.
 */
int hc_pci_nic_distance(const char *sysfs, const char *pci, const char *nic);

#endif
