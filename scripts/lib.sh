# Common to the scripts: Debian packages. Meant to be read in by a shell, not run.
# shellcheck shell=sh disable=SC2034,SC2086

packages_build="gcc g++ make autoconf automake libtool pkg-config libpmix-dev libfabric-dev libhwloc-dev scdoc"
packages_test="libcriterion-dev clang libclang-rt-14-dev libfabric-bin openmpi-bin libopenmpi-dev mpich libmpich-dev
    slurm-wlm munge iproute2 procps psmisc python3 valgrind strace ucx-utils gnuplot-nox xz-utils"
packages_verbs="qemu-system-x86 cpio busybox-static kmod rdma-core ibverbs-utils ibverbs-providers rdmacm-utils"

say() {
    printf '== %s\n' "$*"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# Print those of the packages that are not installed.
packages_missing() {
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
    done
}

# Install what is missing. On success and failure alike the caller goes on: configure names what it cannot find.
packages_install() {
    command -v apt-get >/dev/null || {
        echo "not a Debian system: install what configure asks for" >&2
        return
    }
    missing=$(packages_missing "$@")
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        echo "neither root nor sudo: install these packages by hand:" $missing >&2
        return
    fi
    say "installing:" $missing
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    as_root apt-get -qq update </dev/null &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing \
            </dev/null >/dev/null ||
        echo "apt-get failed; going on with what is there" >&2
}
