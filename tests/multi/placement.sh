#!/bin/sh
# Ranks on one processor of several, with as many processors as ranks, and with fewer.
sh "${srcdir:-.}/tests/multi/run.sh" tests/multi/placement -n "2 5 8"
