/* Memory of peers that is mapped here: arenas, mapped at the first key that leads into one. */
#include "runtime/base/log.h"
#include "transports/shm/shm.h"

#include <stdlib.h>
#include <unistd.h>

enum { MAPPINGS_MAX = 16 }; /* per peer: bounds what address space a host of many ranks takes */

static void unmap(struct hc_shm_mapping *mapping)
{
    hc_list_remove(&mapping->link);
    hc_arena_map_close(&mapping->map);
    free(mapping);
}

void hc_shm_mappings_sweep(struct hc_shm_peer *peer)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &peer->mappings)
    {
        struct hc_shm_mapping *mapping = hc_list_entry(node, struct hc_shm_mapping, link);
        if (mapping->refs || hc_arena_map_alive(&mapping->map))
            continue;
        peer->mapping_count--;
        unmap(mapping);
    }
}

void hc_shm_mappings_fini(struct hc_shm_peer *peer)
{
    struct hc_list *node;
    while ((node = hc_list_pop(&peer->mappings))) {
        struct hc_shm_mapping *mapping = hc_list_entry(node, struct hc_shm_mapping, link);
        mapping->orphan = true;
        if (!mapping->refs)
            unmap(mapping);
    }
    peer->mapping_count = 0;
}

static struct hc_shm_mapping *find(struct hc_shm_peer *peer, const struct hc_shm_rkey_wire *wire)
{
    struct hc_list *node;
    hc_list_for_each(node, &peer->mappings)
    {
        struct hc_shm_mapping *mapping = hc_list_entry(node, struct hc_shm_mapping, link);
        if (mapping->id == wire->arena.id && mapping->inode == wire->arena.inode &&
            mapping->map.size == wire->arena.size)
            return mapping;
    }
    return NULL;
}

/* Make room for one more: the one that was not used for longest goes. False when all are in use. */
static bool make_room(struct hc_shm_peer *peer)
{
    struct hc_list *node;
    if (peer->mapping_count < MAPPINGS_MAX)
        return true;
    hc_list_for_each(node, &peer->mappings)
    {
        struct hc_shm_mapping *mapping = hc_list_entry(node, struct hc_shm_mapping, link);
        if (mapping->refs)
            continue;
        peer->mapping_count--;
        unmap(mapping);
        return true;
    }
    return false;
}

static hcomm_status_t map_file(const struct hc_shm_peer *peer, const struct hc_shm_rkey_wire *wire,
                               struct hc_arena_map *map)
{
    int fd = -1;
    hcomm_status_t status = hc_shm_open_file(&peer->addr, wire->arena.fd, wire->arena.inode, &fd);
    if (status != HCOMM_OK)
        return status;
    status = hc_arena_map_open(fd, wire->arena.inode, wire->arena.size, wire->arena.id, map);
    (void)close(fd); /* the mapping keeps the memory */
    if (status == HCOMM_OK && hc_shm_start_time(peer->addr.pid) != peer->addr.start) {
        hc_arena_map_close(map);
        status = hc_error(HCOMM_ERR_PEER_LOST, "shm: process %d has ended", (int)peer->addr.pid);
    }
    return status;
}

static hcomm_status_t map_arena(struct hc_shm_peer *peer, const struct hc_shm_rkey_wire *wire,
                                struct hc_shm_mapping **out)
{
    if (!make_room(peer))
        return hc_error(HCOMM_ERR_UNSUPPORTED, "shm: process %d has too many memory pools in use",
                        (int)peer->addr.pid);
    struct hc_shm_mapping *mapping = calloc(1, sizeof(*mapping));
    if (!mapping)
        return hc_error(HCOMM_ERR_NO_MEMORY, "shm: no memory for a mapping");
    hcomm_status_t status = map_file(peer, wire, &mapping->map);
    if (status != HCOMM_OK) {
        free(mapping);
        return status;
    }
    mapping->inode = wire->arena.inode;
    mapping->id = wire->arena.id;
    peer->mapping_count++;
    *out = mapping;
    return HCOMM_OK;
}

hcomm_status_t hc_shm_mapping_get(struct hc_shm_peer *peer, const struct hc_shm_rkey_wire *wire,
                                  struct hc_shm_mapping **out)
{
    struct hc_shm_mapping *mapping = find(peer, wire);
    if (!mapping) {
        hc_shm_mappings_sweep(peer);
        hcomm_status_t status = map_arena(peer, wire, &mapping);
        if (status != HCOMM_OK)
            return status;
    } else {
        hc_list_remove(&mapping->link);
    }
    hc_list_append(&peer->mappings, &mapping->link);
    if (!hc_arena_map_alive(&mapping->map))
        return hc_error(HCOMM_ERR_PROTOCOL, "shm: process %d has freed the memory its key names",
                        (int)peer->addr.pid);
    mapping->refs++;
    *out = mapping;
    return HCOMM_OK;
}

void hc_shm_mapping_put(struct hc_shm_mapping *mapping)
{
    if (mapping && !--mapping->refs && mapping->orphan)
        unmap(mapping);
}
