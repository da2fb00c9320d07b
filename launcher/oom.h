/* Did the kernel's out-of-memory killer end a process? */
#ifndef HC_LAUNCHER_OOM_H
#define HC_LAUNCHER_OOM_H

/* How many processes the kernel has killed for lack of memory since boot; 0 when it does not tell. */
unsigned long hc_oom_kills(void);

#endif
