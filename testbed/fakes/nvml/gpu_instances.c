/* MIG mode and GPU instances, with the rules of the MIG User Guide.
 *
 * An instance needs a placement of its profile, free memory slices, compute slices, engines (as many as the
 * largest profile has) and one of the profile's `most` instances. Whatever is missing, the answer is the same.
 */
#include <stdio.h>
#include <string.h>

#include "call.h"

EXPORT int nvmlDeviceGetMigMode(handle device, unsigned *current, unsigned *pending) {
    BEGIN(device, ON(GPU_KIND));
    if (!call.gpu->capable) DONE(NOT_SUPPORTED);
    *current = call.gpu->mode;
    *pending = call.gpu->pending;
    DONE(SUCCESS);
}

static int any_instance(const struct gpu *gpu) {
    for (int i = 0; i < INSTANCES; i++)
        if (gpu->instance[i].used) return 1;
    return 0;
}

static int any_process(const struct gpu *gpu) {
    for (int i = 0; i < PROCESSES; i++)
        if (gpu->pids[i]) return 1;
    return 0;
}

/* Binding a GPU anew frees its minor and takes the lowest free one (open-gpu-kernel-modules 595.45.04,
 * kernel-open/nvidia/nv.c: nv_linux_minor_bitmap). nvml.h:12755: the mode's change may do so, on which GPUs it does not say. */
static void bind_anew(const struct call *call) {
    if (call->gpu->keeps_minor) return;
    uint32_t minor = 0;
    for (unsigned i = 0; i < call->state->gpus; i++) {
        const struct gpu *other = &call->state->gpu[i];
        if (other != call->gpu && other->minor == minor) minor++, i = -1u;
    }
    call->gpu->minor = minor;
}

/* The call itself succeeds; whether the mode is active now is in *activation. */
EXPORT int nvmlDeviceSetMigMode(handle device, unsigned mode, unsigned *activation) {
    BEGIN(device, ON(GPU_KIND));
    /* A guest does not switch what its host has cut (dra-driver-nvidia-gpu 95932046, nvlib.go:1517 refuses to try). */
    if (!call.gpu->capable || call.gpu->virtualization == VGPU) DONE(NOT_SUPPORTED);
    if (mode > 1) DONE(INVALID_ARGUMENT);
    *activation = SUCCESS;
    if (mode == call.gpu->mode) {
        call.gpu->pending = mode;
    } else if (any_instance(call.gpu) || any_process(call.gpu)) {
        /* It stays pending all the same (MIG User Guide, "Enable MIG mode": "in pending enable state ... In use"). */
        call.gpu->pending = mode;
        *activation = IN_USE;
    } else if (call.gpu->architecture < HOPPER || call.gpu->virtualization == PASSTHROUGH) {
        /* The second: nvml.h:12758, "certain platforms like pass-through virtualization". */
        call.gpu->pending = mode;
        *activation = RESET_REQUIRED;
    } else {
        call.gpu->pending = mode;
        call.gpu->mode = mode;
        bind_anew(&call);
    }
    DONE(SUCCESS);
}

struct profile_info {
    unsigned id, peer_to_peer, slices, instances, multiprocessors, copy, decode, encode, jpeg, ofa;
    unsigned long long memory_mb;
};

struct profile_info_v2 {
    unsigned version, id, peer_to_peer, slices, instances, multiprocessors, copy, decode, encode, jpeg, ofa;
    unsigned long long memory_mb;
    char name[96];
};

enum { PROFILE_INFO_V2 = 0x02000098 };

static const struct profile *by_id(const struct gpu *gpu, unsigned id) {
    for (unsigned i = 0; i < gpu->profiles; i++)
        if (gpu->profile[i].id == id) return &gpu->profile[i];
    return NULL;
}

static const struct profile *by_constant(const struct gpu *gpu, unsigned constant) {
    for (unsigned i = 0; i < gpu->profiles; i++)
        if (gpu->profile[i].constant == constant) return &gpu->profile[i];
    return NULL;
}

/* nvml.h:12855 NOT_SUPPORTED "if device doesn't have MIG mode enabled"; the query without a version has no such limit
 * (12815). */
