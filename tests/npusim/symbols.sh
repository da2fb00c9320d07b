#!/bin/sh
# The simulator exports the functions that acl.h declares, all of them and nothing else, and needs no library of
# hcomm's.
set -u
library=${TEST_NPUSIM_LIBRARY:-.libs/libnpusim.so}
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort) || exit 99
declared=$(sed -nE 's/^(int|const char \*) ?(acl[A-Za-z]*)\(.*/\2/p' "${srcdir:-.}/transports/npu/acl/acl.h" | sort)
listed=$(sed -nE 's/^ *X\((acl[A-Za-z]*)\).*/\1/p' "${srcdir:-.}/transports/npu/acl/acl.h" | sort)
[ -n "$declared" ] || exit 99
failed=0
if [ "$exported" != "$declared" ]; then
    echo "$library does not export what acl.h declares:" "$exported" "--" "$declared" >&2
    failed=1
fi
if [ "$listed" != "$declared" ]; then
    echo "the lists in acl.h are not its declarations:" "$listed" "--" "$declared" >&2
    failed=1
fi
if readelf -d "$library" | grep NEEDED | grep -E 'hcomm|fabric|pmix|hwloc' >&2; then
    failed=1
fi
exit $failed
