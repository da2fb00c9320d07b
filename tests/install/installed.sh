#!/bin/sh
# What `make install` leaves is what a user needs: the files are there and no others, the examples compile
# against them with pkg-config alone, and run under the installed hcommrun.
set -u
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hcomm-installed.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
top=$(cd "${srcdir:-.}" && pwd)
failed=0

complain() {
    echo "installed.sh: $*" >&2
    failed=$((failed + 1))
}
die() {
    complain "$*"
    exit 1
}

# The prefix is set anew for this installation; variables of the surrounding make would disturb it.
install_all() {
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s install DESTDIR="$scratch/root" >"$scratch/install.log" 2>&1 || {
        cat "$scratch/install.log" >&2
        die "make install failed"
    }
    pc=$(find "$scratch/root" -name hcomm.pc)
    [ -n "$pc" ] || die "no hcomm.pc"
    prefix=$(sed -n 's/^prefix=//p' "$pc")
    root=$scratch/root$prefix
    export PKG_CONFIG_PATH="${pc%/*}${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
    libdir=$(dirname "$(find "$scratch/root" -name libhcommrt.so.0)")
    export LD_LIBRARY_PATH="$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export PATH="$root/bin:$PATH"
}

flags() {
    "${PKG_CONFIG:-pkg-config}" --define-variable=prefix="$root" "$@" hcomm || die "pkg-config knows no hcomm"
}

check_files() {
    for file in include/hcomm.h include/hcomm/p2p.h bin/hcommrun bin/hcomm_info bin/hcomm_perf; do
        [ -s "$root/$file" ] || complain "not installed: $file"
    done
    for library in libnpusim.so.0; do
        [ -e "$(find "$scratch/root" -name "$library" | head -1)" ] || complain "not installed: $library"
    done
    for page in man1/hcommrun.1 man1/hcomm_info.1 man1/hcomm_perf.1 man3/hcomm_send.3 man3/hcomm_isend.3 \
        man3/hcomm_stream.3 man3/hcomm_stream_create.3 man3/hcomm_event.3 man3/hcomm_event_create.3 \
        man5/hcomm_settings.5 man7/hcomm.7 man7/fi_npu.7 man7/npusim.7; do
        [ -e "$(find "$scratch/root" -path "*/$page*" | head -1)" ] || complain "not installed: $page"
    done
    find "$scratch/root" -name 'libhcomm.so*' -o -name 'hcomm_*.h' | grep . >&2 &&
        complain "a file with a name of CANN's is installed"
    [ "$("${PKG_CONFIG:-pkg-config}" --modversion hcomm)" = "$(sed -n 's/^Version: //p' "$pc")" ] ||
        complain "pkg-config gives another version"
}

# compile PROGRAM SOURCE...: with the installed files alone, as a user would.
compile() {
    program=$1
    shift
    # shellcheck disable=SC2046,SC2086
    (cd "$(flags --variable=examplesdir)" && ${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -O2 ${HC_SANITIZE:-} \
        $(flags --cflags) "$@" -o "$scratch/$program" $(flags --libs) -lm) || die "$program does not compile"
}

# train RANKS: run it, and set `accuracy` to what it says.
train() {
    timeout 300 hcommrun -n "$1" "$scratch/train_digits" "$data" >"$scratch/train.$1" || {
        cat "$scratch/train.$1" >&2
        die "train_digits with $1 ranks failed"
    }
    grep -q '^weights .*, the same on all ranks$' "$scratch/train.$1" || complain "weights differ, $1 ranks"
    accuracy=$(sed -n 's/^test accuracy //p' "$scratch/train.$1")
}

check_training() {
    train 1
    alone=$accuracy
    awk -v percent="${alone%% *}" 'BEGIN { exit !(percent > 94) }' || complain "accuracy is only $alone"
    for ranks in 2 3 4 8; do
        train "$ranks"
        [ "$accuracy" = "$alone" ] || complain "$ranks ranks: accuracy $accuracy, one rank: $alone"
    done
}

# refuses EXPECTED FILE: training ends at once, fails, and says what is wrong in one line.
refuses() {
    timeout 300 hcommrun -n 3 "$scratch/train_digits" "$2" >/dev/null 2>"$scratch/errors"
    status=$?
    case $status in
    0 | 124) complain "$2: status $status" ;;
    esac
    [ "$(grep -c '^train_digits: ' "$scratch/errors")" -eq 1 ] || complain "$2: not one line of complaint"
    grep -qF "train_digits: $scratch/$1" "$scratch/errors" || {
        complain "$2: does not say: $1"
        cat "$scratch/errors" >&2
    }
}

