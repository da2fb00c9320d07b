#!/bin/sh
# hcomm_info: each section tells what it should, bad usage is refused, JSON is JSON.
out=$(mktemp "${TMPDIR:-/tmp}/hcomm-info.XXXXXX") || exit 99
trap 'rm -f "$out" "$out.err"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it

die() {
    echo "info.sh: $*" >&2
    cat "$out" "$out.err" >&2
    exit 1
}
# run STATUS COMMAND...: the command must end with the status.
run() {
    expected=$1
    shift
    timeout 300 "$@" >"$out" 2>"$out.err"
    status=$?
    [ "$status" -eq "$expected" ] || die "$*: status $status instead of $expected"
}
has() {
    grep -Eq "$1" "$out" || die "no line like '$1'"
}

run 0 env HCOMM_NUM_QP=3 ./hcomm_info --config
has '^name +type +range +default +current +origin +help$'
has '^num_qp +int +1\.\.32 +8 +3 +environment '
has '^timeout_ms +int +1000\.\.86400000 +30000 +30000 +default '
run 1 env HCOMM_NUM_QP=33 ./hcomm_info --config
[ "$(wc -l <"$out.err")" -eq 1 ] && grep -q 'HCOMM_NUM_QP.*33.*1\.\.32' "$out.err" || die "a bad value is not named"

run 0 ./hcomm_info --version
has '^hcomm +[0-9]+\.[0-9]+\.[0-9]+$'
has '^hwloc +interface 2\.'
has '^ofi +libfabric [0-9]'

run 0 ./hcomm_info -V
has '^hcomm +[0-9]+\.[0-9]+\.[0-9]+$'
# What is misspelt is told once per host, not by every rank.
run 0 env HCOMM_TIMOUT_MS=5000 ./hcommrun --oversubscribe -n 3 ./hcomm_info --version
[ "$(grep -c 'did you mean HCOMM_TIMEOUT_MS?' "$out.err")" -eq 1 ] || die "a misspelt setting is not told once"

for ranks in 1 2; do # what names no interface is told also where none is used
    run 0 env HCOMM_NET_IF=no_such0 ./hcommrun --oversubscribe -n $ranks ./hcomm_info --config
    [ "$(grep -c 'warn: HCOMM_NET_IF=no_such0 names no network interface' "$out.err")" -eq 1 ] ||
        die "a misspelt interface is not told once among $ranks"
done
run 1 env HCOMM_NET_IF=no_such0 ./hcomm_info --version
grep -q 'stopped early: HCOMM_NET_IF=no_such0 names no network interface' "$out.err" || die "another cause is told"

run 0 ./hcomm_info --transports
has '^self +yes '
has '^shm .* (yes|no) '
# The limits in use, and how they are chosen: fixed, from the machine, from settings and the job, or learned.
has '^  self$'
has '^    eager up to 1 KiB \(fixed\)$'
if grep -q '^shm .* yes ' "$out"; then
    has "^    in the receiver's ring up to 8 KiB \(fixed, by measurement\)$"
    has '^    but from 1 KiB, in an exchange of single messages from 2 KiB, .*\(sampled per peer\)$'
    has '^    in chunks up to 64 KiB, [0-9]+ in rotation \(from the second-level cache of [0-9]+ .*B\), .*\(learned per peer\)$'
    has '^    memory from hcomm mapped from 16 KiB '
    has '^    copied by both sides from 128 KiB if both have it \(fixed, by measurement\)$'
    attach=$(grep -c '^shm .* single copy by cross-memory attach' "$out")
    [ "$(grep -c '^    or in one copy, which both sides share from 64 KiB (learned per peer and size)$' "$out")" -eq "$attach" ] ||
        die "the one copy is told of wrongly"
    [ "$(grep -c '^    or from 16 KiB lent to the receiver, which copies once (learned per peer and size)$' "$out")" -eq "$attach" ] ||
        die "lending is told of wrongly"
    run 0 env HCOMM_BUFFER_SIZE=1048576 ./hcomm_info --transports
    has '^    in chunks up to 64 KiB, 15 in rotation \(all that buffer_size allows\)'
    run 0 ./hcommrun --oversubscribe -n $(($(getconf _NPROCESSORS_ONLN) + 1)) ./hcomm_info --transports
    [ "$(grep -c '^    from 256 KiB one copy by the receiver (more ranks than processors)$' "$out")" -eq "$attach" ] ||
        die "the copy by the receiver is told of wrongly"
    ! grep -q 'or in one copy\|lent\|copied by both sides' "$out" || die "both sides copy with more ranks than processors"
