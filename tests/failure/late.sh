#!/bin/bash
# A rank that does not come to finalize in time is named by those that waited; nobody hangs.
build=${top_builddir:-.}
timeout 60 "$build/hcommrun" --oversubscribe -n 3 "$build/tests/failure/late" && echo ok
