/* The self transport: messages of a process to itself, delivered by progress(). */
#ifndef HC_SELF_H
#define HC_SELF_H

#include "transports/transport.h"

enum {
    HC_SELF_SHORT_MAX = 1024,
    HC_SELF_BCOPY_MAX = 65536 + 256,
    HC_SELF_QUEUE_MAX = 4096,      /* messages waiting */
    HC_SELF_QUEUE_BYTES = 4 << 20, /* bytes waiting */
};

#endif
