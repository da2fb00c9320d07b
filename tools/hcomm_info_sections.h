/* What hcomm_info can tell, one table per section. */
#ifndef HCOMM_INFO_SECTIONS_H
#define HCOMM_INFO_SECTIONS_H

#include "tools/hcomm_info_table.h"

#include <hcomm.h>

/* Initialise and fill the section's table; an error leaves the rows so far. */
hcomm_status_t fill_versions(hcomm_handle_t hcomm, struct table *table);
hcomm_status_t fill_config(hcomm_handle_t hcomm, struct table *table);
hcomm_status_t fill_transports(hcomm_handle_t hcomm, struct table *table);
hcomm_status_t fill_counters(hcomm_handle_t hcomm, struct table *table);
hcomm_status_t fill_devices(hcomm_handle_t hcomm, struct table *table);
hcomm_status_t fill_topology(hcomm_handle_t hcomm, struct table *table);

/* From which sizes on the usable transports send messages which way, and how that is chosen. */
hcomm_status_t print_thresholds(hcomm_handle_t hcomm, FILE *out);
/* Where the devices come from, or why there are none. */
hcomm_status_t print_device_library(hcomm_handle_t hcomm, FILE *out);
/* Hosts, their NUMA nodes, and the ranks on them, drawn as a tree. */
hcomm_status_t print_topology_tree(hcomm_handle_t hcomm, FILE *out);

#endif
