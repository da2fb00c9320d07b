#!/bin/sh
# Communicators of every shape, and made by several threads at once.
run="sh ${srcdir:-.}/tests/multi/run.sh"
result=0
$run tests/multi/comm_shapes -n "1 2 3 4 7 8" || result=$?
$run tests/multi/comm_threads -n "1 2 5" || result=$?
exit $result
