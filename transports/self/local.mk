libhcrt_la_SOURCES += transports/self/self.c transports/self/self.h