fi
run 0 env HCOMM_NUM_QP=3 HCOMM_TRANSPORTS=ofi:tcp ./hcomm_info --transports
if grep -q '^ofi:tcp .* yes ' "$out"; then
    has '^  ofi:tcp on '
    has '^    eager up to 64 KiB \(fixed, per provider\)$'
    has "^    out of the sender's buffer from 4 KiB "
    has '^    up to 8 KiB gathered \(.*learned per peer\)$'
    has '^    rendezvous by get from 64 KiB, at most 512 KiB each '
    has '^    a get below 256 KiB in pieces of 60 KiB or less$'
    has '^    gets from 256 KiB in turn over up to 3 endpoints \(num_qp\)$'
    ! grep -q '^  shm' "$out" || die "limits of a transport that is not used"
fi
run 0 ./hcomm_info --counters
has '^eager_sent +0 '

run 0 ./hcommrun --oversubscribe -n 3 ./hcomm_info --topology
has '^job of 3 ranks on 1 host'
has 'rank 2 on processors '
[ "$(grep -Ec '^ +[0-2] +0 .* (self|shm) ' "$out")" -eq 3 ] || die "the table has not 3 ranks"

run 0 env HCOMM_NPU="$(pwd)/.libs/libnpusim.so" ASCEND_RT_VISIBLE_DEVICES=2,3 HCOMM_DEVICE_ID=1 ./hcomm_info --devices
has '^device runtime: .*libnpusim.so'
has '^ +0 +2 .* ffff:02:00.0 +no +HCCS *$'
has '^ +1 +3 .* ffff:03:00.0 +yes +same *$'
run 0 env HCOMM_NPU=off ./hcomm_info --devices
has '^no devices: .*HCOMM_NPU=off.*auto.*sim'
[ "$(wc -l <"$out")" -eq 1 ] || die "more than one line without devices"
run 0 env HCOMM_NPU="$(pwd)/.libs/libnpusim.so" ASCEND_RT_VISIBLE_DEVICES=5 HCOMM_DEVICE_ID=0 \
    ./hcommrun --oversubscribe -n 2 ./hcomm_info --topology
has '^ +1 +0 .* shm +5 +same '

# When nothing leads to others, the error itself tells why: hcomm_info cannot be asked in such a job.
run 1 env HCOMM_PROTOCOL=tcp HCOMM_TRANSPORTS=shm ./hcommrun -n 2 ./hcomm_info --transports
grep -q 'usable: excluded by HCOMM_PROTOCOL: shm, ofi:.*; excluded by HCOMM_TRANSPORTS: .*ofi:tcp' "$out.err" ||
    die "it is not told why no transport is usable"
! grep -q 'HCOMM_NET_IF' "$out.err" || die "advice for a transport that a setting excludes"

run 0 ./hcomm_info --help
has '^  --transports '
has '^-V is --version'
for argument in --jsn -x word; do
    run 2 ./hcomm_info $argument
    [ "$(wc -l <"$out.err")" -eq 1 ] || die "$argument is not refused with one line"
    grep -q -- "'$argument'" "$out.err" || die "$argument is not named"
done
[ ! -e /dev/full ] || timeout 300 ./hcomm_info --counters >/dev/full 2>"$out.err"
[ $? -eq 1 ] && grep -q 'standard output' "$out.err" || die "a full disk is not told"

run 0 ./hcomm_info --all --json
command -v python3 >/dev/null || exit 0
timeout 300 python3 -c '
import json, sys
info = json.load(open(sys.argv[1]))
assert sorted(info) == ["config", "counters", "devices", "topology", "transports", "version"], sorted(info)
assert all(info.values())
assert info["topology"][0]["rank"] == 0
assert all(bool(t["thresholds"]) == (t["usable"] == "yes") for t in info["transports"]), info["transports"]
' "$out" || die "not the JSON it should be"