static int fill_v2(const struct call *call, const struct profile *found, struct profile_info_v2 *out) {
    if (found == NULL || !(call->gpu->mode || call->state->versioned_anytime)) return NOT_SUPPORTED;
    if (out->version != PROFILE_INFO_V2) return ARGUMENT_VERSION_MISMATCH;
    const uint32_t *engines = found->engines;
    *out = (struct profile_info_v2){PROFILE_INFO_V2, found->id, 0, found->slices, found->most, found->multiprocessors,
                                    engines[0], engines[1], engines[2], engines[3], engines[4], found->memory_mb, ""};
    snprintf(out->name, sizeof out->name, "MIG %s", found->name);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfo(handle device, unsigned constant, struct profile_info *out) {
    BEGIN(device, ON(GPU_KIND));
    if (call.gpu->capable == IN_MIG_MODE && !call.gpu->mode) DONE(NOT_SUPPORTED);
    if (constant >= PROFILES) DONE(INVALID_ARGUMENT);
    const struct profile *found = by_constant(call.gpu, constant);
    if (found == NULL) DONE(NOT_SUPPORTED);
    const uint32_t *engines = found->engines;
    *out = (struct profile_info){found->id, 0, found->slices, found->most, found->multiprocessors, engines[0],
                                 engines[1], engines[2], engines[3], engines[4], found->memory_mb};
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfoV(handle device, unsigned constant, struct profile_info_v2 *out) {
    BEGIN(device, ON(GPU_KIND));
    if (call.gpu->capable == IN_MIG_MODE && !call.gpu->mode) DONE(NOT_SUPPORTED);
    if (constant >= PROFILES) DONE(INVALID_ARGUMENT);
    DONE(fill_v2(&call, by_constant(call.gpu, constant), out));
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfoByIdV(handle device, unsigned id, struct profile_info_v2 *out) {
    BEGIN(device, ON(GPU_KIND));
    DONE(fill_v2(&call, by_id(call.gpu, id), out));
}

struct placement {
    unsigned start, size;
};

EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements_v2(handle device, unsigned id, struct placement *out,
                                                         unsigned *count) {
    BEGIN(device, ON(GPU_KIND));
    const struct profile *found = by_id(call.gpu, id);
    if (found == NULL) DONE(NOT_SUPPORTED);
    unsigned room = *count;
    *count = found->places;
    if (out == NULL) DONE(SUCCESS);
    if (room < found->places) DONE(INSUFFICIENT_SIZE);
    for (unsigned i = 0; i < found->places; i++) out[i] = (struct placement){found->starts[i], found->size};
    DONE(SUCCESS);
}

static int admits(const struct gpu *gpu, const struct profile *wanted, unsigned start) {
    unsigned same = 0, slices = wanted->slices, engines[ENGINES], most[ENGINES] = {0};
    memcpy(engines, wanted->engines, sizeof engines);
    for (unsigned i = 0; i < gpu->profiles; i++)
        for (int e = 0; e < ENGINES; e++)
            if (gpu->profile[i].engines[e] > most[e]) most[e] = gpu->profile[i].engines[e];
    for (const struct instance *other = gpu->instance; other < gpu->instance + INSTANCES; other++) {
        if (!other->used) continue;
        if (start < other->start + other->size && other->start < start + wanted->size) return 0;
        const struct profile *has = by_id(gpu, other->profile);
        same += has == wanted;
        slices += has->slices;
        for (int e = 0; e < ENGINES; e++) engines[e] += has->engines[e];
    }
    for (int e = 0; e < ENGINES; e++)
        if (engines[e] > most[e]) return 0;
    return same < wanted->most && slices <= gpu->slices;
}

EXPORT int nvmlDeviceGetGpuInstanceRemainingCapacity(handle device, unsigned id, unsigned *count) {
    BEGIN(device, ON(GPU_KIND));
    const struct profile *found = by_id(call.gpu, id);
    if (!call.gpu->mode || found == NULL) DONE(NOT_SUPPORTED);
    /* How many more fit together: tried on a copy. */
    struct gpu copy = *call.gpu;
    *count = 0;
    for (unsigned i = 0; i < found->places; i++) {
        if (!admits(&copy, by_id(&copy, id), found->starts[i])) continue;
        for (struct instance *row = copy.instance; row < copy.instance + INSTANCES; row++) {
            if (row->used) continue;
            *row = (struct instance){.used = 1, .profile = id, .start = found->starts[i], .size = found->size};
            break;
        }
        ++*count;
    }
    DONE(SUCCESS);
}

/* Ids come from a range per size and are reused at once, as on hardware: an id is no identity. */
static unsigned free_id(const struct gpu *gpu, const struct profile *profile) {
    static const unsigned first[] = {0, 7, 3, 1, 1, 0, 0, 0, 0};
    unsigned id = first[profile->slices];
    for (int i = 0; i < INSTANCES; i++)
        if (gpu->instance[i].used && gpu->instance[i].id == id) id++, i = -1;
    return id;
}

static int create(struct call *call, const struct profile *wanted, unsigned start, handle *out) {
    if (!admits(call->gpu, wanted, start)) return INSUFFICIENT_RESOURCES;
    for (struct instance *row = call->gpu->instance; row < call->gpu->instance + INSTANCES; row++) {
        if (row->used) continue;
        memset(row, 0, sizeof *row);
        row->id = free_id(call->gpu, wanted);
        row->profile = wanted->id;
        row->start = start;
        row->size = wanted->size;
        row->serial = next_serial(call);
        *out = row_handle(call, INSTANCE_KIND, row->serial);
        COMMIT(row);
        return SUCCESS;
    }
    return INSUFFICIENT_RESOURCES;
}

EXPORT int nvmlDeviceCreateGpuInstanceWithPlacement(handle device, unsigned id, const struct placement *placement,
                                                    handle *out) {
    BEGIN(device, ON(GPU_KIND));
    const struct profile *found = by_id(call.gpu, id);
    if (!call.gpu->mode || found == NULL) DONE(NOT_SUPPORTED);
    if (placement->size != found->size) DONE(INVALID_ARGUMENT);
    for (unsigned i = 0; i < found->places; i++)
        if (found->starts[i] == placement->start) DONE(create(&call, found, placement->start, out));
    DONE(INVALID_ARGUMENT);
}

EXPORT int nvmlDeviceCreateGpuInstance(handle device, unsigned id, handle *out) {
    BEGIN(device, ON(GPU_KIND));
    const struct profile *found = by_id(call.gpu, id);
    if (!call.gpu->mode || found == NULL) DONE(NOT_SUPPORTED);
    /* From the end, so that the order of creations matters as the MIG User Guide shows (19,19,14,9 fails, 9 first works). */
    for (unsigned i = found->places; i-- > 0;)
        if (create(&call, found, found->starts[i], out) == SUCCESS) DONE(SUCCESS);
    DONE(INSUFFICIENT_RESOURCES);
}

EXPORT int nvmlDeviceGetGpuInstances(handle device, unsigned id, handle *out, unsigned *count) {
    BEGIN(device, ON(GPU_KIND));
    /* Without MIG mode there are none. source: an H200 with driver 580.159.04 (real-card report). */
    if (by_id(call.gpu, id) == NULL) DONE(NOT_SUPPORTED);
    /* The interface knows no size of the list: callers bring room for `instanceCount` rows. */
    *count = 0;
    for (int i = 0; i < INSTANCES; i++)
        if (call.gpu->instance[i].used && call.gpu->instance[i].profile == id)
            out[(*count)++] = row_handle(&call, INSTANCE_KIND, call.gpu->instance[i].serial);
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetGpuInstanceById(handle device, unsigned id, handle *out) {
    BEGIN(device, ON(GPU_KIND));
    for (int i = 0; i < INSTANCES; i++) {
        *out = row_handle(&call, INSTANCE_KIND, call.gpu->instance[i].serial);
        if (call.gpu->instance[i].used && call.gpu->instance[i].id == id) DONE(SUCCESS);
    }
    DONE(NOT_FOUND);
}

struct instance_info {
    handle device;
    unsigned id, profile;
    struct placement placement;
};

EXPORT int nvmlGpuInstanceGetInfo(handle instance, struct instance_info *out) {
    BEGIN(instance, ON(INSTANCE_KIND));
    const struct instance *row = call.instance;
    *out = (struct instance_info){gpu_handle(&call, call.gpu), row->id, row->profile, {row->start, row->size}};
    DONE(SUCCESS);
}

EXPORT int nvmlGpuInstanceDestroy(handle instance) {
    BEGIN(instance, ON(INSTANCE_KIND));
    for (int i = 0; i < COMPUTES; i++)
        if (call.instance->computes[i].used) DONE(IN_USE);
    REMOVE(call.instance);
    DONE(SUCCESS);
}
