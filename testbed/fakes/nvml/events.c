/* Event sets: what a test injects (an XID) arrives at every set that registered for it after it was made; and the field that an event is about. */
#include <stdlib.h>

#include "call.h"

/* All types that NVML of driver 580 has, as an H200 says (real-card report). */
enum { XID = 8, SUPPORTED = 0xff9f, POLL_MILLISECONDS = 10 };

struct event_set {
    unsigned epoch;
    uint64_t seen;        /* sequence number of the last event given out, or of the last before the set was made */
    uint64_t types[GPUS]; /* registered types of each GPU */
    int listens;          /* whether any is registered */
};

EXPORT int nvmlEventSetCreate(struct event_set **out) {
    BEGIN(0, 0);
    *out = calloc(1, sizeof **out);
    if (*out == NULL) DONE(UNKNOWN);
    (*out)->epoch = session_epoch();
    (*out)->seen = call.state->next_event - 1;
    DONE(SUCCESS);
}

EXPORT int nvmlEventSetFree(struct event_set *set) {
    BEGIN(0, 0);
    if (set->listens && set->epoch == session_epoch()) listens(-1);
    free(set);
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetSupportedEventTypes(handle device, unsigned long long *types) {
    BEGIN(device, ON(GPU_KIND));
    *types = SUPPORTED;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceRegisterEvents(handle device, unsigned long long types, struct event_set *set) {
    BEGIN(device, ON(GPU_KIND));
    if (types & ~(unsigned long long)SUPPORTED) DONE(NOT_SUPPORTED);
    set->types[call.gpu - call.state->gpu] |= types;
    if (!set->listens && set->epoch == session_epoch()) listens(set->listens = 1);
    DONE(SUCCESS);
}

struct event_data {
    handle device;
    unsigned long long type, data;
    unsigned instance, compute;
};

/* The oldest event after `seen` that the set wants, NULL for none. */
static const struct event *next_event(const struct state *state, const struct event_set *set) {
    const struct event *oldest = NULL;
    for (const struct event *event = state->event; event < state->event + EVENTS; event++) {
        if (event->sequence <= set->seen || !(set->types[event->gpu] & event->type)) continue;
        if (oldest == NULL || event->sequence < oldest->sequence) oldest = event;
    }
    return oldest;
}

EXPORT int nvmlEventSetWait_v2(struct event_set *set, struct event_data *out, unsigned milliseconds) {
    BEGIN(0, 0);
    if (set->epoch != session_epoch()) DONE(INVALID_ARGUMENT);
    for (unsigned waited = 0;; waited += POLL_MILLISECONDS) {
        const struct event *event = next_event(call.state, set);
        if (event != NULL) {
            set->seen = event->sequence;
            *out = (struct event_data){gpu_handle(&call, &call.state->gpu[event->gpu]), event->type, event->data,
                                       event->instance, event->compute};
            DONE(SUCCESS);
        }
        if (waited >= milliseconds) DONE(TIMEOUT);
        if (!pause_call(&call, POLL_MILLISECONDS)) return call.code;
    }
}

/* nvmlFieldValue_t */
struct field_value {
    uint32_t field, scope;
    int64_t timestamp, latency;
    uint32_t type, code;
    union {
        uint32_t number;
        uint64_t all;
    } value;
};

enum { RECOVERY_ACTION = 230, UNSIGNED_INT = 1 };

/* Each field has a code of its own (nvml.h). source: none, as to that of a field that this driver does not know. */
EXPORT int nvmlDeviceGetFieldValues(handle device, int count, struct field_value *values) {
    BEGIN(device, ON(GPU_KIND));
    for (struct field_value *one = values; one < values + count; one++) {
        one->code = one->field == RECOVERY_ACTION ? SUCCESS : NOT_SUPPORTED;
        one->type = UNSIGNED_INT;
        one->value.number = call.gpu->recovery;
    }
    DONE(SUCCESS);
}
