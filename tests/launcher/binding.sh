#!/bin/sh
# Mapping and binding stay inside the set of processors that hcommrun itself may use.
. "$(dirname "$0")/lib.sh"

allowed=$(awk '/^Cpus_allowed_list:/ {print $2}' /proc/self/status)
first=${allowed%%[,-]*}

for map in slot core numa socket; do
	for bind in none core numa socket; do
		run --map-by $map --bind-to $bind -n 5 "$CLIENT" bindings
		expect_code 0 "--map-by $map --bind-to $bind"
		[ "$(grep -c '^rank [0-4] cpus [0-9]* list [0-9]' "$work/out")" -eq 5 ] ||
			fail "--map-by $map --bind-to $bind: a rank does not know its processors"
	done
done

timeout 300 taskset -c "$first" "$HCOMMRUN" --bind-to core --report-bindings -n 3 "$CLIENT" bindings \
	>"$work/out" 2>"$work/err"
code=$?
expect_code 0 "binding inside a mask of one processor"
[ "$(sort "$work/out")" = "rank 0 cpus 1 list $first
rank 1 cpus 1 list $first
rank 2 cpus 1 list $first" ] || fail "the affinity mask is not respected"
[ "$(grep -c "rank [0-2]@.*: bound to core .* (processors $first)" "$work/err")" -eq 3 ] ||
	fail "--report-bindings"

run --report-bindings -n 1 true
expect_err "rank 0@.*: may use all processors (processors $allowed)" "--report-bindings without binding"

unset HCOMMRUN_OVERSUBSCRIBE
n=$(($(nproc) + 1))
run -n $n true
expect_code 0 "more ranks than processors"
expect_err "$n ranks share $(nproc) processor" "oversubscription is said"
[ "$(wc -l <"$work/err")" -eq 1 ] || fail "oversubscription takes one line"
run --oversubscribe -n $n true
[ ! -s "$work/err" ] || fail "--oversubscribe"

finish
