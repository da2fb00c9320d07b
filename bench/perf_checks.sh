#!/bin/sh
# hcomm_perf runs every test with verified data: both kinds of memory, all modes, with and without progress thread,
# over every transport there is; and refuses a wrong command line with one line and exit code 2.
set -u
failures=0

complain() {
    echo "perf_checks: $*" >&2
    failures=$((failures + 1))
}

measure() {
    ranks=$1
    shift
    timeout 120 ./hcommrun --oversubscribe -n "$ranks" ./hcomm_perf --check -w 2 "$@" >/dev/null ||
        complain "hcomm_perf $* with $ranks ranks failed"
}

refuses() {
    said=$(./hcomm_perf "$@" 2>&1 >/dev/null)
    code=$?
    [ "$code" -eq 2 ] || complain "hcomm_perf $*: exit code $code, not 2"
    [ "$(printf '%s\n' "$said" | grep -c '^hcomm_perf: ')" -eq 1 ] || complain "hcomm_perf $* said: $said"
}

measure 2 -i 5 -s 0:256K --queue 1:1000 all
measure 4 -i 3 -s 1:4K one_to_many many_to_one mbw_mr multi_lat barrier
measure 2 -i 3 -s 1:128K --mode small latency bibw
measure 2 -i 3 -s 1:128K --mode large latency bibw
measure 2 -i 3 -s 4K:1M --memory hcomm --footprint 4M latency bw
measure 2 -i 3 -s 1:1M -t ofi:tcp latency bw

refuses
refuses nothing_of_the_kind
refuses -s 4X:8 latency
refuses -s 8:4 latency
refuses -i 0 latency
refuses -T 0 latency
refuses -W
refuses --mode medium latency
refuses --pin=a latency
refuses --unknown latency
[ "$failures" -eq 0 ]
