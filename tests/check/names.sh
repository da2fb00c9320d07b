#!/bin/sh
# Names that would clash with Ascend's CANN, and names outside our prefixes, in the public headers; words that
# mark unfinished work anywhere.
. "${srcdir:-.}/tests/check/lib.sh"

# CANN has a libhcomm.so, hcomm_*.h headers, and enumerators of these families.
cann='HCOMM_(REDUCE|DATA_TYPE|LAUNCH_MODE|TRANSFER_TYPE)_'

headers=$(c_files include)
for header in $headers; do
    case ${header##*/} in
    hcomm_*) complain "$header: CANN installs headers called hcomm_*.h" ;;
    esac
    grep -nE "$cann" "$tree/$header" >&2 && complain "$header: a name of CANN's"
    # Functions, types, enumerators and macros at the start of a line or of an enumeration's line.
    sed -nE -e 's/^#[ \t]*define[ \t]+([A-Za-z_0-9]+).*/\1/p' \
        -e 's/^[ \t]+([A-Z][A-Z_0-9]*)( = .*|,.*)$/\1/p' -e 's/^HCOMM_API .*[ *]([a-z_0-9]+)\(.*/\1/p' \
        -e 's/^\} ([a-z_0-9]+);$/\1/p' "$tree/$header" | grep -vE '^(hcomm_|HCOMM_)' >&2 &&
        complain "$header: a name without the prefix hcomm_ or HCOMM_"
done

for makefile in $(cd "$tree" && find . -name 'local.mk' -o -name 'Makefile.am' | grep -v '/build'); do
    grep -n 'libhcomm\.la' "$tree/$makefile" >&2 && complain "$makefile: CANN has a libhcomm.so"
done

# Split, so that this file does not find itself.
unfinished='TO''DO|FIX''ME|XX''X'
for folder in include runtime transports launcher tools examples bench scripts docs tests m4/hc_dependency.m4; do
    [ -e "$tree/$folder" ] || continue
    grep -rnwE --include='*.[ch]' --include='*.sh' --include='*.mk' --include='*.md' --include='*.scd' \
        "$unfinished" "$tree/$folder" >&2 && complain "$folder: unfinished work"
done

# In a checkout: nothing is tracked that .gitignore calls a product.
if [ -e "$tree/.git" ]; then
    (cd "$tree" && git ls-files --cached --ignored --exclude-standard) | grep . >&2 && complain "tracked products"
fi

# shellcheck disable=SC2086
set -- $headers
finish $# "public headers"
