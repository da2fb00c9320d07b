#include "transports/transport.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct hc_transport *const hc_transports[] = {
    &hc_transport_self,
    &hc_transport_shm,
    &hc_transport_ofi,
    NULL,
};

/* One word of a comma-separated list. */
struct word {
    const char *text;
    size_t len;
};

/* Cut the next word, without blanks around it, off *list; false at the end. Empty words are skipped. */
static bool next_word(const char **list, struct word *word)
{
    static const char blanks[] = " \t";
    while (**list) {
        const char *start = *list + strspn(*list, blanks);
        size_t len = strcspn(start, ",");
        *list = start + len + (start[len] == ',');
        while (len && strchr(blanks, start[len - 1]))
            len--;
        if (len) {
            *word = (struct word){start, len};
            return true;
        }
    }
    return false;
}

/* "ofi" stands for every "ofi:…"; else the names must be equal. */
static bool word_matches(const struct word *word, const char *name)
{
    return strncmp(name, word->text, word->len) == 0 && (name[word->len] == '\0' || name[word->len] == ':');
}

/* Whether the word is the name of a transport or resource of this build and machine. */
static bool word_known(const struct word *word, const struct hc_resource_list *list)
{
    for (size_t i = 0; hc_transports[i]; i++)
        if (word_matches(word, hc_transports[i]->name))
            return true;
    for (size_t i = 0; i < list->count; i++)
        if (word_matches(word, list->entries[i].name))
            return true;
    return false;
}

/* Put the names of all resources, each once, into text. */
static void list_names(const struct hc_resource_list *list, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < list->count && used < size; i++) {
        bool seen = false;
        for (size_t j = 0; j < i; j++)
            seen = seen || strcmp(list->entries[j].name, list->entries[i].name) == 0;
        if (!seen)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", list->entries[i].name);
    }
}

/* The resource that the word is the second part of the name of, like ofi:tcp for tcp; NULL if there is none. */
static const char *full_name(const struct word *word, const struct hc_resource_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *colon = strchr(list->entries[i].name, ':');
        if (colon && word_matches(word, colon + 1))
            return list->entries[i].name;
    }
    return NULL;
}

static hcomm_status_t check_names(const struct hc_resource_list *list, const char *wanted)
{
    struct word word;
    const char *rest = wanted;
    while (next_word(&rest, &word)) {
        if (word_known(&word, list))
            continue;
        char names[384];
        list_names(list, names, sizeof(names));
        const char *meant = full_name(&word, list);
        return hc_error(HCOMM_ERR_CONFIG, "transports: '%.*s' (in \"%s\") is not known here%s%s%s; there are %s",
                        (int)word.len, word.text, wanted, meant ? " (did you mean " : "", meant ? meant : "",
                        meant ? "?)" : "", names);
    }
    return HCOMM_OK;
}

static bool is_self(const struct hc_resource *resource)
{
    return strcmp(resource->name, "self") == 0;
}

/* Place of the resource in the user's list: 0 for self, then 1, 2, …; SIZE_MAX when not listed. */
static size_t place_in(const char *wanted, const struct hc_resource *resource)
{
    struct word word;
    size_t place = 1;
    if (is_self(resource))
        return 0;
    for (; next_word(&wanted, &word); place++)
        if (word_matches(&word, resource->name))
            return place;
    return SIZE_MAX;
}

static void exclude(struct hc_resource *resource, enum hc_exclusion setting, const char *reason)
{
    if (!resource->excluded)
        resource->excluded = setting;
    if (!resource->usable)
        return; /* the first reason is the one that matters */
    resource->usable = false;
    (void)snprintf(resource->reason, sizeof(resource->reason), "%s", reason);
}

static void apply_list(struct hc_resource_list *list, const char *wanted)
{
    char reason[128];
    (void)snprintf(reason, sizeof(reason), "not in the setting transports=\"%.80s\"", wanted);
    for (size_t i = 0; i < list->count; i++)
        if (place_in(wanted, &list->entries[i]) == SIZE_MAX)
            exclude(&list->entries[i], HC_EXCLUDED_BY_TRANSPORTS, reason);
}

