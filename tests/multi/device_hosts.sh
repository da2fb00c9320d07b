#!/bin/sh
# Messages in device memory between two hosts, which are network namespaces: by RDMA through the provider npu, and staged
# over tcp. The launcher stands in one of them; the last rank goes to the other.
set -u
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hcomm-hosts.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
. "${srcdir:-.}/tests/npu/hosts.sh"
make_hosts
HCOMM_NPU=$(pwd)/.libs/libnpusim.so
export HCOMM_NPU host_b
export HCOMM_DEVICE_IPC=off # which would lead from one namespace to the other, as they are on one machine
# PMIx listens to the launcher's own host only, unless told otherwise.
export PMIX_MCA_ptl_base_remote_connections=1 PMIX_MCA_ptl_base_if_include=veth0
result=0

# across TRANSPORTS RANKS
across() {
    # shellcheck disable=SC2016
    limited 300 ip netns exec "$host_a" env HCOMM_TRANSPORTS="$1" ./hcommrun --oversubscribe -n "$2" sh -c \
        'case $PMIX_RANK in '$(($2 - 1))') exec nsenter --net="/run/netns/$host_b" "$@" ;; *) exec "$@" ;; esac' \
        sh tests/multi/device_messages >"$scratch/out" 2>&1 </dev/null && return
    echo "FAIL: $2 ranks on two hosts over $1; it printed:"
    cat "$scratch/out"
    result=1
}

across ofi:npu 2
across ofi:tcp 2
[ -n "${HC_SANITIZE-}" ] || across ofi:npu 3
exit $result
