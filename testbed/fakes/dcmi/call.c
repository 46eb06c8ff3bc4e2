/* The frame of every call. DCMI has a start and no end: another state file is taken up by the next dcmi_init. */
#include "call.h"

#include <signal.h>
#include <string.h>

const struct fake fake = {"fake DCMI", "APPORTION_FAKE_DCMI", MAGIC, LAYOUT, sizeof(struct state)};

EXPORT int dcmi_init(void) {
    int opened = frame_follow();
    if (opened != OPENED) return opened == NO_DRIVER ? NOT_READY : INNER_ERROR;
    BEGIN(NO_CHIP, 0);
    DONE(OK);
}

struct chip *chip_at(struct state *state, int card, int device) {
    for (struct chip *chip = state->chip; chip < state->chip + state->chips; chip++)
        if ((int)chip->card == card && (int)chip->device == device) return chip;
    return NULL;
}

static struct state *state(void) { return (struct state *)frame_state(); }

int begin(struct call *call, const char *symbol, int card, int device) {
    memset(call, 0, sizeof *call);
    if (state() == NULL) return call->code = NOT_READY, 0;
    if (!frame_lock()) return call->code = INNER_ERROR, 0;
    call->state = state();
    if (card != NO_CHIP) call->chip = chip_at(call->state, card, device);
    struct strike strike = frame_strike(symbol, call->chip ? (int)(call->chip - call->state->chip) : -1);
    if (strike.microseconds > 0) {
        frame_unlock();
        frame_sleep(strike.microseconds);
        if (!frame_lock()) return call->code = INNER_ERROR, 0;
    }
    if (strike.action == KILL_BEFORE) raise(SIGKILL);
    call->kill_after = strike.action == KILL_AFTER;
    int code = strike.action == FAIL ? strike.code : OK;
    if (code == OK && card != NO_CHIP && call->chip == NULL) code = INVALID_PARAMETER;
    if (code == OK && call->chip != NULL && call->chip->lost) code = DEVICE_NOT_EXIST;
    if (code == OK) return 1;
    finish(call, code);
    return call->code = code, 0;
}

int finish(struct call *call, int code) {
    if (call->kill_after) raise(SIGKILL);
    frame_unlock();
    return code;
}
