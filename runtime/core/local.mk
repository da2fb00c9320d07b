libhcrt_la_SOURCES += \
	runtime/core/blob.c \
	runtime/core/blob.h \
	runtime/core/core.h \
	runtime/core/match.c \
	runtime/core/match.h \
	runtime/core/wire.h
