#!/bin/sh
# The examples run under Open MPI's mpirun.
command -v mpirun.openmpi >/dev/null || {
    echo "SKIP: mpirun.openmpi not found: install the Debian package openmpi-bin"
    exit 77
}
check=${srcdir:-.}/tests/multi/launched.sh
launch="mpirun.openmpi --allow-run-as-root --oversubscribe"

# shellcheck disable=SC2086
sh "$check" hello 4 $launch -n 4 && sh "$check" train 4 $launch -n 4
