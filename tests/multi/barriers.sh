#!/bin/sh
# Barriers by every way they may work: flags (2), gathering (3), messages (1), and between pretended hosts; and
# what they tell when a rank is late, absent or lost.
run="sh ${srcdir:-.}/tests/multi/run.sh"
result=0
$run tests/multi/barrier_order -n "1" || result=1
$run tests/multi/barrier_order -n "2 3 4" -- --expect 2 || result=1
$run tests/multi/barrier_order -n "5 8" -- --expect 3 || result=1
$run tests/multi/barrier_order -n "7 8" -- --expect 3 --hosts 3 || result=1
$run tests/multi/barrier_order -n "2 5" -e HCOMM_TRANSPORTS=ofi:tcp -- --expect 1 || result=1
$run tests/multi/barrier_failures -n "2 6" -- late || result=1
$run tests/multi/barrier_failures -n "2 6" -- absent || result=1

out=$(mktemp "${TMPDIR:-/tmp}/hcomm-lost.XXXXXX") || exit 99
trap 'rm -f "$out"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
for ranks in 2 3 6; do
    timeout --kill-after=10 300 ./hcommrun --on-failure continue -n $ranks tests/multi/barrier_failures lost >"$out" 2>&1
    survivors=$(grep -c '^survivor$' "$out")
    if [ "$survivors" -eq $((ranks - 1)) ]; then
        echo "ok    $survivors of $ranks ranks live on when one is killed in a barrier"
    else
        echo "FAIL  $survivors of $ranks ranks live on when one is killed in a barrier; they printed:"
        sed 's/^/      /' "$out"
        result=1
    fi
done
exit $result
