#!/bin/sh
# A rank that the kernel's out-of-memory killer ends is reported as such. Needs a memory cgroup to put it into.
. "$(dirname "$0")/lib.sh"

group=
for base in /sys/fs/cgroup/memory /sys/fs/cgroup; do
	if mkdir "$base/launchtest-$$" 2>/dev/null; then
		group=$base/launchtest-$$
		trap 'rmdir "$group"; rm -rf "$work"' EXIT
		for limit in memory.limit_in_bytes memory.max; do
			{ echo 30000000 >"$group/$limit"; } 2>/dev/null && break 2
		done
		rmdir "$group"
		trap 'rm -rf "$work"' EXIT
		group=
	fi
done
if [ -z "$group" ]; then
	echo "skipped: no memory cgroup can be made here"
	exit 77
fi
{ echo 30000000 >"$group/memory.memsw.limit_in_bytes"; echo 0 >"$group/memory.swap.max"; } 2>/dev/null

run -n 2 sh -c 'test $PMIX_RANK = 1 || exec sleep 30; echo $$ >"$0/cgroup.procs"; exec "$1" eat 200' "$group" "$HELPER"
expect_code 137 "a rank without memory"
expect_err 'rank 1 .* signal 9 .*out-of-memory killer' "the out-of-memory killer is named"
wait_for test ! -s "$group/cgroup.procs"

finish
