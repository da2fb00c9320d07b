#include "launcher/bind.h"

#include "runtime/base/log.h"

#include <stdio.h>

void hc_bind_report(const struct hc_cpus *const *cpus, uint32_t num_ranks, const char *hostname)
{
    for (uint32_t rank = 0; rank < num_ranks; rank++)
        (void)fprintf(stderr, "[hcommrun] rank %u@%s: %s %s (processors %s)\n", rank, hostname,
                      cpus[rank]->bound ? "bound to" : "may use", cpus[rank]->where, cpus[rank]->list);
}

void hc_bind_warn_oversubscribed(const struct hc_map *map, uint32_t num_ranks)
{
    unsigned processors = hc_map_processors(map);
    if (num_ranks > processors)
        hc_log_warn(
            "%u ranks share %u processor%s: they take turns, which is slower (--oversubscribe says it is "
            "intended)",
            num_ranks, processors, processors == 1 ? "" : "s");
}
