libhcrt_la_SOURCES += \
	transports/npu/acl/acl.h \
	transports/npu/acl/table.c \
	transports/npu/acl/table.h
