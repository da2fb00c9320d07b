libhcrt_la_SOURCES += \
	runtime/boot/boot.c \
	runtime/boot/boot.h \
	runtime/boot/boot_call.c \
	runtime/boot/boot_impl.h \
	runtime/boot/boot_pmix.c \
	runtime/boot/boot_single.c \
	runtime/boot/boot_util.c
