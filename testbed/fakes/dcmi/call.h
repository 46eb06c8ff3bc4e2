/* One call of the interface: from card and device number to the chip it means, under the lock, with faults. */
#ifndef FAKE_DCMI_CALL_H
#define FAKE_DCMI_CALL_H

#include <stddef.h>

#include "state.h"

enum {
    OK = 0,
    INVALID_PARAMETER = -8001,
    NOT_PERMITTED = -8002,
    INNER_ERROR = -8005,
    TIME_OUT = -8006,
    DEVICE_NOT_EXIST = -8008,
    NOT_READY = -8012,
    FILE_FAILED = -8014,
    OCCUPIED = -8020,
    NOT_SUPPORTED = -8255,
};

enum { NO_CHIP = -1, NO_SUCH_CARD = -2, AUTO = 0xffffffff, EVERY = 0xffff };

struct call {
    int code;
    int kill_after;
    struct state *state;
    struct chip *chip; /* NULL for calls about the whole node */
};

/* Begin a call on a chip, or on none (card NO_CHIP). Returns 0 if it is refused. */
int begin(struct call *call, const char *symbol, int card, int device);
/* Begin a call of the second interface, which names a chip by its logical id alone. */
int begin_device(struct call *call, const char *symbol, int device);
/* End a call; returns `code`. */
int finish(struct call *call, int code);

struct chip *chip_at(struct state *state, int card, int device);

#define BEGIN(card, device)                                      \
    struct call call;                                            \
    if (!begin(&call, __func__, (card), (device))) return call.code
#define BEGIN_DEVICE(device)                                     \
    struct call call;                                            \
    if (!begin_device(&call, __func__, (device))) return call.code
#define DONE(code) return finish(&call, (code))

#endif
