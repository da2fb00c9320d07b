libhcrt_la_SOURCES += \
	transports/ofi/connect.c \
	transports/ofi/iface.c \
	transports/ofi/lib.c \
	transports/ofi/lib.h \
	transports/ofi/netif.c \
	transports/ofi/netif.h \
	transports/ofi/ofi.c \
	transports/ofi/ofi.h \
	transports/ofi/op.c \
	transports/ofi/profile.c \
	transports/ofi/profile.h \
	transports/ofi/progress.c \
	transports/ofi/query.c \
	transports/ofi/rma.c \
	transports/ofi/send.c \
	transports/ofi/shmname.c \
	transports/ofi/shmname.h \
	transports/ofi/wire.c \
	transports/ofi/wire.h
