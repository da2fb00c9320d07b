#!/bin/bash
# Which of libfabric's providers serves tcp: the preferred one, another where that is missing, the one that is named.
set -u
build=${top_builddir:-.}
run="sh ${srcdir:-.}/tests/multi/run.sh"
result=0
state() { # state RESOURCE [NAME=VALUE]...: what hcomm_info says of it, "usable" if one of its devices is
    local name=$1
    shift
    env "$@" "$build/hcomm_info" --transports | awk -v name="$name" \
        '$1 == name { said = 1; if ($3 == "yes") usable = 1 } END { print usable ? "usable" : said ? "rejected" : "missing" }'
}
expect() { # expect STATE RESOURCE [NAME=VALUE]...
    local wanted=$1
    shift
    local got
    got=$(state "$@")
    [ "$got" = "$wanted" ] && return
    echo "FAIL: $* is $got instead of $wanted"
    result=1
}
if [ "$(state ofi:tcp)" != usable ] || [ "$(state ofi:tcp:rxm HCOMM_TRANSPORTS=ofi:tcp:rxm)" != usable ]; then
    echo "SKIP: libfabric has but one provider for tcp here"
    exit 77
fi
expect rejected ofi:tcp:rxm
expect rejected ofi:tcp HCOMM_TRANSPORTS=ofi:tcp:rxm
# Without net, the name ofi:tcp and protocol tcp still find what is there.
expect usable ofi:tcp:rxm FI_PROVIDER=^net HCOMM_TRANSPORTS=ofi:tcp
expect usable ofi:tcp:rxm FI_PROVIDER=^net HCOMM_PROTOCOL=tcp
expect rejected ofi:tcp FI_PROVIDER=^net
$run tests/multi/p2p_messages -n 2 -t 60 -e FI_PROVIDER=^net -e HCOMM_TRANSPORTS=ofi:tcp || result=$?
exit $result
