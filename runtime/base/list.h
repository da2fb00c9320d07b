/*
 * Intrusive lists: a circular doubly linked one with a head, and a singly linked FIFO. Nodes are embedded in
 * the caller's structures (hc_container_of gets back); the lists own nothing. Not thread-safe.
 */
#ifndef HC_LIST_H
#define HC_LIST_H

#include "runtime/base/compiler.h"

#include <stdbool.h>

struct hc_list {
    struct hc_list *next, *prev;
};

static inline void hc_list_init(struct hc_list *head)
{
    head->next = head->prev = head;
}

static inline bool hc_list_empty(const struct hc_list *head)
{
    return head->next == head;
}

/* Insert at the end of the list. */
static inline void hc_list_append(struct hc_list *head, struct hc_list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

/* Take out of whichever list it is in; the node is left linked to itself, so removing twice is harmless. */
static inline void hc_list_remove(struct hc_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = node;
}

static inline struct hc_list *hc_list_first(const struct hc_list *head)
{
    return hc_list_empty(head) ? NULL : head->next;
}

static inline struct hc_list *hc_list_pop(struct hc_list *head)
{
    struct hc_list *node = hc_list_first(head);
    if (node)
        hc_list_remove(node);
    return node;
}

#define hc_list_entry(node, type, member) hc_container_of(node, type, member)

/* for-headers only: `node` is a struct hc_list *; the safe form allows removing `node`. */
#define hc_list_for_each(node, head) for (node = (head)->next; node != (head); node = node->next)
#define hc_list_for_each_safe(node, tmp, head)                                                               \
    for (node = (head)->next, tmp = node->next; node != (head); node = tmp, tmp = node->next)

struct hc_fifo_node {
    struct hc_fifo_node *next;
};

struct hc_fifo {
    struct hc_fifo_node *head, **tail;
};

static inline void hc_fifo_init(struct hc_fifo *fifo)
{
    fifo->head = NULL;
    fifo->tail = &fifo->head;
}

static inline bool hc_fifo_empty(const struct hc_fifo *fifo)
{
    return !fifo->head;
}

static inline void hc_fifo_push(struct hc_fifo *fifo, struct hc_fifo_node *node)
{
    node->next = NULL;
    *fifo->tail = node;
    fifo->tail = &node->next;
}

static inline struct hc_fifo_node *hc_fifo_pop(struct hc_fifo *fifo)
{
    struct hc_fifo_node *node = fifo->head;
    if (!node)
        return NULL;
    fifo->head = node->next;
    if (!fifo->head)
        fifo->tail = &fifo->head;
    return node;
}

#endif
