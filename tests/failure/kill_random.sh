#!/bin/bash
# kill -9 of a random rank or of hcommrun, at a random moment, many times: every run ends, and leaves no process, no
# entry in /dev/shm, no temporary directory.
#   KILLS=N rounds (200; 40 with sanitizers), SEED=N
set -u
# A /dev/shm of its own, where that may be had: other tests, which may run at the same time, use the machine's.
if [ -z "${HC_OWN_SHM-}" ] && unshare -m mount -t tmpfs tmpfs /dev/shm 2>/dev/null; then
    HC_OWN_SHM=1 exec unshare -m sh -c 'mount -t tmpfs tmpfs /dev/shm && exec "$0"' "$0"
fi
build=${top_builddir:-.}
program=$build/tests/failure/traffic
rounds=${KILLS:-$([ -n "${HC_SANITIZE-}" ] && echo 40 || echo 200)}
seed=${SEED:-$$}
RANDOM=$seed
ranks=4
moments=$([ -n "${HC_SANITIZE-}" ] && echo 500 || echo 300) # ms: starting takes up to half of it
limit=60 # seconds within which everything must be gone
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
shm_before=$(ls /dev/shm)

# Processes of this round carry a word in their environment that no other process has.
members() {
    grep -lz "^HC_TEST_ROUND=$1\$" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3
}

all_gone() {
    local tries=$((limit * 20))
    while [ -n "$(members "$1")" ]; do
        [ $((tries -= 1)) -gt 0 ] || return 1
        sleep 0.05
    done
}

fail() {
    echo "FAIL in round $round (SEED=$seed, victim $victim after $pause s): $1"
    cat "$work/log"
    for pid in $(members "$mark"); do
        echo "left: $pid $(tr '\0' ' ' <"/proc/$pid/cmdline")"
        kill -9 "$pid"
    done
    exit 1
}

for ((round = 1; round <= rounds; round++)); do
    mark=$$.$round.$RANDOM
    transports=shm
    [ $((round % 4)) -eq 0 ] && transports=ofi:tcp
    HC_TEST_ROUND=$mark HCOMM_TRANSPORTS=$transports HCOMM_TIMEOUT_MS=10000 \
        "$build/hcommrun" --oversubscribe --grace 500 -n $ranks "$program" 30 >"$work/log" 2>&1 </dev/null &
    launcher=$!
    pause=$(printf '0.%03d' $((RANDOM % moments)))
    sleep "$pause"
    victim=$((RANDOM % (ranks + 1)))
    pid=$launcher
    if [ $victim -lt $ranks ]; then
        pid=
        for candidate in $(members "$mark"); do
            grep -qz "^PMIX_RANK=$victim\$" "/proc/$candidate/environ" 2>/dev/null && pid=$candidate
        done
        [ -n "$pid" ] || pid=$launcher
    fi
    victim_is=$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)
    if ! kill -9 "$pid" 2>/dev/null; then # gone meanwhile: the launcher, then
        pid=$launcher
        victim_is=hcommrun
        kill -9 "$pid" 2>/dev/null
    fi
    begin=$SECONDS
    wait $launcher 2>/dev/null
    code=$?
    all_gone "$mark" || fail "processes are left after $limit s"
    [ $code -ne 0 ] || fail "exit code 0 after $((SECONDS - begin)) s though process $pid ($victim_is) was killed"
    grep -q "wrong report" "$work/log" && fail "a failure was reported wrongly"
    left=$(ls -A "$TMPDIR")
    [ -z "$left" ] || fail "left in the temporary directory: $left"
done
new=$(comm -13 <(echo "$shm_before") <(ls /dev/shm))
if [ -n "$new" ]; then
    echo "FAIL: left in /dev/shm:"
    echo "$new"
    exit 1
fi
echo "ok: $rounds kills, nothing left"
