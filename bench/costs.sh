#!/bin/sh
# What an 8-byte message costs through shared memory, counted, not timed: system calls (strace), allocations (the
# program's own malloc), instructions (callgrind, inside hcomm_send and hcomm_recv, the difference between N and
# 2 N ping-pongs). Fails when a message makes a system call or an allocation, or needs more instructions than
# bench/budget allows an optimized build. A tool that is not installed is reported, and its count left out.
#
#     ../bench/costs.sh                                 in the build folder
set -u
srcdir=${srcdir:-..}
flags=$(sed -n 's/^HC_CFLAGS = //p; s/^HC_SANITIZE = //p' Makefile)
count=${HC_COST_COUNT:-200}
program=$PWD/bench/message_cost
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hcomm-costs.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
mkfifo "$scratch/0" "$scratch/1" || exit 99
failures=0

complain() {
    echo "costs: $*" >&2
    failures=$((failures + 1))
}

# run NAME COUNT [WRAPPER...]: the program's output goes to NAME.COUNT.
run() {
    name=$1 n=$2
    shift 2
    timeout 120 ./hcommrun -n 2 "$@" "$program" "$n" "$scratch" >"$scratch/$name.$n" 2>"$scratch/errors" || {
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
    command -v strace >/dev/null || {
        echo "system calls: not counted, strace is not installed"
        return
    }
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

instructions_of() {
    # shellcheck disable=SC2016
    run instructions "$1" sh -c 'exec valgrind -q --tool=callgrind --toggle-collect=hcomm_send \
        --toggle-collect=hcomm_recv --callgrind-out-file="$0.$PMIX_RANK" "$@"' "$scratch/callgrind.$1" || return
    awk '/^(summary|totals):/ { sum += $2; nextfile } END { print sum }' \
        "$scratch/callgrind.$1.0" "$scratch/callgrind.$1.1"
}

instructions() {
    command -v valgrind >/dev/null || {
        echo "instructions: not counted, valgrind is not installed"
        return
    }
    once=$(instructions_of "$count") twice=$(instructions_of $((2 * count)))
    each=$(per_message "${once:-0}" "${twice:-0}")
    limit=$(sed -n 's/^instructions_per_message //p' "$srcdir/bench/budget")
    echo "instructions per message, sent and received: $each (budget $limit)"
    above "$each" 1 || complain "no instructions were counted"
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
[ "$failures" -eq 0 ]
