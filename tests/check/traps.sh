#!/bin/sh
# Scripts of sh that clean up at their end do so, too, when a signal ends them: sh calls no EXIT trap then, so they need one
# for the signals that exits.
srcdir=${srcdir:-.}
result=0 count=0
for script in "$srcdir"/tests/*/*.sh "$srcdir"/bench/*.sh; do
    grep -q '^trap .* EXIT' "$script" && ! head -n 1 "$script" | grep -q bash || continue
    count=$((count + 1))
    grep -q '^ *trap .*TERM' "$script" || {
        echo "$script: cleans up at EXIT, but not when it is interrupted: add trap 'exit 143' INT TERM HUP"
        result=1
    }
done
[ "$count" -gt 0 ] || { echo "no script was found"; exit 1; }
echo "$count scripts"
exit "$result"
