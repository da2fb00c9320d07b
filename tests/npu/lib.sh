# Common to the provider's tests: where the built provider is, and pairs of programs.
# shellcheck shell=sh
build=$(pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hcomm-npu.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
failed=0

# libfabric takes every library of the folder that is named as a provider.
mkdir "$scratch/providers" && ln -s "$build/.libs/libnpu-fi.so" "$scratch/providers/" || exit 99
export FI_PROVIDER_PATH="$scratch/providers"
export HCOMM_NPU="${HCOMM_NPU:-off}"
# libfabric's own programs may load a provider that was built with AddressSanitizer.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0"

complain() {
    echo "${0##*/}: $*" >&2
    failed=$((failed + 1))
}

# await_listener PID PORT [COMMAND...]: until something listens at the port, in the network that the command enters, or
# the process has ended. fi_pingpong's client tries once.
await_listener() {
    listener=$1 row="^ *[0-9]*: [0-9A-F]*:$(printf %04X "$2") [0-9A-F:]* 0A "
    shift 2
    tries=1200
    until "$@" cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q "$row" || [ $tries -eq 0 ]; do
        kill -0 "$listener" 2>/dev/null || return
        sleep 0.05
        tries=$((tries - 1))
    done
}

# need PROGRAM PACKAGE
need() {
    command -v "$1" >/dev/null && return
    echo "$1 is not there: install the Debian package $2"
    exit 77
}
