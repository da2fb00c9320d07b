#!/bin/sh
# Every setting is documented: the list in hcomm_settings(5) is the one printed from the library's own table, and
# no source reads an HCOMM_ or HCOMMRUN_ variable that no manual page names.
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

# shellcheck disable=SC2046
variables=$(cd "$tree" && grep -ohE 'getenv\("HCOMM[A-Z_0-9]*"\)' $(c_files runtime transports launcher tools) |
    sed 's/.*"\(.*\)".*/\1/' | sort -u)
for variable in $variables; do
    grep -rqw "$variable" "$tree"/docs/man/*.scd || complain "$variable: read by a source, named on no manual page"
done
finish "$(grep -c '^\*HCOMM_' "$scratch/table")" "settings"
