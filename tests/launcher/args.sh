#!/bin/sh
# Command line and environment of hcommrun, and what arrives at the program.
. "$(dirname "$0")/lib.sh"

newline='a
b'
run -n 1 "$HELPER" args -n 5 -x --map-by 'two  blanks' '' 'a=b' "$newline" '"quoted"' '$HOME' '*' --help --
expect_out "2:-n
1:5
2:-x
8:--map-by
11:two  blanks
0:
3:a=b
3:a
b
8:\"quoted\"
5:\$HOME
1:*
6:--help
2:--" "the program's own arguments are not touched"
run -n 1 -- "$HELPER" args x
expect_out 1:x "-- ends the options"

long=$(head -c 100000 /dev/zero | tr '\0' z)
run -n 1 "$HELPER" args "$long"
expect_out "100000:$long" "an argument of 100 KB"
run -x "A=1=2, 3" -x "B=$newline" -x "C=$long" -x D= -n 1 sh -c "'$HELPER' env A; '$HELPER' env B; '$HELPER' env C; '$HELPER' env D"
expect_out "6:1=2, 3
3:a
b
100000:$long
0:" "values with '=', blanks and newlines"
GIVEN=old run -x GIVEN=new -n 1 "$HELPER" env GIVEN
expect_out 3:new "-x replaces a value"
KEPT='with = and  blanks' run -x KEPT -n 1 "$HELPER" env KEPT
expect_out "18:with = and  blanks" "-x NAME"
run -x LAUNCHTEST_UNSET -n 1 true
expect_code 0 "-x of an unset variable is no error"
expect_err 'LAUNCHTEST_UNSET: the variable is not set' "-x of an unset variable is said"

run -n 1 "$HELPER" fds 7</dev/null
expect_out "0
1
2" "ranks have three descriptors"
run -n 1 "$HELPER" signals
expect_out "" "ranks start with no signal blocked or ignored"

