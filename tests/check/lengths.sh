#!/bin/sh
# One step per function: median at most 15 lines, 95 % at most 60, none over 100; files at most 1000 lines; and
# the build chooses files, so no #if inside a function. Bodies are counted: what is between "{" and "}" in the
# first column, as clang-format leaves them.
. "${srcdir:-.}/tests/check/lib.sh"

files=$(c_files runtime transports launcher tools)
report=$(cd "$tree" && [ -n "$files" ] && awk '
    FNR == 1 { inside = 0 }
    /^\{/ { inside = 1; start = FNR; name = previous }
    inside && /^[ \t]*#[ \t]*if/ { printf "complaint %s:%d: #if inside a function\n", FILENAME, FNR }
    inside && /^\}/ {
        printf "length %d %s:%d %s\n", FNR - start - 1, FILENAME, start, name
        inside = 0
    }
    { lines[FILENAME]++ }
    !inside && /^[a-z].*\(/ { previous = $0; sub(/\(.*/, "", previous); sub(/.*[ *]/, "", previous) }
    END {
        for (file in lines)
            if (lines[file] > 1000)
                printf "complaint %s: %d lines, at most 1000 are allowed\n", file, lines[file]
    }' $files)

functions=$(printf '%s\n' "$report" | grep -c '^length')
printf '%s\n' "$report" | sed -n 's/^complaint //p' | {
    while read -r line; do complain "$line"; done
    exit $((complaints > 0))
} || complaints=$((complaints + 1))

# The n-th shortest body, "LENGTH FILE:LINE NAME".
nth() {
    printf '%s\n' "$report" | sed -n 's/^length //p' | sort -n | sed -n "$1p"
}

if [ "$functions" -gt 0 ]; then
    median=$(nth $(((functions + 1) / 2)))
    most=$(nth $(((functions * 95 + 99) / 100)))
    longest=$(nth "$functions")
    echo "body lines: median ${median%% *}, 95 % within ${most%% *}, longest $longest"
    [ "${median%% *}" -le 15 ] || complain "the median function has ${median%% *} lines, at most 15 are allowed"
    [ "${most%% *}" -le 60 ] || complain "95 % of the functions need ${most%% *} lines, at most 60 are allowed"
    [ "${longest%% *}" -le 100 ] || complain "a function is longer than 100 lines: $longest"
fi
finish "$functions" "functions"
