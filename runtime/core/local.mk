libhcrt_la_SOURCES += \
	runtime/core/barrier.h \
	runtime/core/blob.c \
	runtime/core/blob.h \
	runtime/core/coll.h \
	runtime/core/comm.h \
	runtime/core/core.h \
	runtime/core/match.c \
	runtime/core/match.h \
	runtime/core/mem.c \
	runtime/core/mem.h \
	runtime/core/wire.h
