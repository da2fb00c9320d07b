#!/bin/sh
# Sends that time out. Four ranks share the processors of a small machine, so that shm lets receivers fetch directly.
run="sh ${srcdir:-.}/tests/multi/run.sh tests/multi/p2p_withdraw"
result=0
$run -n 4 || result=$?
$run -n 2 -e HCOMM_TRANSPORTS=ofi:tcp || result=$?
$run -n 2 -e HC_TEST_MAPPED=1 || result=$? # both sides copy
exit $result
