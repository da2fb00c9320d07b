# Two hosts: network namespaces with a link between them, gone at the end, also when the test is stopped: a folder
# "$scratch" goes with them.
# shellcheck shell=sh
host_a=hcomm-a-$$ host_b=hcomm-b-$$
addr_a=10.213.7.1 addr_b=10.213.7.2

remove_hosts() {
    ip netns del "$host_a" 2>/dev/null
    ip netns del "$host_b" 2>/dev/null
    rm -rf "$scratch"
}

# limited SECONDS COMMAND...: with a limit of time, and ended when this script is.
limited() {
    timeout "$@" &
    child=$!
    wait "$child"
}

make_hosts() {
    command -v ip >/dev/null || {
        echo "ip is not there: install the Debian package iproute2"
        exit 77
    }
    ip netns add "$host_a" 2>/dev/null || {
        echo "SKIP: network namespaces may not be made here"
        exit 77
    }
    trap remove_hosts EXIT
    child=
    trap 'kill ${child:+"$child"} 2>/dev/null; wait; exit 1' INT TERM HUP
    ip netns add "$host_b" &&
        ip -n "$host_a" link add veth0 type veth peer name veth0 netns "$host_b" &&
        ip -n "$host_a" addr add "$addr_a/24" dev veth0 && ip -n "$host_b" addr add "$addr_b/24" dev veth0 &&
        ip -n "$host_a" link set lo up && ip -n "$host_b" link set lo up &&
        ip -n "$host_a" link set veth0 up && ip -n "$host_b" link set veth0 up || {
        echo "SKIP: no link between network namespaces here"
        exit 77
    }
}

# on_a COMMAND…, on_b COMMAND…
on_a() {
    ip netns exec "$host_a" "$@"
}
on_b() {
    ip netns exec "$host_b" "$@"
}
