/* One call of the interface: from a handle to the rows it means, under the lock, with the faults that were asked for. */
#ifndef FAKE_NVML_CALL_H
#define FAKE_NVML_CALL_H

#include <stddef.h>

#include "state.h"

/* nvmlReturn_t */
enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    RESET_REQUIRED = 16,
    LIB_RM_VERSION_MISMATCH = 18, /* nvml.h: "RM detects a driver/library version mismatch" */
    IN_USE = 19,
    INSUFFICIENT_RESOURCES = 23,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

enum { AMPERE = 7, HOPPER = 9 };
enum { PASSTHROUGH = 1, VGPU = 2 }; /* nvmlGpuVirtualizationMode_t */

typedef uint64_t handle; /* opaque to callers: kind, GPU and serial number in one word */
enum { NO_KIND, GPU_KIND, INSTANCE_KIND, COMPUTE_KIND, MIG_KIND };

struct call {
    int code;
    int kill_after;
    struct state *state;
    struct gpu *gpu;           /* NULL for calls without a handle */
    struct instance *instance; /* of GPU instance, compute instance and MIG device handles */
    struct compute *compute;   /* of compute instance and MIG device handles */
};

/* Begin a call on a handle that must be one of `kinds` (a bit per kind; 0: no handle). Returns 0 if it is refused. */
int begin(struct call *call, const char *symbol, handle device, unsigned kinds);

/* End a call; returns `code`. */
int finish(struct call *call, int code);

/* Let go of the lock for a while, for waits. Returns 0 if the call ended meanwhile. */
int pause_call(struct call *call, unsigned milliseconds);

handle gpu_handle(const struct call *call, const struct gpu *gpu);
handle row_handle(const struct call *call, unsigned kind, uint64_t serial);

/* Copy a text; INSUFFICIENT_SIZE if it does not fit. */
int text_out(char *out, unsigned length, const char *text);

/* Give a list the NVML way: *count is the room on entry, the number on return. */
int pids_out(const struct call *call, const uint32_t *pids, unsigned *count, void *out, uint32_t instance, uint32_t compute);

/* Another number for every session of this process: event sets die with theirs. */
unsigned session_epoch(void);

/* Count the event sets of this session to which events go; `more` is 1 or -1. */
void listens(int more);

uint64_t next_serial(struct call *call);
void random_uuid(char *out, size_t length, const char *prefix);

#define BEGIN(device, kinds)                                  \
    struct call call;                                         \
    if (!begin(&call, __func__, (device), (kinds))) return call.code
#define DONE(code) return finish(&call, (code))
#define ON(kind) (1u << (kind))
#define ANY_DEVICE (ON(GPU_KIND) | ON(MIG_KIND))

#endif
