# Helpers of the launcher tests; sourced. Every test prints what failed and with which output.
set -u
HCOMMRUN=${HCOMMRUN:-./hcommrun}
CLIENT=${CLIENT:-tests/launcher/pmix_client}
HELPER=${HELPER:-tests/launcher/helper}
case $HCOMMRUN in /*) ;; *) HCOMMRUN=$PWD/$HCOMMRUN ;; esac
case $CLIENT in /*) ;; *) CLIENT=$PWD/$CLIENT ;; esac
case $HELPER in /*) ;; *) HELPER=$PWD/$HELPER ;; esac
HCOMMRUN_OVERSUBSCRIBE=on
export HCOMMRUN_OVERSUBSCRIBE
failures=0
work=$(mktemp -d) || exit 99
TMPDIR=$work/tmp
export TMPDIR
mkdir "$TMPDIR"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
# What is started in the background must not outlive this script, also when it is killed.
bound=$(command -v setpriv) && bound="$bound --pdeathsig TERM" && $bound true 2>/dev/null || bound=
# Marks the processes of this test, wherever they end up.
mark=LAUNCHTEST_ID=$$-$(date +%s)

fail() {
	failures=$((failures + 1))
	printf 'FAIL: %s\n' "$*" | cut -c 1-500 | head -n 20
	for file in "$work/out" "$work/err"; do
		[ -s "$file" ] && echo "--- $(basename "$file"):" && head -c 1000 "$file" | cut -c 1-300 && echo
	done
	return 1
}

# run [hcommrun options and program]: output in $work/out and $work/err, exit code in $code
run() {
	timeout 300 env "$mark" "$HCOMMRUN" "$@" >"$work/out" 2>"$work/err"
	code=$?
}

# start [options and program]: in the background, with default signal dispositions; $launcher is its pid
start() {
	# shellcheck disable=SC2086 # words
	$bound env --default-signal=INT,QUIT,HUP,PIPE "$mark" "$HCOMMRUN" "$@" >"$work/out" 2>"$work/err" &
	launcher=$!
}

expect_code() { # CODE DESCRIPTION
	[ "$code" -eq "$1" ] || fail "$2: exit code $code, expected $1"
}

expect_out() { # TEXT DESCRIPTION
	[ "$(cat "$work/out")" = "$1" ] || fail "$2: output differs from '$1'"
}

expect_err() { # PATTERN DESCRIPTION
	grep -q -e "$1" "$work/err" || fail "$2: no '$1' on standard error"
}

# wait_for COMMAND...: until it succeeds, for a minute at least: the machine may be busy
wait_for() {
	tries=1200
	while [ $tries -gt 0 ]; do
		"$@" && return 0
		sleep 0.05
		tries=$((tries - 1))
	done
	return 1
}

# How many live processes carry the mark of this test.
marked() {
	grep -lsz -x -F "$mark" /proc/[0-9]*/environ 2>/dev/null | wc -l
}
has_marked() { [ "$(marked)" -ge "$1" ]; }
none_marked() { [ "$(marked)" -eq 0 ]; }
no_sessions() { [ -z "$(ls -A "$TMPDIR")" ]; }

expect_nothing_left() { # DESCRIPTION
	wait_for none_marked || fail "$1: $(marked) processes are left"
	wait_for no_sessions || fail "$1: left in the directory for temporary files: $(ls "$TMPDIR")"
}

finish() {
	expect_nothing_left "at the end of the test"
	[ $failures -eq 0 ] || echo "$failures failures"
	[ $failures -eq 0 ]
	exit
}
