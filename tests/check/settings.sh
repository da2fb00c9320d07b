#!/bin/sh
# Every setting is documented: the list in hcomm_settings(5) is the one printed from the library's own table, the
# numbers that the public header gives as defaults are the table's, and no source reads an HCOMM_ or HCOMMRUN_
# variable that no manual page names.
. "${srcdir:-.}/tests/check/lib.sh"

page=$tree/docs/man/hcomm_settings.5.scd
printer=${HC_SETTINGS_PAGE:-tests/check/settings_page}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hcomm-settings.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it

"$printer" >"$scratch/table" || exit 99
sed -n '/^; table begins/,/^; table ends/p' "$page" | sed '1d;$d' >"$scratch/page"
diff -u "$scratch/page" "$scratch/table" >&2 ||
    complain "$page: not the library's table; run \`make update-settings-page\` in the build folder"

# "name default", in bytes, of each number in hcomm_config_t and in the table; a field's name is its variable's.
awk '/^typedef struct hcomm_config \{/, /^\}/' "$tree/include/hcomm/config.h" |
    sed -n 's/^[^;]* \([a-z_]*\);.*default \([0-9]*\) \{0,1\}\([KM]\{0,1\}\).*/\1 \2 \3/p' |
    awk '$2 != "" { print $1, $2 * ($3 == "K" ? 1024 : $3 == "M" ? 1048576 : 1) }' >"$scratch/header"
sed -n 's/\\//g; s/^\*HCOMM_\([A-Z_]*\)\*.*/\1/p; s/.*Default: \([0-9]*\)\.$/\1/p' "$scratch/table" |
    awk '/^[0-9]/ { print tolower(name), $1; next } { name = $1 }' >"$scratch/defaults"
[ "$(wc -l <"$scratch/header")" -ge 8 ] || complain "include/hcomm/config.h: fewer than 8 defaults were found"
grep -vxFf "$scratch/defaults" "$scratch/header" | {
    status=0
    while read -r field default; do
        complain "include/hcomm/config.h: $field: $default is not the table's default"
        status=1
    done
    exit $status
} || complaints=$((complaints + 1))

# shellcheck disable=SC2046
variables=$(cd "$tree" && grep -ohE 'getenv\("HCOMM[A-Z_0-9]*"\)' $(c_files runtime transports launcher tools) |
    sed 's/.*"\(.*\)".*/\1/' | sort -u)
for variable in $variables; do
    grep -rqw "$variable" "$tree"/docs/man/*.scd || complain "$variable: read by a source, named on no manual page"
done
finish "$(grep -c '^\*HCOMM_' "$scratch/table")" "settings"
