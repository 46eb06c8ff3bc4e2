/* Modes of the whole node: vNPUs for virtual machines, the 910's work mode, recovery at boot. */
#include "call.h"
#include "recovery.h"
#include "resources.h"

EXPORT int dcmi_get_vdevice_mode(int *mode) {
    BEGIN(NO_CHIP, 0);
    *mode = (int)call.state->mode;
    DONE(OK);
}

static int any_split(const struct state *state) {
    for (unsigned i = 0; i < state->chips; i++)
        if (split(&state->chip[i])) return 1;
    return 0;
}

EXPORT int dcmi_set_vdevice_mode(int mode) {
    BEGIN(NO_CHIP, 0);
    if (mode != 0 && mode != 1) DONE(INVALID_PARAMETER);
    if ((unsigned)mode != call.state->mode && any_split(call.state)) DONE(OCCUPIED);
    call.state->mode = (uint32_t)mode;
    DONE(OK);
}

EXPORT int dcmi_get_npu_work_mode(int card, unsigned char *mode) {
    BEGIN(card, 0);
    *mode = (unsigned char)call.state->smp;
    DONE(OK);
}

EXPORT int dcmi_get_vnpu_config_recover_mode(unsigned *mode) {
    BEGIN(NO_CHIP, 0);
    *mode = *recover_of(call.state);
    DONE(OK);
}

/* Switching it off forgets every vNPU that was to come back. */
EXPORT int dcmi_set_vnpu_config_recover_mode(unsigned mode) {
    BEGIN(NO_CHIP, 0);
    if (mode > 1) DONE(INVALID_PARAMETER);
    *recover_of(call.state) = mode;
    if (!is_hosts(call.state)) DONE(OK);
    for (unsigned i = 0; mode == 0 && i < call.state->chips; i++)
        for (int j = 0; j < VDEVICES; j++) call.state->chip[i].vdevice[j].saved = 0;
    DONE(save(call.state) == OK ? OK : INNER_ERROR);
}