check_bad_input() {
    cd "$scratch" || exit 99
    : >empty.csv
    sed '7s/,[0-9]*$//' "$data" >short.csv
    sed '9s/^0,0,/0,x,/' "$data" >letter.csv
    sed '11s/^0,/17,/' "$data" >range.csv
    sed '13s/[0-9]$/10/' "$data" >label.csv
    sed '15s/$/,1/' "$data" >long.csv
    refuses "none.csv: cannot open: No such file" "$scratch/none.csv"
    refuses "empty.csv:1:1: the file is empty" "$scratch/empty.csv"
    refuses "short.csv:7:$(sed -n 7p short.csv | awk '{ print length + 1 }'): the line is too short" "$scratch/short.csv"
    refuses "letter.csv:9:3: expected a number" "$scratch/letter.csv"
    refuses "range.csv:11:1: the number is greater than 16" "$scratch/range.csv"
    refuses "label.csv:13:$(sed -n 13p label.csv | awk '{ print length - 1 }'): the number is greater" "$scratch/label.csv"
    refuses "long.csv:15:$(sed -n 15p long.csv | awk '{ print length - 1 }'): expected the end" "$scratch/long.csv"
    cd - >/dev/null || exit 99
}

check_small_examples() {
    timeout 300 hcommrun -n 4 "$scratch/hello" >"$scratch/out" || complain "hello failed"
    [ "$(grep -c '^hello from rank [0-3] of 4 on ' "$scratch/out")" -eq 4 ] || complain "hello: not four greetings"
    HCOMM_NPU=sim timeout 300 hcommrun -n 3 "$scratch/device" >"$scratch/out" || complain "device failed"
    [ "$(grep -cE '^rank [0-2] on device [0-2]: 8 MiB of [0-2] from .*, link HCCS$' "$scratch/out")" -eq 3 ] ||
        complain "device: not three lines"
    timeout 300 hcommrun -n 2 "$scratch/pingpong" >"$scratch/out" || complain "pingpong failed"
    grep -q '^ *4194304 ' "$scratch/out" || complain "pingpong: no line for 4 MiB"
    HCOMM_DEVICE_ID=0 HCOMM_NPU=sim timeout 300 "$scratch/prefetch" >"$scratch/out" || complain "prefetch failed"
    [ "$(grep -c 'waiting for input$' "$scratch/out")" -eq 2 ] || complain "prefetch: not two lines"
    timeout 300 hcommrun -n 3 "$scratch/streams" >"$scratch/out" || complain "streams failed"
    [ "$(grep -c '^rank [0-2] has all 16 blocks of rank [0-2]$' "$scratch/out")" -eq 3 ] || complain "streams: not three lines"
    timeout 300 hcommrun -n 3 "$scratch/topology" >"$scratch/out" || complain "topology failed"
    [ "$(grep -cE '^ *[0-2] +0 ' "$scratch/out")" -eq 3 ] || complain "topology: not three ranks on host 0"
}

# The installed provider is found without any setting of libfabric's.
check_provider() {
    HCOMM_NPU=sim HCOMM_DEVICE_ID=0 HCOMM_TRANSPORTS=ofi:npu timeout 300 hcomm_info --transports >"$scratch/out"
    grep -q '^ofi:npu *npu0 *yes .* with device memory' "$scratch/out" || {
        complain "the provider npu is not found:"
        cat "$scratch/out" >&2
    }
}

install_all
check_files
check_provider
data=$(flags --variable=examplesdir)/data/digits.csv
[ -s "$data" ] || die "the digits are not installed"
for example in device hello pingpong prefetch streams topology; do
    compile $example $example.c
    [ "$(wc -l <"$top/examples/$example.c")" -lt 100 ] || complain "$example.c has 100 lines or more"
done
compile train_digits train_digits.c digits.c ring_allreduce.c
"$scratch/train_digits" --help | grep -q '^usage: ' || complain "train_digits --help gives no help"
check_small_examples
check_training
check_bad_input
[ "$failed" -eq 0 ]
