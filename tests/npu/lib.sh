# Common to the provider's tests: where the built provider is, and pairs of programs.
# shellcheck shell=sh
build=$(pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hcomm-npu.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
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

# need PROGRAM PACKAGE
need() {
    command -v "$1" >/dev/null && return
    echo "$1 is not there: install the Debian package $2"
    exit 77
}
