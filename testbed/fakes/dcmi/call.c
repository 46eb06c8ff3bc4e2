/* Begin and end of every call. DCMI has an init and no shutdown: the next dcmi_init opens another state file. */
#include "call.h"

#include <signal.h>
#include <string.h>

const struct fake fake = {"fake DCMI", "APPORTION_FAKE_DCMI", MAGIC, LAYOUT, sizeof(struct state)};

static int init(const char *symbol) {
    int opened = statefile_reopen();
    if (opened != OPENED) return opened == NO_DRIVER ? NOT_READY : INNER_ERROR;
    struct call call;
    if (!begin(&call, symbol, NO_CHIP, 0)) return call.code;
    DONE(OK);
}

EXPORT int dcmi_init(void) { return init(__func__); }

EXPORT int dcmiv2_init(void) { return init(__func__); }

struct chip *chip_at(struct state *state, int card, int device) {
    for (struct chip *chip = state->chip; chip < state->chip + state->chips; chip++)
        if ((int)chip->card == card && (int)chip->device == device) return chip;
    return NULL;
}

static struct state *state(void) { return (struct state *)statefile_header(); }

/* The real library knows one family for the whole node: the first chip's stands for calls about none. */
static int refusal(const struct call *call, const char *symbol) {
    const struct state *state = call->state;
    unsigned family = call->chip ? call->chip->family : state->chip[0].family;
    for (const struct answer *row = state->answer; row < state->answer + state->answers; row++) {
        const char *star = strchr(row->symbol, '*');
        size_t length = star ? (size_t)(star - row->symbol) : sizeof row->symbol;
        if (row->family == family && strncmp(row->symbol, symbol, length) == 0) return row->code[state->place];
    }
    return OK;
}

int begin(struct call *call, const char *symbol, int card, int device) {
    memset(call, 0, sizeof *call);
    if (state() == NULL) return call->code = NOT_READY, 0;
    if (!statefile_lock()) return call->code = INNER_ERROR, 0;
    call->state = state();
    if (card != NO_CHIP) call->chip = chip_at(call->state, card, device);
    struct fault fault = take_fault(symbol, call->chip ? (int)(call->chip - call->state->chip) : -1);
    if (fault.microseconds > 0) {
        statefile_unlock();
        sleep_microseconds(fault.microseconds);
        if (!statefile_lock()) return call->code = INNER_ERROR, 0;
    }
    if (fault.hangs != NULL) {
        if (!wait_out(fault.hangs)) return call->code = INNER_ERROR, 0;
        call->state = state();
        call->chip = card != NO_CHIP ? chip_at(call->state, card, device) : NULL;
    }
    if (fault.action == KILL_BEFORE) raise(SIGKILL);
    call->kill_after = fault.action == KILL_AFTER;
    int code = fault.action == FAIL ? fault.code : refusal(call, symbol);
    if (code == OK && card != NO_CHIP && call->chip == NULL) code = INVALID_PARAMETER;
    if (code == OK && call->chip != NULL && call->chip->lost) code = DEVICE_NOT_EXIST;
    if (code == OK) return 1;
    finish(call, code);
    return call->code = code, 0;
}

int begin_device(struct call *call, const char *symbol, int device) {
    const struct state *now = state();
    for (unsigned i = 0; now != NULL && i < now->chips; i++)
        if ((int)now->chip[i].logic == device)
            return begin(call, symbol, (int)now->chip[i].card, (int)now->chip[i].device);
    return begin(call, symbol, NO_SUCH_CARD, 0);
}

int finish(struct call *call, int code) {
    if (call->kill_after) raise(SIGKILL);
    statefile_unlock();
    return code;
}
