#!/bin/sh
# The checks find what they look for: each gets a small tree with one fault and has to refuse it, and the same
# tree without the fault and has to pass it.
checks=${srcdir:-.}/tests/check
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hcomm-detects.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
wrong=0 tried=0

fresh_tree() {
    rm -rf "$scratch/tree"
    mkdir -p "$scratch/tree/include/hcomm" "$scratch/tree/runtime/base" "$scratch/tree/runtime/core" \
        "$scratch/tree/transports/shm" "$scratch/tree/transports/ofi" "$scratch/tree/tools" "$scratch/tree/tests/multi"
    cd "$scratch/tree" || exit 99
    printf '#ifndef HCOMM_H\n#define HCOMM_H\n#include <stddef.h>\nint hcomm_x(size_t n);\n#endif\n' >include/hcomm.h
    printf '#include <hcomm.h>\n\nint hcomm_x(size_t n)\n{\n    return (int)n;\n}\n' >runtime/base/x.c
    printf '#!/bin/sh\ntimeout 300 true\n' >tests/multi/x.sh
    : >runtime/core/core.h
    : >transports/ofi/ofi.h
    cd - >/dev/null || exit 99
}

# run CHECK pass|fail WHAT: run it over the tree and compare.
run() {
    tried=$((tried + 1))
    if sh "$checks/$1.sh" "$scratch/tree" >"$scratch/log" 2>&1; then got=pass; else got=fail; fi
    [ "$got" = "$2" ] && return
    wrong=$((wrong + 1))
    echo "$1: expected $2, got $got: $3" >&2
    cat "$scratch/log" >&2
}

# refuses CHECK FILE TEXT WHAT: with TEXT added to FILE the check fails.
refuses() {
    fresh_tree
    run "$1" pass "clean tree"
    # shellcheck disable=SC2059
    printf "$3" >>"$scratch/tree/$2"
    run "$1" fail "$4"
}

long_body() {
    printf 'int long_one(void)\n{\n'
    i=0
    while [ "$i" -lt 101 ]; do
        printf '    f();\n'
        i=$((i + 1))
    done
    printf '}\n'
}

refuses layering runtime/base/x.c '#include "runtime/core/core.h"\n' "base includes core"
refuses layering transports/shm/shm.c '#include "transports/ofi/ofi.h"\n' "one transport includes another"
refuses layering runtime/core/x.c '#include <hwloc.h>\n' "hwloc outside its room"
refuses layering runtime/core/x.c '#include <pmix.h>\n' "pmix outside its room"
refuses layering runtime/core/x.c '#include <rdma/fabric.h>\n' "libfabric outside its room"
refuses layering tools/x.c '#include "runtime/core/core.h"\n' "a tool includes internals"
refuses layering include/hcomm.h '#include <pthread.h>\n' "a public header includes a foreign one"
refuses layering runtime/base/x.c '#include "nowhere.h"\n' "a path that is none"
refuses lengths runtime/base/x.c "$(long_body)" "a function of 101 lines"
refuses lengths runtime/base/x.c 'int f(void)\n{\n#ifdef X\n    g();\n#endif\n}\n' "#ifdef inside a function"
refuses lengths runtime/base/y.h "$(yes '/* */' | sed 1001q)" "a file of 1001 lines"
refuses names include/hcomm.h 'enum {\n    HCOMM_REDUCE_%s = 0,\n};\n' "an enumerator of CANN's"
refuses names include/hcomm/hcomm_x.h '\n' "a header called as CANN's"
refuses names include/hcomm.h '#define MAXIMUM 3\n' "a macro without the prefix"
refuses names runtime/base/x.c "/* TO""DO: later */\n" "unfinished work"
refuses headers include/hcomm.h 'uint32_t hcomm_y(void);\n' "a type whose header is missing"
refuses headers include/hcomm.h 'int hcomm_y(int class);\n' "a word of C++"

refuses scripts tests/multi/x.sh 'if true\n' "a script that cannot be read"
refuses scripts tests/multi/x.sh "timeout 6"'0 true\n' "a limit that a slow machine exceeds"

echo "$tried runs, $wrong wrong"
[ "$tried" -gt 0 ] && [ "$wrong" -eq 0 ]