/* Stable insertion sort: the user's order, and the transports' own order within one name. */
static void sort_by_list(struct hc_resource_list *list, const char *wanted)
{
    for (size_t i = 1; i < list->count; i++) {
        struct hc_resource moved = list->entries[i];
        size_t place = place_in(wanted, &moved), at = i;
        for (; at > 0 && place_in(wanted, &list->entries[at - 1]) > place; at--)
            list->entries[at] = list->entries[at - 1];
        list->entries[at] = moved;
    }
}

/* Which resources belong to a protocol: names, as in HCOMM_TRANSPORTS, that a resource may have. */
static const struct {
    const char *setting;
    const char *names;
} families[] = {
    [HC_PROTOCOL_AUTO] = {"auto", NULL},
    [HC_PROTOCOL_TCP] = {"tcp", "ofi:tcp,ofi:net,ofi:sockets"},
    [HC_PROTOCOL_RDMA] = {"rdma", "ofi:verbs"},
    [HC_PROTOCOL_SHM] = {"shm", "shm,ofi:shm"},
};

static void apply_protocol(struct hc_resource_list *list, int protocol)
{
    char reason[64];
    const char *names = families[protocol].names;
    if (!names)
        return;
    (void)snprintf(reason, sizeof(reason), "excluded by the setting protocol=%s", families[protocol].setting);
    for (size_t i = 0; i < list->count; i++)
        if (place_in(names, &list->entries[i]) == SIZE_MAX)
            exclude(&list->entries[i], HC_EXCLUDED_BY_PROTOCOL, reason);
}

/* After a query: exclude what the settings exclude. */
static void apply_settings(struct hc_resource_list *list)
{
    apply_protocol(list, list->settings->protocol);
    if (!list->settings->transports)
        return;
    apply_list(list, list->settings->transports);
    sort_by_list(list, list->settings->transports);
}

/* Ask all transports, and judge every name of the setting. */
static hcomm_status_t query_all(struct hc_resource_list *list)
{
    list->count = 0;
    for (size_t i = 0; hc_transports[i]; i++) {
        hcomm_status_t status = hc_transports[i]->query(list);
        if (status != HCOMM_OK)
            return status;
    }
    return list->settings->transports ? check_names(list, list->settings->transports) : HCOMM_OK;
}

hcomm_status_t hc_transport_query(struct hc_resource_list *list)
{
    hcomm_status_t status = query_all(list);
    if (status == HCOMM_OK)
        apply_settings(list);
    return status;
}

/* Whether the word names the transport, or one of its resources ("ofi:tcp" for ofi), existing or not. */
static bool word_belongs(const struct word *word, const char *transport)
{
    size_t len = strlen(transport);
    return word->len >= len && strncmp(word->text, transport, len) == 0 &&
           (word->len == len || word->text[len] == ':');
}

/* Whether the transport, asked or not, may have what the word names. */
static bool may_have(const struct hc_transport *transport, const struct word *word)
{
    const char *name = transport->name;
    for (size_t i = 0; name; i++) {
        if (word_matches(word, name))
            return true;
        name = transport->resource_name ? transport->resource_name(i) : NULL;
    }
    return false;
}

static bool may_exist(const struct word *word)
{
    for (size_t i = 0; hc_transports[i]; i++)
        if (may_have(hc_transports[i], word))
            return true;
    return false;
}

/*
 * As check_names() when only one transport was asked: names of the others' resources are judged by what they
 * may be anywhere. When there is a wrong one, the others are asked after all, so that the error lists what
 * there is.
 */
static hcomm_status_t check_names_of(struct hc_resource_list *list, const char *transport)
{
    struct word word;
    const char *rest = list->settings->transports;
    while (rest && next_word(&rest, &word))
        if (!may_exist(&word) || (word_belongs(&word, transport) && !word_known(&word, list)))
            return query_all(list);
    return HCOMM_OK;
}

hcomm_status_t hc_transport_query_one(const struct hc_transport *transport, struct hc_resource_list *list)
{
    list->count = 0;
    hcomm_status_t status = transport->query(list);
    if (status == HCOMM_OK)
        status = check_names_of(list, transport->name);
    if (status == HCOMM_OK)
        apply_settings(list);
    return status;
}

