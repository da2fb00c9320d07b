libhcrt_la_SOURCES += \
	runtime/core/barrier.c \
	runtime/core/barrier.h \
	runtime/core/barrier_shared.c \
	runtime/core/blob.c \
	runtime/core/blob.h \
	runtime/core/coll.c \
	runtime/core/coll.h \
	runtime/core/comm.c \
	runtime/core/comm.h \
	runtime/core/comm_create.c \
	runtime/core/core.h \
	runtime/core/match.c \
	runtime/core/match.h \
	runtime/core/mem.c \
	runtime/core/mem.h \
	runtime/core/wire.h
