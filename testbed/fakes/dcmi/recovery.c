/* The recovery file. See recovery.h. */
#include "recovery.h"

#include <stdio.h>
#include <sys/stat.h>

#include "call.h"

int is_hosts(const struct state *state) { return state->place == HOST || state->place == NOT_ROOT || state->mounted; }

uint32_t *recover_of(struct state *state) { return is_hosts(state) ? &state->recover : &state->own_recover; }

void strike(struct chip *chip, unsigned id) {
    for (struct vdevice *row = chip->vdevice; row < chip->vdevice + VDEVICES; row++)
        if (!row->used && (row->id == id || id == EVERY)) row->saved = 0;
}

int save(const struct state *state) {
    if (state->recovery[0] == 0) return OK;
    struct stat facts;
    if (lstat(state->recovery, &facts) == 0 && !S_ISREG(facts.st_mode)) return FILE_FAILED;
    FILE *file = fopen(state->recovery, "w");
    if (file == NULL) return FILE_FAILED;
    fprintf(file, "vnpu_config_recover:%s\n[vnpu-config start]\n", state->recover ? "enable" : "disable");
    for (const struct chip *chip = state->chip; chip < state->chip + state->chips; chip++)
        for (const struct vdevice *row = chip->vdevice; row < chip->vdevice + VDEVICES; row++)
            if (row->saved)
                fprintf(file, "%u:%u:npu-smi set -t create-vnpu -i %u -c %u -f %s -v %u\n", chip->phy, row->id, chip->card,
                        chip->device, chip->template[row->template].name, row->id);
    fprintf(file, "[vnpu-config end]\n");
    return fclose(file) == 0 ? OK : FILE_FAILED;
}
