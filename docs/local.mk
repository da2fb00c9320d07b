# Manual pages, written in scdoc. The tarball carries them made, so that installing from it needs no scdoc.
HC_MAN_SOURCES = \
	docs/man/fi_npu.7.scd \
	docs/man/hcomm.7.scd \
	docs/man/hcomm_barrier.3.scd \
	docs/man/hcomm_buffer_pool.3.scd \
	docs/man/hcomm_comm.3.scd \
	docs/man/hcomm_error.3.scd \
	docs/man/hcomm_event.3.scd \
	docs/man/hcomm_info.1.scd \
	docs/man/hcomm_init.3.scd \
	docs/man/hcomm_mem.3.scd \
	docs/man/hcomm_perf.1.scd \
	docs/man/hcomm_prefetch.3.scd \
	docs/man/hcomm_probe.3.scd \
	docs/man/hcomm_recv.3.scd \
	docs/man/hcomm_send.3.scd \
	docs/man/hcomm_settings.5.scd \
	docs/man/hcomm_stream.3.scd \
	docs/man/hcomm_topology.3.scd \
	docs/man/hcomm_transfer.3.scd \
	docs/man/hcomm_wait.3.scd \
	docs/man/hcommrun.1.scd \
	docs/man/npusim.7.scd
EXTRA_DIST += $(HC_MAN_SOURCES) docs/architecture.md docs/limits.md docs/npu.md docs/performance.md

HC_MAN_PAGES = $(HC_MAN_SOURCES:.scd=)
if HAVE_MAN_PAGES
dist_man_MANS += $(HC_MAN_PAGES)
MAINTAINERCLEANFILES = $(HC_MAN_PAGES)
endif
SUFFIXES = .scd
.scd:
	$(AM_V_GEN)test -n "$(SCDOC)" || { echo "$@: scdoc not found: install the Debian package scdoc" >&2; exit 1; }; \
	$(MKDIR_P) $(@D) && $(SCDOC) <$< >$@.new && mv $@.new $@

# Every further name on a page of section 3 gets a page that refers to it.
HC_MAN_NAMES = awk '/^\# NAME/ { getline; getline; sub(/ - .*/, ""); gsub(/,/, " "); print }'
install-data-hook: hc-man-links
hc-man-links: install-man
	$(AM_V_at)for page in $(HC_MAN_SOURCES); do \
		case $$page in *.3.scd) ;; *) continue;; esac; \
		own=`basename $$page .scd`; \
		test -f $(DESTDIR)$(man3dir)/$$own || continue; \
		for name in `$(HC_MAN_NAMES) $(srcdir)/$$page`; do \
			test $$name.3 = $$own || echo ".so man3/$$own" >$(DESTDIR)$(man3dir)/$$name.3 || exit 1; \
		done; \
	done
uninstall-hook: hc-man-unlink
hc-man-unlink:
	$(AM_V_at)for page in $(HC_MAN_SOURCES); do \
		case $$page in *.3.scd) ;; *) continue;; esac; \
		for name in `$(HC_MAN_NAMES) $(srcdir)/$$page`; do rm -f $(DESTDIR)$(man3dir)/$$name.3; done; \
	done
.PHONY: hc-man-links hc-man-unlink
