#!/bin/sh
# model.sh [long]: random message patterns against the model over shared memory and tcp: for about a minute (half of it
# with sanitizers), or with "long" 10000 patterns over each.
run="sh ${srcdir:-.}/tests/multi/run.sh"
result=0
if [ "${1-}" = long ]; then
    for transports in shm ofi:tcp; do
        $run tests/multi/model_random -n 4 -t 7200 -e HCOMM_TRANSPORTS=$transports -- -n 10000 -s 0 || result=$?
    done
    exit $result
fi
seed=$(date +%s)
seconds=8
[ -z "${HC_SANITIZE-}" ] || seconds=4
for transports in shm ofi:tcp; do
    $run tests/multi/model_random -n "2 4" -e HCOMM_TRANSPORTS=$transports -- -n 10000 -s $seconds -r "$seed" || result=$?
done
$run tests/multi/model_random -n 3 -e HCOMM_MODE=small_msg -- -n 10000 -s $seconds -r "$seed" || result=$?
$run tests/multi/model_random -n 3 -e HCOMM_MODE=large_msg -- -n 10000 -s $seconds -r "$seed" || result=$?
$run tests/multi/model_random -n 3 -e HCOMM_PROGRESS_THREAD=on -- -n 10000 -s $seconds -r "$seed" || result=$?
$run tests/multi/model_random -n 1 -- -n 10000 -s 3 -r "$seed" || result=$?
exit $result
