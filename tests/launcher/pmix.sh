#!/bin/sh
# The PMIx server as its clients see it: one task of pmix_client per line.
. "$(dirname "$0")/lib.sh"

for n in 1 2 5; do
	for task in noop modex "modex 100000" dmodex jobdata publish query group bindings control notify connect stranger; do
		run -n $n "$CLIENT" $task
		expect_code 0 "$n ranks, task $task"
	done
done

if command -v strace >/dev/null; then
	# the leak check of a build with sanitizers does not work under a tracer
	ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 strace -f -o "$work/trace" -e trace=setsockopt \
		"$HCOMMRUN" -n 1 "$CLIENT" noop >"$work/out" 2>"$work/err" || fail "noop under strace"
	grep -q 'TCP_NODELAY, \[1\], 4) = 0' "$work/trace" || fail "answers to ranks wait for acknowledgements"
else
	echo "note: without strace it is not checked that answers to ranks leave at once"
fi

run -n 33 "$CLIENT" modex
expect_code 0 "33 ranks exchange data"

run -n 2 "$CLIENT" log "a logged line
"
expect_code 0 "PMIx_Log"
[ "$(grep -c '^a logged line$' "$work/err")" -eq 2 ] || fail "PMIx_Log of two ranks"

mkfifo "$work/open"
exec 9<>"$work/open" # input that does not end
run -n 2 "$CLIENT" iof <&9
expect_code 0 "PMIx_IOF_push"
exec 9<&-

run -n 2 "$CLIENT" spawn
expect_code 0 "PMIx_Spawn is refused and the job goes on"
expect_err "rank 0 asked to start '/bin/true'.*does not start ranks later" "PMIx_Spawn is refused in words"

run -n 3 "$CLIENT" abort 7
expect_code 7 "PMIx_Abort decides the exit code"
expect_err 'rank 2 on .* (pid [0-9]*) aborted the job with code 7: no reason' "PMIx_Abort is reported"

run -n 3 "$CLIENT" abort 256
expect_code 1 "an abort code of which nothing is left in 8 bits still fails"

run -n 3 "$CLIENT" leave 0
expect_code 1 "leaving without PMIx_Finalize is a failure"
expect_err 'rank 2 .*exited with code 0 but without PMIx_Finalize' "leaving without PMIx_Finalize is reported"

run --on-failure continue -n 4 "$CLIENT" event
expect_code 137 "the first failure decides the exit code although the others go on"
expect_err 'rank 3 on .* was ended by signal 9' "the death is reported"
[ "$(wc -l <"$work/err")" -eq 1 ] || fail "ranks that learn about the death of another do not fail"

finish
