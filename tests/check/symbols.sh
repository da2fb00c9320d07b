#!/bin/sh
# The library exports the functions that the public headers declare, all of them and nothing else.
. "${srcdir:-.}/tests/check/lib.sh"

library=${HC_CHECK_LIBRARY:-.libs/libhcommrt.so}
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u) || exit 99
declared=$(public_functions)

for symbol in $exported; do
    case $symbol in
    hcomm_*) ;;
    *) complain "$library: exports $symbol, which does not start with hcomm_" ;;
    esac
    printf '%s\n' "$declared" | grep -qx "$symbol" || complain "$symbol: exported, but no public header declares it"
done
for symbol in $declared; do
    printf '%s\n' "$exported" | grep -qx "$symbol" || complain "$symbol: declared, but $library does not export it"
done
# shellcheck disable=SC2086
set -- $exported
finish $# "exported symbols"
