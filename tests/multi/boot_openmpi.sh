#!/bin/sh
# The bootstrap under Open MPI's mpirun; and a rank whose server is killed notices, and ends by itself.
command -v mpirun.openmpi >/dev/null || {
    echo "SKIP: mpirun.openmpi not found: install the Debian package openmpi-bin"
    exit 77
}
sh "${srcdir:-.}/tests/multi/boot_jobs.sh" 4 all mpirun.openmpi --allow-run-as-root --oversubscribe -n 4 || exit

area=$(mktemp -d "${TMPDIR:-/tmp}/hcomm-boot.XXXXXX") || exit 99
trap 'rm -rf "$area"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
export BOOT_EXCHANGE_RESULT="$area/result"
# Open MPI's own folder of the killed mpirun goes with ours.
TMPDIR=$area mpirun.openmpi --allow-run-as-root -n 1 tests/multi/boot_exchange server_lost >"$area/out" 2>"$area/err" &
server=$!
tries=0
until grep -q waiting "$area/out" || [ $tries -eq 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
kill -KILL $server
wait $server 2>/dev/null
tries=0
until [ -s "$area/result" ] || [ $tries -eq 900 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
grep -q 'ended well' "$area/result" && exit
echo "boot_openmpi.sh: the rank did not end well after its server was killed" >&2
cat "$area/out" "$area/err" "$area/result" >&2
exit 1
