#!/bin/bash
# A rank that does not come to finalize in time, or not in time to take messages, is named by those that waited; nobody
# hangs.
build=${top_builddir:-.}
result=0
for patience in "" impatient; do
    timeout 300 "$build/hcommrun" --oversubscribe -n 3 "$build/tests/failure/late" $patience && echo "ok $patience" || result=1
done
timeout 300 "$build/hcommrun" --oversubscribe -n 2 "$build/tests/failure/unread" && echo "ok unread" || result=1
exit $result
