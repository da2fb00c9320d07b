#!/bin/sh
# Every setting does what it says.
run="sh ${srcdir:-.}/tests/multi/run.sh tests/multi/settings_effects -n 2"
result=0
$run || result=$?
# where receivers would fetch large messages themselves
$run -e HCOMM_TRANSPORTS=ofi:tcp -- bandwidth_limit_limits || result=$?
exit $result
