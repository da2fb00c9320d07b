#!/bin/sh
# Exit codes, and what is said about failures.
. "$(dirname "$0")/lib.sh"

run -n 3 true
expect_code 0 "all ranks succeed"
[ ! -s "$work/err" ] || fail "a successful run says nothing"

run -n 4 sh -c 'test $PMIX_RANK != 2 || exit 42; sleep 30'
expect_code 42 "the failing rank's exit code"
expect_err 'rank 2 on [^ ]* (pid [0-9]*) exited with code 42' "the failing rank is named"
[ "$(wc -l <"$work/err")" -eq 1 ] || fail "only the root cause is reported"

for number in 9 15 11 6 13; do
	run -n 2 sh -c "test \$PMIX_RANK = 0 || kill -$number \$\$; sleep 30"
	expect_code $((128 + number)) "rank ended by signal $number"
	expect_err "rank 1 on [^ ]* (pid [0-9]*) was ended by signal $number (" "rank ended by signal $number is named"
done

run -n 2 ./there/is/no/such/program
expect_code 127 "a program that does not exist"
expect_err "cannot execute './there/is/no/such/program' on .*: No such file" "a missing program is named"
run -n 2 no-such-program-in-path
expect_code 127 "a program that is not in PATH"
expect_err "looked up in PATH: write ./ before" "the remedy for a program that is not in PATH is named"
run -n 2 /etc/passwd
expect_code 126 "a file that is not executable"
run -n 2 /
expect_code 126 "a directory"
run --wdir /no/such/directory -n 2 true
expect_code 127 "a working directory that does not exist"
# What stopped a child before exec comes back through memory shared by vfork; ThreadSanitizer makes a fork of it.
case ${HC_SANITIZE-} in
*thread*) ;;
*) expect_err '/no/such/directory' "the missing directory is named" ;;
esac

run -n 2 "$HELPER" last 'famous last words'
expect_code 134 "SIGABRT"
expect_err 'famous last words' "the last words of a dying rank"

run --timeout 5 -n 2 sleep 60
expect_code 124 "--timeout"
expect_err 'did not end within 5 s (--timeout); 2 of 2 ranks' "--timeout says what happened"

run --timeout 1 --grace 200 -n 2 sh -c 'trap "" TERM INT; while :; do sleep 0.1; done'
expect_code 124 "--timeout ends ranks that ignore TERM"

run --on-failure continue -n 3 sh -c 'test $PMIX_RANK != 0 || exit 9; sleep 0.5; echo alive'
expect_code 9 "--on-failure continue keeps the exit code of the first failure"
expect_out "alive
alive" "--on-failure continue lets the others finish"

# exit codes are right also when many ranks end at the same time
run -n 40 sh -c 'exit 3'
expect_code 3 "40 ranks fail at once"
expect_err 'exited with code 3' "one of 40 failures is reported"

(ulimit -n 40 && run -n 30 true && [ "$code" -eq 125 ] && grep -q 'open files, the limit is 40; raise' "$work/err") ||
	fail "too few descriptors are said"
(ulimit -s 128 && run -n 2 true && [ "$code" -eq 125 ] && grep -q 'stack is limited to 128 KiB.*raise' "$work/err") ||
	fail "too small a stack is said"
run -n 2 "$HCOMMRUN" -n 2 "$CLIENT" modex
expect_code 0 "hcommrun under hcommrun"

finish
