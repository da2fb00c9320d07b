#!/bin/sh
# Point-to-point messages with a progress thread, and in the modes for small and for large ones.
run="sh ${srcdir:-.}/tests/multi/run.sh"
result=0
for program in p2p_messages p2p_requests p2p_threads; do
    $run tests/multi/$program -n "2" -e HCOMM_PROGRESS_THREAD=on || result=$?
    $run tests/multi/$program -n "2" -e HCOMM_MODE=small_msg || result=$?
    $run tests/multi/$program -n "2" -e HCOMM_MODE=large_msg || result=$?
done
exit $result
