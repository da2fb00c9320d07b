libhcrt_la_SOURCES += \
	transports/shm/am.c \
	transports/shm/chunk.c \
	transports/shm/distance.h \
	transports/shm/ep.c \
	transports/shm/identity.c \
	transports/shm/iface.c \
	transports/shm/mapping.c \
	transports/shm/peer.c \
	transports/shm/ring.h \
	transports/shm/rma.c \
	transports/shm/segment.c \
	transports/shm/segment.h \
	transports/shm/shm.h \
	transports/shm/source.c \
	transports/shm/tuner.h
