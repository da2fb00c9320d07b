# libhclaunch: everything of hcommrun but main(); unit tests link it too.
noinst_LTLIBRARIES += libhclaunch.la
libhclaunch_la_SOURCES = \
	launcher/bind.c \
	launcher/bind.h \
	launcher/end.c \
	launcher/end.h \
	launcher/environment.c \
	launcher/environment.h \
	launcher/feed.c \
	launcher/feed.h \
	launcher/guard.c \
	launcher/guard.h \
	launcher/iof.c \
	launcher/iof.h \
	launcher/job.c \
	launcher/job.h \
	launcher/launch.c \
	launcher/launch.h \
	launcher/loop.c \
	launcher/loop.h \
	launcher/map.c \
	launcher/map.h \
	launcher/oom.c \
	launcher/oom.h \
	launcher/options.c \
	launcher/options.h \
	launcher/pmix/abort.c \
	launcher/pmix/bag.c \
	launcher/pmix/bag.h \
	launcher/pmix/connect.c \
	launcher/pmix/connected.c \
	launcher/pmix/dmodex.c \
	launcher/pmix/events.c \
	launcher/pmix/fence.c \
	launcher/pmix/finalized.c \
	launcher/pmix/group.c \
	launcher/pmix/internal.h \
	launcher/pmix/iof.c \
	launcher/pmix/job_control.c \
	launcher/pmix/jobdata.c \
	launcher/pmix/log.c \
	launcher/pmix/lookup.c \
	launcher/pmix/notify.c \
	launcher/pmix/publish.c \
	launcher/pmix/query.c \
	launcher/pmix/server.c \
	launcher/pmix/server.h \
	launcher/pmix/spawn.c \
	launcher/pmix/store.c \
	launcher/pmix/unpublish.c \
	launcher/reap.c \
	launcher/reap.h \
	launcher/session.c \
	launcher/session.h \
	launcher/shm_sweep.c \
	launcher/shm_sweep.h \
	launcher/sink.c \
	launcher/sink.h \
	launcher/slurm.c \
	launcher/slurm.h \
	launcher/spawn.c \
	launcher/spawn.h \
	launcher/start.c \
	launcher/start.h
libhclaunch_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS) $(HWLOC_CFLAGS)
libhclaunch_la_LIBADD = libhcbase.la libhctopo.la $(PMIX_LIBS) $(HWLOC_LIBS) -lpthread

bin_PROGRAMS += hcommrun
hcommrun_SOURCES = launcher/hcommrun.c
hcommrun_LDADD = libhclaunch.la
