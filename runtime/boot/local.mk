libhcrt_la_SOURCES += runtime/boot/boot.h
