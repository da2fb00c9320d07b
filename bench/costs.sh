#!/bin/sh
# What an 8-byte message costs through shared memory, counted, not timed: system calls (strace), allocations (the
# program's own malloc), instructions and atomic read-modify-writes (callgrind, inside hcomm_send and hcomm_recv, the
# difference between N and 2 N ping-pongs). Fails when a message makes a system call or an allocation, has an atomic
# read-modify-write, without which no lock can be contended, or needs more instructions than bench/budget allows an
# optimized build. Where a tool is not installed the rest is counted, and the status is 77.
#
#     ../bench/costs.sh                                 in the build folder
set -u
srcdir=${srcdir:-..}
flags=$(sed -n 's/^HC_CFLAGS = //p; s/^HC_SANITIZE = //p' Makefile)
compiler=$(sed -n '/^CC = .*clang/s/.*/_clang/p' Makefile)
count=${HC_COST_COUNT:-200}
program=$PWD/bench/message_cost
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hcomm-costs.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
mkfifo "$scratch/0" "$scratch/1" || exit 99
failures=0
missing=''

complain() {
    echo "costs: $*" >&2
    failures=$((failures + 1))
}

# has TOOL WHAT: whether the tool is there with which WHAT is counted.
has() {
    command -v "$1" >/dev/null && return
    echo "$2: not counted, $1 is not installed"
    missing="$missing $1"
    return 1
}

# run NAME COUNT [WRAPPER...]: the program's output goes to NAME.COUNT.
run() {
    name=$1 n=$2
    shift 2
    timeout 300 ./hcommrun -n 2 "$@" "$program" "$n" "$scratch" >"$scratch/$name.$n" 2>"$scratch/errors" || {
        cat "$scratch/errors" >&2
        complain "$name with $n ping-pongs failed"
        return 1
    }
}

# per_message ONCE TWICE: what a single message costs; a ping-pong is two of them.
per_message() {
    awk -v once="$1" -v twice="$2" -v n="$count" 'BEGIN { printf "%.2f", (twice - once) / (2 * n) }'
}

above() {
    awk -v value="$1" -v limit="$2" 'BEGIN { exit !(value > limit) }'
}

allocations() {
    run allocations "$count" || return
    total=$(awk '{ sum += $3 } END { print sum + 0 }' "$scratch/allocations.$count")
    echo "allocations in $count messages: $total"
    [ "$(wc -l <"$scratch/allocations.$count")" -eq 2 ] || complain "not both ranks have reported"
    [ "$total" -eq 0 ] || complain "messages allocate memory"
}

# Calls between the marks, of all threads, but those on the FIFOs.
unwanted_calls() {
    awk -v fifos="<$scratch/" -v least="$count" '
        /write\(-1, "begin"/ { inside = 1; next }
        /write\(-1, "end"/ { inside = 0; marks++ }
        inside && index($0, fifos) { steps++; next }
        inside && !/<\.\.\. (read|write) resumed>/
        END { if (marks != 1 || steps < least) print "(the lockstep is missing)" }' "$1"
}

system_calls() {
    has strace "system calls" || return
    # shellcheck disable=SC2016
    run calls "$count" sh -c 'exec strace -f -y -qq -o "$0.$PMIX_RANK" "$@"' "$scratch/strace" || return
    for rank in 0 1; do
        unwanted_calls "$scratch/strace.$rank" >"$scratch/unwanted.$rank"
    done
    total=$(cat "$scratch"/unwanted.? | wc -l)
    echo "system calls in $count messages: $total"
    [ "$total" -eq 0 ] && return
    complain "messages make system calls:"
    sed 's/^[0-9]* *//; s/(.*//' "$scratch"/unwanted.? | sort | uniq -c >&2
}

# callgrind COUNT: its events of both ranks go to callgrind.COUNT.0 and .1. Bus events are instructions with the prefix
# "lock", and exchanges.
callgrind() {
    # shellcheck disable=SC2016
    run instructions "$1" sh -c 'exec valgrind -q --tool=callgrind --collect-bus=yes --toggle-collect=hcomm_send \
        --toggle-collect=hcomm_recv --callgrind-out-file="$0.$PMIX_RANK" "$@"' "$scratch/callgrind.$1"
}

# events NAME COUNT: how many of them, both ranks together. Zeros at the end of a line are not written.
events() {
    awk -v name="$1" '/^events:/ { for (i = 2; i <= NF; i++) if ($i == name) column = i; columns += column > 1 }
        /^(summary|totals):/ { sum += $column; nextfile }
        END { print columns == 2 ? sum + 0 : "none" }' "$scratch/callgrind.$2.0" "$scratch/callgrind.$2.1"
}

# each_of NAME: how many of these events a message has.
each_of() {
    per_message "$(events "$1" "$count")" "$(events "$1" $((2 * count)))"
}

instructions() {
    has valgrind instructions || return
    callgrind "$count" && callgrind $((2 * count)) || return
    each=$(each_of Ir) atomics=$(each_of Ge)
    limit=$(sed -n "s/^instructions_per_message$compiler //p" "$srcdir/bench/budget")
    echo "instructions per message, sent and received: $each (budget $limit)"
    echo "atomic read-modify-writes per message: $atomics"
    above "$each" 1 || complain "no instructions were counted"
    [ "$(events Ge "$count")" != none ] || complain "no bus events were counted"
    above "$atomics" 0 && complain "a message has atomic read-modify-writes, as a lock that several threads hold in turn"
    case $flags in
    *-DHC_DEBUG=0*) above "$each" "$limit" && complain "a message needs more instructions than bench/budget allows" ;;
    *) echo "instructions: the budget is for optimized builds, this one is not" ;;
    esac
}

case $flags in
*-fsanitize*)
    echo "costs: a build with sanitizers is no measure" >&2
    exit 77
    ;;
esac
allocations
system_calls
instructions
[ "$failures" -eq 0 ] || exit 1
[ -z "$missing" ] || {
    echo "SKIP: not everything was counted: install the Debian packages$missing"
    exit 77
}
