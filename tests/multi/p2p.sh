#!/bin/sh
# Point-to-point messages over every transport of this host, and alone.
run="sh ${srcdir:-.}/tests/multi/run.sh"
result=0
ranks="1 2 3" tcp_ranks="2 3"
[ -z "${HC_SANITIZE-}" ] || ranks="1 3" tcp_ranks=2 # instrumented programs take many times as long
for program in p2p_messages p2p_requests p2p_threads p2p_unfinished; do
    $run tests/multi/$program -n "$ranks" || result=$?
    $run tests/multi/$program -n "$tcp_ranks" -e HCOMM_TRANSPORTS=ofi:tcp || result=$?
done
# Gigabytes through instrumented copies find nothing that smaller messages do not: the plain builds send them.
[ -n "${HC_SANITIZE-}" ] || $run tests/multi/p2p_huge -n "2" -t 600 || result=$?
exit $result
