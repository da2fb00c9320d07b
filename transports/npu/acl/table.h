/*
 * The device runtime's functions, found when they are first needed: the vendor's libascendcl.so, or our
 * libnpusim.so. Both the runtime and the libfabric provider compile this in; it depends on neither. Each copy
 * loads by itself, and the dynamic linker gives both the same library.
 */
#ifndef HC_ACL_TABLE_H
#define HC_ACL_TABLE_H

#include "transports/npu/acl/acl.h"

#include <stddef.h>

/* Functions of HC_ACL_OPTIONAL_FUNCTIONS may be NULL: look before you call. */
struct hc_acl {
#define HC_ACL_MEMBER(name) __typeof__(name) *name;
    HC_ACL_FUNCTIONS(HC_ACL_MEMBER)
    HC_ACL_OPTIONAL_FUNCTIONS(HC_ACL_MEMBER)
#undef HC_ACL_MEMBER
    const char *library; /* as it was loaded: a file name or path */
};

/*
 * Load and initialise the device runtime, once per process; it stays loaded. Any thread. choice is what the
 * setting HCOMM_NPU holds:
 *   auto, "" or NULL  libascendcl.so by the dynamic linker's search path; if there is none, libnpusim.so
 *   sim               libnpusim.so beside the library or program that this is part of, or one folder above,
 *                     else by the search path
 *   off               none
 *   a path            that library; with at least one '/'
 * NULL on failure: error (size bytes) then says in one line what is missing, and what to do about it. Once a
 * library is loaded, every choice but "off" gives that one.
 */
const struct hc_acl *hc_acl_load(const char *choice, char *error, size_t size);

/* The table if it was loaded, else NULL; loads nothing. Any thread. */
const struct hc_acl *hc_acl_loaded(void);

/* What a code means, in words; a constant string, never NULL. */
const char *hc_acl_text(int code);

/* The calling thread's last failure in the runtime's own words; "" when it does not tell. */
const char *hc_acl_detail(const struct hc_acl *acl);

#endif
