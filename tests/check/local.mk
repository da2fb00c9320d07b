# Checks of the tree itself. Each may be run by hand: srcdir=. sh tests/check/NAME.sh
HC_CHECKS = \
	tests/check/detects.sh \
	tests/check/headers.sh \
	tests/check/layering.sh \
	tests/check/lengths.sh \
	tests/check/manual.sh \
	tests/check/names.sh \
	tests/check/scripts.sh \
	tests/check/settings.sh \
	tests/check/symbols.sh \
	tests/check/traps.sh
dist_check_SCRIPTS += $(HC_CHECKS)
TESTS += $(HC_CHECKS)
EXTRA_DIST += tests/check/lib.sh

check_PROGRAMS += tests/check/settings_page
tests_check_settings_page_SOURCES = tests/check/settings_page.c
tests_check_settings_page_LDADD = libhcbase.la

# Bring the table in hcomm_settings(5) up to date with the library's.
.PHONY: update-settings-page
update-settings-page: tests/check/settings_page
	$(AM_V_GEN)page=$(top_srcdir)/docs/man/hcomm_settings.5.scd; \
	{ sed '/^; table begins/q' $$page && tests/check/settings_page && sed -n '/^; table ends/,$$p' $$page; } \
		>$$page.new && mv $$page.new $$page
