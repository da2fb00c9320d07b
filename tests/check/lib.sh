# Common to the checks: where the tree is, what counts as a source, how to complain. Each check may be given
# another tree to look at; tests/check/detects.sh does so, to prove that the checks find what they look for.
# shellcheck shell=sh
tree=${1:-${srcdir:-.}}
complaints=0

complain() {
    echo "$*" >&2
    complaints=$((complaints + 1))
}

# List C files (sources and headers) below the given folders of the tree, as paths relative to it.
c_files() {
    (cd "$tree" && for folder in "$@"; do
        [ -d "$folder" ] && find "$folder" -name '*.[ch]' -type f
    done | sort)
}

# List the functions that the public headers declare.
public_functions() {
    (cd "$tree/include" && cat hcomm.h hcomm/*.h) | awk '
        /^HCOMM_API/ { while (!/\(/ && (getline more) > 0) $0 = $0 " " more; sub(/\(.*/, ""); sub(/.*[ *]/, ""); print }
    ' | sort -u
}

# End the check; nothing examined is a failure too. $1: how many things were looked at, $2: what they are.
finish() {
    [ "$1" -gt 0 ] || complain "nothing to check: no $2 found in $tree"
    echo "$1 $2, $complaints complaints"
    [ "$complaints" -eq 0 ]
}
