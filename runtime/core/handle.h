/*
 * Handles of streams and events: numbers in the shape of pointers that are never dereferenced, so that any
 * value a caller passes can be checked. One table per process; a handle that was destroyed is not given again
 * before its slot was used 2^32 times. Looking up takes no lock; creating and destroying do.
 */
#ifndef HC_HANDLE_H
#define HC_HANDLE_H

#include <stdint.h>

enum hc_handle_kind { HC_HANDLE_STREAM, HC_HANDLE_EVENT, HC_HANDLE_KINDS };

/* Handles of one kind in use at a time. */
enum { HC_HANDLE_MAX = 65536 };

/* A handle for the object; NULL when HC_HANDLE_MAX are in use or memory is exhausted. Any thread. */
void *hc_handle_create(enum hc_handle_kind kind, void *object);
/* The object; NULL when the handle was never given, was destroyed, or is of another kind. Any thread. */
void *hc_handle_object(enum hc_handle_kind kind, const void *handle);
/* The handle becomes invalid; it must be valid. Any thread. */
void hc_handle_destroy(enum hc_handle_kind kind, const void *handle);

#endif