size_t hc_transport_preference(const struct hc_settings *settings, const char *name)
{
    struct word word;
    const char *rest = settings->transports;
    if (!rest || strcmp(name, "self") == 0)
        return 0;
    for (size_t place = 0; next_word(&rest, &word); place++)
        if (word_matches(&word, name) || word_belongs(&word, name))
            return place;
    return SIZE_MAX;
}

char *hc_transport_text(const struct hc_resource_list *list)
{
    if (!list->texts)
        return NULL;
    list->texts[list->count][0] = '\0';
    return list->texts[list->count];
}

void hc_transport_tell(struct hc_resource *resource, const char *format, ...)
{
    char *text = resource->thresholds;
    size_t used = text ? strlen(text) : 0;
    va_list arguments;
    if (!text)
        return;
    if (used)
        used += (size_t)snprintf(text + used, HC_THRESHOLDS_MAX - used, "; ");
    if (used >= HC_THRESHOLDS_MAX)
        return;
    va_start(arguments, format);
    (void)vsnprintf(text + used, HC_THRESHOLDS_MAX - used, format, arguments);
    va_end(arguments);
}

struct hc_size_text hc_transport_size_text(size_t size)
{
    static const struct {
        unsigned shift;
        const char *name;
    } units[] = {{30, "GiB"}, {20, "MiB"}, {10, "KiB"}, {0, "B"}};
    struct hc_size_text text;
    size_t unit = 0;
    while (units[unit].shift && (size >> units[unit].shift == 0 || size % ((size_t)1 << units[unit].shift)))
        unit++;
    (void)snprintf(text.text, sizeof(text.text), "%zu %s", size >> units[unit].shift, units[unit].name);
    return text;
}

static bool limits_hold(const struct hc_iface_attr *a)
{
    bool remote = a->caps & (HC_CAP_RMA | HC_CAP_MAP);
    return a->addr_max > 0 && a->short_max >= 64 && a->bcopy_max >= 4096 &&
           a->eager_max + 64 <= a->bcopy_max && a->latency > 0 && a->bandwidth > 0 && a->overhead >= 0 &&
           !(a->caps & HC_CAP_ZCOPY) == !a->zcopy_max && !remote == !a->rma_max && !remote == !a->rkey_max &&
           ((a->caps & HC_CAP_RMA) || a->get_min == SIZE_MAX) && !(a->caps & HC_CAP_MAP) == !a->map_min &&
           !(a->caps & HC_CAP_SHARE) == !a->share_min && !(a->caps & HC_CAP_SHARE) == !a->share_map_min &&
           !(a->caps & HC_CAP_SHARE) == !a->fetch_min && a->lend_min >= a->fetch_min;
}

static bool calls_there(const struct hc_transport *t, unsigned caps)
{
    bool base = t->name && t->query && t->open && t->close && t->progress && t->address && t->reachable &&
                t->ep_create && t->ep_destroy && t->flush && t->am_short && t->am_bcopy;
    bool event = !(caps & HC_CAP_EVENT) || (t->event_fd && t->arm);
    bool zcopy = !(caps & HC_CAP_ZCOPY) || t->am_zcopy;
    bool rma = !(caps & (HC_CAP_RMA | HC_CAP_MAP)) || (t->put && t->get && t->mem_reg && t->mem_dereg &&
                                                       t->rkey_pack && t->rkey_unpack && t->rkey_release);
    bool map = !(caps & HC_CAP_MAP) || t->rkey_is_mapped;
    bool share = !(caps & HC_CAP_SHARE) || (t->shares && t->ep_share);
    bool sync = !(caps & HC_CAP_SYNC) || (t->sync_area && t->ep_sync_area && t->ep_wake);
    return base && event && zcopy && rma && map && share && sync;
}

hcomm_status_t hc_transport_check(const struct hc_iface *iface)
{
    const struct hc_transport *transport = iface->transport;
    if (!calls_there(transport, iface->attr.caps))
        return hc_error(HCOMM_ERR_INTERNAL, "%s: a call that its capabilities %#x promise is missing",
                        transport->name, iface->attr.caps);
    if (!limits_hold(&iface->attr))
        return hc_error(HCOMM_ERR_INTERNAL, "%s: its limits contradict each other", transport->name);
    return HCOMM_OK;
}