# --- programs
run -n 2 sh -c 'echo a$PMIX_RANK' : -n 1 -x V=v --wdir / sh -c 'echo b$PMIX_RANK $V $PWD $(pwd)'
expect_code 0 "two programs"
[ "$(sort "$work/out")" = "a0
a1
b2 v / /" ] || fail "two programs"
run --separator ::: -n 1 "$HELPER" args a : b ::: -n 1 true
expect_out "1:a
1::
1:b" "--separator"
cd "$work" || exit 99
run --wdir / -n 1 pwd
expect_out / "--wdir"
mkdir "$work/sub"
printf '#!/bin/sh\necho here\n' >"$work/sub/script"
printf 'echo shell $1\n' >"$work/sub/plain"
chmod +x "$work/sub/script" "$work/sub/plain"
run --wdir sub -n 1 ./script
expect_out here "a program relative to --wdir"
run -n 1 ./sub/plain word
expect_out "shell word" "a script without interpreter line"
run -x PATH="$work/sub:$PATH" -n 1 script
expect_out here "the program's PATH finds the program"
cd - >/dev/null || exit 99

# --- defaults from the environment
HCOMMRUN_N=3 run sh -c 'echo $PMIX_RANK'
[ "$(sort "$work/out" | tr '\n' ' ')" = "0 1 2 " ] || fail "HCOMMRUN_N"
HCOMMRUN_N=3 run -n 1 sh -c 'echo $PMIX_RANK'
expect_out 0 "the command line wins"
HCOMMRUN_TAG_OUPUT=on run -n 1 true
expect_code 0 "an unknown variable is no error"
expect_err 'HCOMMRUN_TAG_OUPUT is unknown.*did you mean HCOMMRUN_TAG_OUTPUT' "an unknown variable is named"
HCOMMRUN_N=many run true
expect_code 125 "a bad value in the environment"
expect_err "HCOMMRUN_N: 'many'.*1..65536" "a bad value in the environment is named"

# --- bad usage: one line, exit code 125
bad() { # PATTERN WORDS...
	pattern=$1
	shift
	run "$@"
	expect_code 125 "hcommrun $*"
	expect_err "$pattern" "hcommrun $*"
	[ "$(wc -l <"$work/err")" -eq 1 ] || fail "hcommrun $*: more than one line"
}
bad 'no program to run'
bad 'no program to run' -n 2
bad 'no program to run' -n 2 true :
bad "unknown option '--map-bye'; did you mean --map-by" --map-bye core true
bad "unknown option '-q'" -q true
bad "unknown option '--host': hcommrun starts jobs on this host" --host a true
bad "unknown option '-c': the number of ranks is -n" -c 2 true
bad "unknown option '-hostfile': hcommrun starts jobs on this host" -hostfile f true
bad "unknown option '--hostfile=f': hcommrun starts jobs on this host" --hostfile=f true
bad "unknown option '-f': hcommrun starts jobs on this host" -f f true
bad "unknown option '-map-by'; did you mean --map-by" -map-by core true
bad "unknown option '--mca': it is Open MPI's and has no counterpart; settings.*HCOMM_.*-x" --mca a b true
bad "unknown option '-mca': it is Open MPI's" -mca a b true
bad "unknown option '-genv': use -x NAME=VALUE" -genv A 1 true
bad "unknown option '-ppn': all ranks run on this host; their number is -n N" -ppn 2 true
bad "unknown option '-l': .*--tag-output" -l true
bad "unknown option '-n=2': write -n 2" -n=2 true
bad "n is given twice for one program ('3')" -n 2 -np 3 true
bad "-n: '2x' is not a legal value" -n2x true
bad "-n: '0' is not a legal value; use 1..65536" -n 0 true
bad "-n: 'x'" -n x true
bad -- '-n needs a value' -n
bad "map-by: 'moon' is not a legal value; use slot | core | numa | socket" --map-by moon true
bad "map-by: 'moon'" --map-by=moon true
bad "bind-to: 'x'" --bind-to x true
bad "stdin: '9' is not a rank; use 0..1, none, or all" --stdin 9 -n 2 true
bad "stdin: 'no'" --stdin no true
bad 'tag-output takes no value' --tag-output=yes true
bad "x: '=v' has no variable name" -x =v true
bad "timeout: '-1'" --timeout -1 true

run --help
expect_code 0 "--help"
for option in -n -np -x --wdir --map-by --bind-to --report-bindings --stdin --tag-output --output-dir --timeout \
	--on-failure --grace --oversubscribe --separator --verbose --version --help; do
	grep -q -e "$option" "$work/out" || fail "--help does not list $option"
done
run --version
expect_code 0 "--version"
grep -q '^hcommrun [0-9]' "$work/out" || fail "--version"
run --verbose -n 2 true
expect_err 'rank 1: pid [0-9]*' "--verbose"
for n in '-np 2' -n2; do
	# shellcheck disable=SC2086 # two words
	run $n echo x
	expect_out "x
x" "$n"
done
run -n 1 echo x : -n 1 echo x
expect_out "x
x" "-n once for each program"

# --- Slurm: several nodes are srun's, one node is ours
mkdir "$work/bin"
printf '#!/bin/sh\nprintf "%%s|" "$@"; echo "$V"\n' >"$work/bin/srun"
chmod +x "$work/bin/srun"
export SLURM_JOB_ID=1
PATH=$work/bin:$PATH SLURM_NNODES=2 run -n 4 -x V='a, b' true 'x y'
expect_out '--mpi=pmix|-n|4|--cpu-bind=none|--overcommit|--input=0|--kill-on-bad-exit=1|true|x y|a, b' "Slurm, two nodes"
PATH=$work/bin:$PATH SLURM_NNODES=1 run -n 2 echo here
expect_out "here
here" "Slurm, one node"
unset SLURM_JOB_ID

TMPDIR=/no/such/directory run -n 1 true
expect_code 125 "no directory for the session"
expect_err '/no/such/directory.*set TMPDIR' "no directory for the session is said"

finish
