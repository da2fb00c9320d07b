#!/bin/sh
# libfabric's own fi_pingpong between two hosts, with all sizes and its data check, as messages and tagged ones; and what
# the provider says about other hosts.
. "${srcdir:-.}/tests/npu/lib.sh"
. "${srcdir:-.}/tests/npu/hosts.sh"
need fi_pingpong libfabric-bin
make_hosts
port=47592 # for the control connection; nobody else is in these networks

run() {
    on_a timeout 300 fi_pingpong -p npu -e rdm -B "$port" -I 5 -S all -c "$@" >"$scratch/server" 2>&1 &
    server=$!
    await_listener "$server" "$port" on_a
    on_b timeout 300 fi_pingpong -p npu -e rdm -P "$port" -I 5 -S all -c "$@" "$addr_a" >"$scratch/client" 2>&1 ||
        complain "client of fi_pingpong $*: $(cat "$scratch/client")"
    wait "$server" || complain "server of fi_pingpong $*: $(cat "$scratch/server")"
    grep -q '^6m' "$scratch/client" || complain "fi_pingpong $*: not all sizes: $(cat "$scratch/client")"
    grep -i error "$scratch/client" "$scratch/server" >&2 && complain "fi_pingpong $*: errors"
}

run -m msg
run -m tagged
on_a fi_info -p npu -c 'FI_MSG|FI_REMOTE_COMM' >/dev/null || complain "messages to other hosts are not offered"
on_a fi_info -p npu -c 'FI_RMA|FI_ATOMIC|FI_REMOTE_COMM' >/dev/null || complain "RMA to other hosts is not offered"
FI_NPU_NET_PROVIDER=none on_a fi_info -p npu -c 'FI_MSG|FI_REMOTE_COMM' >/dev/null 2>&1 &&
    complain "messages to other hosts are offered without a provider for them"
[ "$failed" -eq 0 ]
