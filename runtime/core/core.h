/* Internal structures of the runtime core. */
#ifndef HC_CORE_H
#define HC_CORE_H

#include "runtime/base/status.h"

#endif
