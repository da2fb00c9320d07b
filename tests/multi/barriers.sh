#!/bin/sh
# Barriers by every way they may work: flags (2), gathering (3), messages (1), and between pretended hosts.
run="sh ${srcdir:-.}/tests/multi/run.sh"
result=0
$run tests/multi/barrier_order -n "1" || result=$?
$run tests/multi/barrier_order -n "2 3 4" -- --expect 2 || result=$?
$run tests/multi/barrier_order -n "5 8" -- --expect 3 || result=$?
$run tests/multi/barrier_order -n "7 8" -- --expect 3 --hosts 3 || result=$?
$run tests/multi/barrier_order -n "2 5" -e HCOMM_TRANSPORTS=ofi:tcp -- --expect 1 || result=$?
exit $result
