#!/bin/sh
# libfabric's own fi_pingpong runs over the provider, with all sizes and its data check, as messages and tagged ones.
. "${srcdir:-.}/tests/npu/lib.sh"
need fi_pingpong libfabric-bin

# A port for its control connection that nobody uses now.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

run() {
    port=$(free_port)
    timeout 300 fi_pingpong -p npu -e rdm -B "$port" -I 5 -S all -c "$@" >"$scratch/server" 2>&1 &
    server=$!
    await_listener "$server" "$port"
    timeout 300 fi_pingpong -p npu -e rdm -P "$port" -I 5 -S all -c "$@" 127.0.0.1 >"$scratch/client" 2>&1 ||
        complain "client of fi_pingpong $*: $(cat "$scratch/client")"
    wait "$server" || complain "server of fi_pingpong $*: $(cat "$scratch/server")"
    grep -q '^6m' "$scratch/client" || complain "fi_pingpong $*: not all sizes: $(cat "$scratch/client")"
    grep -i error "$scratch/client" "$scratch/server" >&2 && complain "fi_pingpong $*: errors"
}

run -m msg
run -m tagged
[ "$failed" -eq 0 ]
