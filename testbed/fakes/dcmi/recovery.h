/* The recovery file (vnpu.cfg): the vNPUs that a script of the driver's makes again at boot.
 *
 * The library reads and writes /etc/vnpu.cfg as the calling process sees it (dcmi_inner_cfg_persist.c:1271-1310, 849-910 of
 * hicann/driver at ef377e9), with recovery on in a file that it makes itself (:236-238); boot reads the host's. A container
 * without the host's file thus has one of its own, and nothing of it comes back. A line stays where the process dies, or the
 * file cannot be written, between the removal of the vNPU and that of its line (dcmi_virtual_intf.c:695-709).
 */
#ifndef FAKE_DCMI_RECOVERY_H
#define FAKE_DCMI_RECOVERY_H

#include "state.h"

/* Whether the caller's file is the host's. */
int is_hosts(const struct state *state);
/* The switch in the caller's file. */
uint32_t *recover_of(struct state *state);
/* Forget the line of a vNPU that is gone; EVERY: of all that are. */
void strike(struct chip *chip, unsigned id);
/* Write the host's file. Returns OK or FILE_FAILED. */
int save(const struct state *state);

#endif
