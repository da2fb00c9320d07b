#!/bin/sh
# Every public function has a manual page that names it, and no page names a function that does not exist.
. "${srcdir:-.}/tests/check/lib.sh"

declared=$(public_functions)
# The line below "# NAME" lists the page's names, then a dash and what they do.
named=$(cd "$tree/docs/man" && for page in *.3.scd; do
    awk '/^# NAME/ { getline; getline; sub(/ - .*/, ""); gsub(/, */, "\n"); print }' "$page"
done | sort)

for name in $declared; do
    [ "$(printf '%s\n' "$named" | grep -cx "$name")" -eq 1 ] || complain "$name: not on exactly one page of section 3"
done
for name in $named; do
    printf '%s\n' "$declared" | grep -qx "$name" || complain "$name: has a page, but is no public function"
done
for page in "$tree"/docs/man/*.scd; do
    base=${page##*/} base=${base%.scd}
    head -1 "$page" | grep -q "^${base%.*}(${base##*.})" || complain "$page: its first line is not ${base%.*}(${base##*.})"
done
# shellcheck disable=SC2086
set -- $declared
finish $# "public functions"
