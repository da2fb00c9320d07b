#!/bin/sh
# The first message to a rank. Over tcp its connection may take calls of both sides, so that a silent sender is not
# asked for there.
run="sh ${srcdir:-.}/tests/multi/run.sh tests/multi/p2p_first"
folder=$(mktemp -d "${TMPDIR:-/tmp}/hcomm-first.XXXXXX") || exit 99
trap 'rm -rf "$folder"' EXIT
trap 'exit 143' INT TERM HUP
result=0
$run -n 2 -- silent "$folder" || result=$?
for case in both late; do
    $run -n 2 -- $case || result=$?
    $run -n 2 -e HCOMM_TRANSPORTS=ofi:tcp -- $case || result=$?
done
exit $result
