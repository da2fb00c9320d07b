#!/bin/sh
# Every setting does what it says.
exec sh "${srcdir:-.}/tests/multi/run.sh" tests/multi/settings_effects -n 2
