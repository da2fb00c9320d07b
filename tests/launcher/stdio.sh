#!/bin/sh
# Standard input and output of the ranks.
. "$(dirname "$0")/lib.sh"

head -c 10485760 /dev/urandom >"$work/big"
want=$(sha256sum <"$work/big")
sum='sha256sum'

# --- input
cat "$work/big" | timeout 300 "$HCOMMRUN" -n 3 sh -c "test \$PMIX_RANK != 0 || $sum" >"$work/out" 2>"$work/err"
expect_out "$want" "10 MB from a pipe to rank 0"
timeout 300 "$HCOMMRUN" --stdin 2 -n 3 sh -c "test \$PMIX_RANK != 2 || $sum" <"$work/big" >"$work/out" 2>"$work/err"
expect_out "$want" "10 MB from a file to rank 2"
cat "$work/big" | timeout 300 "$HCOMMRUN" --stdin all -n 3 $sum >"$work/out" 2>"$work/err"
expect_out "$want
$want
$want" "10 MB to all ranks"
cat "$work/big" | timeout 300 "$HCOMMRUN" --stdin all -n 3 sh -c "test \$PMIX_RANK = 1 || $sum" >"$work/out" 2>"$work/err"
expect_out "$want
$want" "10 MB to all ranks, one of which does not read"
cat "$work/big" | timeout 300 "$HCOMMRUN" -n 2 true || fail "ranks that do not read their input"
cat "$work/big" | timeout 300 "$HCOMMRUN" --stdin none -n 2 wc -c >"$work/out" 2>"$work/err"
expect_out "0
0" "--stdin none"
timeout 300 "$HCOMMRUN" -n 2 wc -c <&- >"$work/out" 2>"$work/err"
expect_out "0
0" "closed standard input"
timeout 300 "$HCOMMRUN" -n 1 head -c 5 </dev/zero >"$work/out" 2>"$work/err" || fail "endless input"
cat "$work/big" | timeout 300 "$HCOMMRUN" -n 1 cat | cmp - "$work/big" || fail "10 MB in and out"

# --- output
run --tag-output -n 4 "$HELPER" lines 2000
expect_code 0 "tagged output"
host=$(uname -n)
bad=$(grep -v -c -E "^\[([0-3])@$host\] rank \1 line [0-9]+ x*$" "$work/out")
[ "$bad" -eq 0 ] || fail "$bad tagged lines are mixed up"
sed 's/^\[[0-9]*@[^]]*\] //' "$work/out" | sort >"$work/tagged"
run -n 4 "$HELPER" lines 2000
sort "$work/out" >"$work/untagged"
cmp "$work/tagged" "$work/untagged" || fail "tagged and untagged output hold different bytes"
[ "$(wc -l <"$work/untagged")" -eq 8000 ] || fail "lines are lost"
bad=$(grep -v -c -E '^rank [0-3] line [0-9]+ x*$' "$work/untagged")
[ "$bad" -eq 0 ] || fail "$bad untagged lines are mixed up"

run --tag-output -n 1 printf 'one\ntwo'
expect_out "[0@$host] one
[0@$host] two" "an unfinished last line"
[ "$(wc -l <"$work/out")" -eq 1 ] || fail "a newline was added at the end"
run --tag-output -n 2 sh -c 'sleep 0.$PMIX_RANK; printf tail$PMIX_RANK'
[ "$(sort "$work/out")" = "[0@$host] tail0
[1@$host] tail1" ] || fail "unfinished lines of two ranks"
run -n 1 sh -c 'head -c 3000000 /dev/zero | tr "\\0" y'
[ "$(wc -c <"$work/out")" -eq 3000000 ] || fail "a line of 3 MB"
run --tag-output -n 1 sh -c 'head -c 3000000 /dev/zero | tr "\\0" y; echo; echo next'
[ "$(tr -dc y <"$work/out" | wc -c)" -eq 3000000 ] || fail "a tagged line of 3 MB"
[ "$(sed -n '$p' "$work/out")" = "[0@$host] next" ] || fail "the line after a tagged one of 3 MB"
bad=$(grep -v -c -E "^\[0@$host\] (y*|next)$" "$work/out")
[ "$bad" -eq 0 ] || fail "$bad parts of a tagged line of 3 MB have no tag"
run -n 2 sh -c 'echo out$PMIX_RANK; echo err$PMIX_RANK >&2'
[ "$(sort "$work/out" "$work/err" | tr '\n' ' ')" = "err0 err1 out0 out1 " ] || fail "standard error is its own stream"
[ "$(sort "$work/err" | tr '\n' ' ')" = "err0 err1 " ] || fail "standard error"

# A prompt without newline appears although the rank goes on.
"$HCOMMRUN" -n 1 sh -c 'printf prompt; exec sleep 30' >"$work/out" 2>"$work/err" &
launcher=$!
wait_for grep -q prompt "$work/out" || fail "a prompt is held back"
kill -TERM $launcher
wait $launcher

# A line without end is not kept until it ends: a part of it appears although there is never a pause.
for tag in --tag-output ""; do
    # shellcheck disable=SC2086 # no argument at all when empty
    "$HCOMMRUN" $tag -n 1 sh -c 'while :; do printf %070000d 0; sleep 0.03; done' >"$work/out" 2>"$work/err" &
    launcher=$!
    wait_for grep -q -a 00000 "$work/out" || fail "a line without end is held back ($tag)"
    kill -TERM $launcher
    wait $launcher
done

# --- a reader that leaves
(timeout 300 env "$mark" "$HCOMMRUN" -n 2 yes; echo $? >"$work/code") 2>"$work/err" | head -n 1 >"$work/out"
expect_out y "| head"
[ "$(cat "$work/code")" = 141 ] || fail "| head: exit code $(cat "$work/code")"
[ ! -s "$work/err" ] || fail "| head says nothing"
# --- a slow reader gets everything
timeout 300 "$HCOMMRUN" -n 2 "$HELPER" lines 20000 | (sleep 1; wc -l) >"$work/out"
expect_out 40000 "a slow reader"
timeout 300 "$HCOMMRUN" -n 1 true >&- 2>&- || fail "closed output"
timeout 300 "$HCOMMRUN" -n 1 echo x >/dev/full 2>"$work/err"
code=$?
expect_code 125 "a full disk"
expect_err 'cannot write standard output: No space left' "a full disk is named"

# --- files
run --output-dir "$work/files" -n 3 sh -c 'echo out$PMIX_RANK; echo err$PMIX_RANK >&2'
expect_code 0 "--output-dir"
for rank in 0 1 2; do
	[ "$(cat "$work/files/rank.$rank.out")" = out$rank ] || fail "output file of rank $rank"
	[ "$(cat "$work/files/rank.$rank.err")" = err$rank ] || fail "error file of rank $rank"
done
[ ! -s "$work/out" ] || fail "--output-dir writes to standard output"
run --output-dir /proc/nowhere -n 1 true
expect_code 125 "an output directory that cannot be made"
expect_err '/proc/nowhere' "it is named"

finish
