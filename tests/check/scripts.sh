#!/bin/sh
# Scripts can be read by their shell, and a test's limit of time is there for what hangs, not for what is slow: 300 s at
# least.
. "${srcdir:-.}/tests/check/lib.sh"

count=0
for script in "$tree"/autogen.sh "$tree"/scripts/* "$tree"/tests/*/* "$tree"/bench/*; do
    shell=$(sed -n '1s,^#!/bin/\(sh\|bash\)$,\1,p; q' "$script" 2>/dev/null)
    [ -n "$shell" ] || continue
    count=$((count + 1))
    "$shell" -n "$script" || complain "${script#"$tree"/}: $shell cannot read it"
    case $script in */scripts/*) continue ;; esac
    short=$(grep -nE '(^|[^-_a-z])(timeout|limited) +(--kill-after=[0-9]+ +)?([0-9]|[0-9][0-9]|[12][0-9][0-9]) ' "$script")
    [ -z "$short" ] || complain "${script#"$tree"/}: less than 300 s for a test: $short"
done
finish "$count" "scripts"
