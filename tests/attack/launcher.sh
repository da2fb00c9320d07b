#!/bin/sh
# hcommrun where users do not treat it as they should: signals in odd orders, odd host names, no network, two jobs at a
# time, a relative TMPDIR.
. "${srcdir:-.}/tests/launcher/lib.sh"

cat >"$work/stubborn" <<'END'
#!/bin/sh
trap '' INT TERM
touch "$1.$PMIX_RANK"
while :; do sleep 0.05; done
END
chmod +x "$work/stubborn"
ready() { [ -e "$work/up.0" ] && [ -e "$work/up.1" ]; }

# --- INT, then TERM twice: ends, with the first one's code
start --grace 300 -n 2 "$work/stubborn" "$work/up"
wait_for ready || fail "ranks did not start"
kill -INT "$launcher"
kill -TERM "$launcher"
kill -TERM "$launcher"
wait "$launcher"
code=$?
expect_code 130 "INT, then TERM twice"
expect_nothing_left "INT, then TERM twice"

# --- stopped from outside and continued: the job goes on meanwhile, and its end is seen
start -n 2 sh -c 'sleep 0.3; echo done'
kill -STOP "$launcher"
sleep 0.5
kill -CONT "$launcher"
wait "$launcher"
code=$?
expect_code 0 "STOP and CONT"
expect_out "done
done" "STOP and CONT"

# --- two jobs at the same time do not meet
(run -n 3 "$CLIENT" modex && exit "$code") &
first=$!
run -n 2 "$CLIENT" modex
expect_code 0 "the second of two jobs"
wait $first || fail "the first of two jobs: exit code $?"

# --- a relative TMPDIR is one
(cd "$work" && TMPDIR=tmp && export TMPDIR && run --wdir / -n 2 "$CLIENT" modex && exit "$code") || fail "relative TMPDIR"
expect_nothing_left "relative TMPDIR"

# --- names of hosts, and hosts without a network: where name spaces may be made
name=$(printf 'a%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
if unshare -u true 2>/dev/null; then
	for long in "$name$name$name$name" "${name}1" 1; do
		timeout 300 unshare -u sh -c 'hostname "$1" && shift && exec "$@"' sh "$long" \
			"$HCOMMRUN" -n 2 "$CLIENT" modex >"$work/out" 2>"$work/err"
		code=$?
		expect_code 0 "host name $long"
	done
	timeout 300 unshare -m sh -c 'mount --bind /dev/null /etc/hosts && exec "$@"' sh \
		"$HCOMMRUN" -n 2 "$CLIENT" modex >"$work/out" 2>"$work/err"
	code=$?
	expect_code 0 "an empty /etc/hosts"
	timeout 300 unshare -n "$HCOMMRUN" -n 2 true >"$work/out" 2>"$work/err"
	code=$?
	expect_code 125 "no network interface is up"
	expect_err 'no network interface is up' "no network interface is up"
	[ "$(wc -l <"$work/err")" -eq 1 ] || fail "more than one line about the missing network"
else
	echo "left out: host names and networks, as unshare(1) is not allowed here"
fi

run -n +2 true
expect_code 125 "-n +2"
expect_err "'+2' is not a legal value" "-n +2"

finish
