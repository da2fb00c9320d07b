#!/bin/sh
# Signals to hcommrun, its sudden death, and that nothing is left.
. "$(dirname "$0")/lib.sh"
rounds=${KILL_ROUNDS:-10}

# A wrapper script whose child does the work, and a daemon that leaves group and session.
cat >"$work/wrapper" <<'END'
#!/bin/sh
setsid sleep 3600 </dev/null >/dev/null 2>&1 &
sleep 3600
END
chmod +x "$work/wrapper"

children_of() { cat "/proc/$1/task/$1/children" 2>/dev/null; }
server_of() { children_of "$(children_of "$1" | tr -d ' ')"; } # behind the keeper

# --- sudden death of either process of hcommrun, at random moments
i=0
while [ $i -lt "$rounds" ]; do
	start -n 4 "$work/wrapper"
	sleep "0.0$((i % 10))"
	kill -KILL "$launcher"
	wait "$launcher" 2>/dev/null
	expect_nothing_left "kill -9 of hcommrun, round $i"
	i=$((i + 1))
done
# --- a signal that ends the job reaches ranks that have hardly started, too: nobody waits for the grace time
# Before hcommrun itself runs, SIGINT is ignored, as in every background process of a script.
await_program() {
	tries=1000
	until grep -qsx hcommrun "/proc/$launcher/comm" || [ $tries -eq 0 ]; do
		tries=$((tries - 1))
	done
}
i=0
while [ $i -lt "$rounds" ]; do
	start --grace 60000 -n 4 "$work/wrapper"
	await_program
	sleep "0.0$((i % 10))"
	[ $((i % 2)) -eq 0 ] && kill -TERM "$launcher" || kill -INT "$launcher"
	wait "$launcher" 2>/dev/null
	expect_nothing_left "early signal to hcommrun, round $i"
	i=$((i + 1))
done
start -n 4 "$work/wrapper"
wait_for has_marked 15 || fail "wrappers did not start"
kill -KILL "$launcher"
wait "$launcher" 2>/dev/null
expect_nothing_left "kill -9 of hcommrun while ranks run"

for process in children_of server_of; do # the keeper, the server
	start -n 4 "$work/wrapper"
	wait_for has_marked 15 || fail "wrappers did not start"
	kill -KILL $($process "$launcher")
	wait "$launcher" 2>/dev/null
	code=$?
	expect_code 137 "kill -9 of one of hcommrun's processes ($process)"
	expect_err 'server process was ended by signal 9' "kill -9 of the server process is said ($process)"
	expect_nothing_left "kill -9 of one of hcommrun's processes ($process)"
done

# `killall -9 hcommrun` leaves the keeper, which has another name
start -n 4 "$work/wrapper"
wait_for has_marked 15 || fail "wrappers did not start"
grep -qx hcomm-keeper "/proc/$(children_of "$launcher" | tr -d ' ')/comm" || fail "the keeper has no name of its own"
kill -KILL "$launcher" $(server_of "$launcher")
wait "$launcher" 2>/dev/null
expect_nothing_left "kill -9 of guard and server at once"

# SIGKILL to the whole group, as from whoever started it in one of its own and waited too long
in_group=$bound
bound="setsid $bound"
start -n 4 "$work/wrapper"
wait_for has_marked 15 || fail "wrappers did not start"
kill -s KILL -- "-$launcher"
wait "$launcher" 2>/dev/null
bound=$in_group
expect_nothing_left "kill -9 of hcommrun's process group"

start -n 3 "$CLIENT" die 0 # raise(0) does nothing: they wait
wait_for has_marked 6 || fail "clients did not start"
sleep 0.3
kill -KILL "$launcher"
wait "$launcher" 2>/dev/null
expect_nothing_left "kill -9 while PMIx clients run"

# --- all processes killed at once: ranks die, and the next run sweeps the directory
start -n 2 sleep 3600
wait_for has_marked 5 || fail "ranks did not start"
kill -KILL "$launcher" $(children_of "$launcher") $(server_of "$launcher")
wait "$launcher" 2>/dev/null
wait_for none_marked || fail "ranks outlive all processes of hcommrun"
run -n 1 true
wait_for no_sessions || fail "the directory of a dead run is not swept"
# a live run's directory is not
start -n 1 sleep 3600
wait_for has_marked 4 || fail "rank did not start"
run -n 1 true
[ -n "$(ls "$TMPDIR")" ] || fail "the directory of a live run was swept"
kill -TERM "$launcher"
wait "$launcher"
code=$?
expect_code 143 "SIGTERM"
expect_nothing_left "SIGTERM"

# --- Ctrl-C: INT first, so that programs can say something
cat >"$work/polite" <<'END'
#!/bin/sh
trap 'echo interrupted; exit 0' INT
touch "$1.$PMIX_RANK"
while :; do sleep 0.05; done
END
cat >"$work/stubborn" <<'END'
#!/bin/sh
trap 'echo INT' INT
trap 'echo TERM' TERM
touch "$1.$PMIX_RANK"
while :; do sleep 0.05; done
END
chmod +x "$work/polite" "$work/stubborn"
ready() { [ -e "$work/up.0" ] && [ -e "$work/up.1" ]; }

