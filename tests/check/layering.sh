#!/bin/sh
# Dependencies point one way, and foreign headers stay in their rooms (docs/architecture.md, "Layers").
. "${srcdir:-.}/tests/check/lib.sh"

# allowed FILE INCLUDE: whether FILE may include "INCLUDE" (of ours, as a path from the top).
allowed() {
    case $1:$2 in
    include/*:*) return 1 ;; # public headers name each other in angle brackets
    runtime/base/*:runtime/base/*) ;;
    runtime/boot/*:runtime/base/* | runtime/boot/*:runtime/boot/*) ;;
    runtime/topo/*:runtime/base/* | runtime/topo/*:runtime/topo/*) ;;
    transports/*:runtime/base/* | transports/*:transports/transport.h) ;;
    transports/transport.c:transports/*) ;;
    transports/*/*:transports/*/*) same_folder "$1" "$2" transports ;;
    runtime/core/device*.[ch]:transports/npu/acl/* | runtime/core/stream*.[ch]:transports/npu/acl/*) ;;
    runtime/core/event*.[ch]:transports/npu/acl/* | runtime/core/transfer_device.c:transports/npu/acl/*) ;;
    runtime/core/*:runtime/* | runtime/core/*:transports/transport.h) ;;
    launcher/*:runtime/base/* | launcher/*:runtime/topo/* | launcher/*:launcher/*) ;;
    tools/*:tools/* | examples/*:examples/* | bench/*:bench/*) ;;
    *) return 1 ;;
    esac
}

# The NPU provider may use its own subfolders; other transports only their own folder.
same_folder() {
    a=${1#"$3"/} b=${2#"$3"/}
    [ "${a%%/*}" = "${b%%/*}" ]
}

# room FILE HEADER: whether FILE may include the foreign <HEADER>.
room() {
    case $2 in
    pmix_server.h | pmix_tool.h) case $1 in launcher/pmix/*) ;; *) return 1 ;; esac ;;
    pmix*) case $1 in runtime/boot/boot_pmix.c | launcher/pmix/*) ;; *) return 1 ;; esac ;;
    hwloc*) case $1 in runtime/topo/* | launcher/map* | launcher/bind*) ;; *) return 1 ;; esac ;;
    rdma/*) case $1 in transports/ofi/* | transports/npu/* | bench/raw_ofi.c) ;; *) return 1 ;; esac ;;
    acl/*) return 1 ;; # the device runtime's ABI is declared by hand
    esac
}

# Tools, examples and benches stand where users stand: neither internal paths nor headers outside their folder.
outside() {
    case $1 in tools/* | examples/* | bench/*) return 0 ;; esac
    return 1
}

includes() {
    sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*\([<"][^>"]*\).*/\1/p' "$tree/$1"
}

check_include() {
    file=$1 header=${2#?}
    case $2 in
    '"'*)
        if outside "$file" && [ -f "$tree/$(dirname "$file")/$header" ]; then
            return
        fi
        case $file:$header in
        *.c:config.h) return ;; # made by configure
        esac
        [ -f "$tree/$header" ] || complain "$file: \"$header\" is no path from the top of the tree"
        allowed "$file" "$header" || complain "$file: may not include $header"
        ;;
    '<'*)
        room "$file" "$header" || complain "$file: <$header> belongs in another room"
        case $file:$header in
        include/*:hcomm/* | include/*:std*.h) ;;
        include/*) complain "$file: a public header may not include <$header>" ;;
        esac
        ;;
    esac
}

files=$(c_files include runtime transports launcher tools examples bench)
for file in $files; do
    for header in $(includes "$file"); do
        check_include "$file" "$header"
    done
done
# shellcheck disable=SC2086
set -- $files
finish $# "files"
