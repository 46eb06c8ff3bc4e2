/* What a chip has, and what its vNPUs leave of it. See resources.h. */
#include "resources.h"

unsigned number_of(const struct chip *chip) {
    unsigned found = 0;
    for (int i = 0; i < VDEVICES; i++) found += chip->vdevice[i].used;
    return found;
}

int split(const struct chip *chip) { return chip->sriov || number_of(chip) > 0; }

struct amounts in_all(const struct chip *chip) {
    struct amounts all = chip->total;
    if (!split(chip)) all.aicpu = chip->aicpus;
    return all;
}

const struct amounts *amounts_of(const struct chip *chip, const struct vdevice *row) {
    return &chip->template[row->template].amounts;
}

static struct amounts minus(struct amounts from, const struct amounts *what) {
    return (struct amounts){from.aicore - what->aicore, from.aicpu - what->aicpu, from.vpc - what->vpc,
                            from.vdec - what->vdec,     from.venc - what->venc,   from.jpegd - what->jpegd,
                            from.jpege - what->jpege,   0,                        from.memory - what->memory};
}

struct amounts left(const struct chip *chip) {
    struct amounts rest = in_all(chip);
    for (const struct vdevice *row = chip->vdevice; row < chip->vdevice + VDEVICES; row++)
        if (row->used) rest = minus(rest, amounts_of(chip, row));
    return rest;
}
