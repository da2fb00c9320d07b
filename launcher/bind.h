/* Reports of bindings, and the oversubscription warning. */
#ifndef HC_LAUNCHER_BIND_H
#define HC_LAUNCHER_BIND_H

#include "launcher/map.h"

/* One line per rank on stderr: where it may run. */
void hc_bind_report(const struct hc_cpus *const *cpus, uint32_t num_ranks, const char *hostname);

/* One warning line when there are more ranks than processors. */
void hc_bind_warn_oversubscribed(const struct hc_map *map, uint32_t num_ranks);

#endif
