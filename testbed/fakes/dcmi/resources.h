/* What a chip has, and what its vNPUs leave of it. A vNPU takes what its template says. */
#ifndef FAKE_DCMI_RESOURCES_H
#define FAKE_DCMI_RESOURCES_H

#include "state.h"

unsigned number_of(const struct chip *chip);
/* Whether the chip has vNPUs, or is in the mode for them. */
int split(const struct chip *chip);
/* What the chip has in all; splitting it changes the number of AI CPUs. */
struct amounts in_all(const struct chip *chip);
const struct amounts *amounts_of(const struct chip *chip, const struct vdevice *row);
/* What no vNPU has taken. */
struct amounts left(const struct chip *chip);

#endif
