libhcrt_la_SOURCES += \
	transports/ofi/connect.c \
	transports/ofi/gather.c \
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
	transports/ofi/provider.c \
	transports/ofi/provider.h \
	transports/ofi/query.c \
	transports/ofi/rma.c \
	transports/ofi/send.c \
	transports/ofi/shmname.c \
	transports/ofi/shmname.h \
	transports/ofi/wire.c \
	transports/ofi/wire.h
# Where the provider npu is installed, for who loads libfabric.
libhcrt_la_CPPFLAGS += -DHC_FI_PROVIDER_DIR='"$(providerdir)"'
