#!/bin/sh
# Every public header compiles alone, as C11 and as C++17, without a warning.
. "${srcdir:-.}/tests/check/lib.sh"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/hcomm-headers.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
warnings="-Wall -Wextra -Werror -pedantic"

compile() {
    # shellcheck disable=SC2086
    "$@" $warnings -fsyntax-only -I"$tree/include" || complain "$header: does not compile alone with: $*"
}

headers=$(c_files include)
for header in $headers; do
    printf '#include <%s>\n' "${header#include/}" >"$scratch/alone.c"
    cp "$scratch/alone.c" "$scratch/alone.cc"
    # shellcheck disable=SC2086
    compile ${CC:-cc} -std=c11 "$scratch/alone.c"
    # shellcheck disable=SC2086
    compile ${CXX:-c++} -std=c++17 "$scratch/alone.cc"
done
# shellcheck disable=SC2086
set -- $headers
finish $# "public headers"
