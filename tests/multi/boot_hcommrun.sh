#!/bin/sh
# The bootstrap under hcommrun.
sh "${srcdir:-.}/tests/multi/boot_jobs.sh" 4 all ./hcommrun --oversubscribe -n 4
