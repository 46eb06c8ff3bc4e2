/* The recovery file (vnpu.cfg): the vNPUs that the driver makes again at boot. */
#ifndef FAKE_DCMI_RECOVERY_H
#define FAKE_DCMI_RECOVERY_H

#include "state.h"

/* Write the file from the rows that are saved in it. Returns OK or FILE_FAILED. */
int save(const struct state *state);

#endif