start -n 2 "$work/polite" "$work/up"
wait_for ready || fail "ranks did not start"
kill -INT "$launcher"
wait "$launcher"
code=$?
expect_code 130 "Ctrl-C"
expect_out "interrupted
interrupted" "Ctrl-C gives ranks SIGINT and time"
rm -f "$work"/up.*

start --grace 3000 -n 2 "$work/stubborn" "$work/up"
wait_for ready || fail "ranks did not start"
kill -INT "$launcher"
wait "$launcher"
code=$?
expect_code 130 "Ctrl-C with stubborn ranks"
[ "$(sort "$work/out" | tr '\n' ' ')" = "INT INT TERM TERM " ] || fail "INT, then TERM, then KILL"
expect_nothing_left "Ctrl-C with stubborn ranks"
rm -f "$work"/up.*

start --grace 60000 -n 2 "$work/stubborn" "$work/up"
wait_for ready || fail "ranks did not start"
kill -INT "$launcher"
wait_for grep -q INT "$work/out" || fail "the first Ctrl-C does not reach the ranks"
kill -INT "$launcher"
wait "$launcher"
code=$?
expect_code 130 "two Ctrl-C"
expect_nothing_left "two Ctrl-C"
rm -f "$work"/up.*

# --- other signals are passed on
cat >"$work/counter" <<'END'
#!/bin/sh
trap 'echo USR1; exit 0' USR1
touch "$1.$PMIX_RANK"
while :; do sleep 0.05; done
END
chmod +x "$work/counter"
start -n 2 "$work/counter" "$work/up"
wait_for ready || fail "ranks did not start"
kill -USR1 "$launcher"
wait "$launcher"
code=$?
expect_code 0 "SIGUSR1 is passed on"
expect_out "USR1
USR1" "SIGUSR1 reaches every rank"
rm -f "$work"/up.*

# --- Ctrl-Z and fg
state_of_rank() { # RANK STATE
	pid=$(sed -n "s/.* rank $1: pid \([0-9]*\),.*/\1/p" "$work/err")
	[ -n "$pid" ] && grep -q "^State:.$2" "/proc/$pid/status"
}
start --verbose -n 2 sleep 3600
wait_for state_of_rank 1 S || fail "ranks did not start"
kill -TSTP "$launcher"
wait_for state_of_rank 0 T || fail "Ctrl-Z does not stop rank 0"
wait_for state_of_rank 1 T || fail "Ctrl-Z does not stop rank 1"
wait_for grep -q '^State:.T' "/proc/$launcher/status" || fail "Ctrl-Z does not stop hcommrun"
kill -CONT "$launcher"
wait_for state_of_rank 1 S || fail "SIGCONT does not continue the ranks"
kill -TSTP "$launcher"
wait_for state_of_rank 0 T || fail "the second Ctrl-Z does not stop rank 0"
kill -CONT "$launcher"
kill -TERM "$launcher"
wait "$launcher"
code=$?
expect_code 143 "SIGTERM after Ctrl-Z"

# --- a script that is killed while it waits for hcommrun: nothing of it stays
if [ -n "$bound" ]; then
	for signal in KILL TERM INT; do
		cat >"$work/script" <<'END'
. "$1/lib.sh"
trap - INT
start -n 2 sleep 3600
echo $mark $work >"$2"
wait "$launcher"
END
		rm -f "$work/told"
		env --default-signal=INT sh "$work/script" "$(dirname "$0")" "$work/told" &
		script=$!
		wait_for test -s "$work/told" || fail "the script did not start"
		read -r script_mark script_work <"$work/told"
		script_has() { [ "$(grep -lsz -x -F "$script_mark" /proc/[0-9]*/environ 2>/dev/null | wc -l)" -ge "$1" ]; }
		script_gone() { ! script_has 1; }
		wait_for script_has 5 || fail "the script's ranks did not start"
		kill -$signal $script
		wait $script 2>/dev/null
		wait_for script_gone || fail "a script that SIG$signal ended leaves processes"
		rm -rf "$script_work"
	done
fi

# --- a rank that fails takes everything with it
run -n 2 sh -c 'sleep 3600 & setsid sleep 3600 & test $PMIX_RANK = 0 || exit 5; wait'
expect_code 5 "a failing rank among wrappers"
expect_nothing_left "a failing rank among wrappers"
run -n 2 sh -c 'sleep 3600 & setsid sleep 3600 & exit 0'
expect_code 0 "ranks that leave processes behind"
expect_nothing_left "ranks that leave processes behind"

# --- nohup
nohup "$HCOMMRUN" -n 1 sleep 0.5 >"$work/out" 2>"$work/err" &
launcher=$!
await_program
kill -HUP "$launcher"
wait "$launcher"
code=$?
expect_code 0 "nohup"

finish
