/*
 * The end of everything that was started. The launcher's processes are child subreapers (prctl(2)), so
 * whatever a rank leaves behind, in whichever process group or session, becomes a child of the launcher when
 * its parent dies. Signals go only to processes that are our own unreaped children: their numbers cannot have
 * been reused.
 */
#ifndef HC_LAUNCHER_REAP_H
#define HC_LAUNCHER_REAP_H

#include <stdbool.h>

/* Become the reaper of orphaned descendants; false when the kernel refuses. */
bool hc_reap_become_subreaper(void);

/* Kill and reap all children of this process and what they leave, until there is none. */
void hc_reap_all_descendants(void);

#endif
