libhcrt_la_SOURCES += runtime/core/core.h
