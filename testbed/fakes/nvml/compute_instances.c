/* Compute instances, and the MIG devices that they appear as. A GPU instance without one appears nowhere. */
#include <stdio.h>
#include <string.h>

#include "call.h"

static const unsigned slices_of[] = {1, 2, 3, 4, 7}; /* by NVML_COMPUTE_INSTANCE_PROFILE_* */
enum { COMPUTE_PROFILES = 5, COMPUTE_PROFILE_COUNT = 9, COMPUTE_INFO_V2 = 0x02000088 };

static const struct profile *profile_of(const struct call *call) {
    for (unsigned i = 0; i < call->gpu->profiles; i++)
        if (call->gpu->profile[i].id == call->instance->profile) return &call->gpu->profile[i];
    return NULL;
}

static int offered(const struct call *call, unsigned constant) {
    return constant < COMPUTE_PROFILES && slices_of[constant] <= profile_of(call)->slices;
}

struct compute_info {
    unsigned id, slices, instances, multiprocessors, copy, decode, encode, jpeg, ofa;
};

struct compute_info_v2 {
    unsigned version;
    struct compute_info info;
    char name[96];
};

static struct compute_info info_of(const struct call *call, unsigned constant) {
    const struct profile *parent = profile_of(call);
    unsigned slices = slices_of[constant];
    const uint32_t *engines = parent->engines;
    return (struct compute_info){constant, slices, parent->slices / slices,
                                 parent->multiprocessors * slices / parent->slices, engines[0], engines[1], engines[2],
                                 engines[3], engines[4]};
}

EXPORT int nvmlGpuInstanceGetComputeInstanceProfileInfo(handle instance, unsigned constant, unsigned engines,
                                                        struct compute_info *out) {
    BEGIN(instance, ON(INSTANCE_KIND));
    if (constant >= COMPUTE_PROFILE_COUNT || engines != 0) DONE(INVALID_ARGUMENT);
    if (!offered(&call, constant)) DONE(NOT_SUPPORTED);
    *out = info_of(&call, constant);
    DONE(SUCCESS);
}

EXPORT int nvmlGpuInstanceGetComputeInstanceProfileInfoV(handle instance, unsigned constant, unsigned engines,
                                                         struct compute_info_v2 *out) {
    BEGIN(instance, ON(INSTANCE_KIND));
    if (constant >= COMPUTE_PROFILE_COUNT || engines != 0) DONE(INVALID_ARGUMENT);
    if (!offered(&call, constant)) DONE(NOT_SUPPORTED);
    if (out->version != COMPUTE_INFO_V2) DONE(ARGUMENT_VERSION_MISMATCH);
    out->info = info_of(&call, constant);
    const char *parent = profile_of(&call)->name;
    if (slices_of[constant] == profile_of(&call)->slices)
        snprintf(out->name, sizeof out->name, "MIG %s", parent);
    else
        snprintf(out->name, sizeof out->name, "MIG %uc.%s", slices_of[constant], parent);
    DONE(SUCCESS);
}

/* Returns the first start at which so many compute slices are free, -1 for none. */
static int free_start(const struct call *call, unsigned slices) {
    for (unsigned start = 0; start + slices <= profile_of(call)->slices; start++) {
        int free = 1;
        for (const struct compute *row = call->instance->computes; row < call->instance->computes + COMPUTES; row++)
            if (row->used && start < row->start + row->slices && row->start < start + slices) free = 0;
        if (free) return (int)start;
    }
    return -1;
}

EXPORT int nvmlGpuInstanceGetComputeInstanceRemainingCapacity(handle instance, unsigned id, unsigned *count) {
    BEGIN(instance, ON(INSTANCE_KIND));
    if (!offered(&call, id)) DONE(NOT_SUPPORTED);
    unsigned taken = 0;
    for (int i = 0; i < COMPUTES; i++)
        if (call.instance->computes[i].used) taken += call.instance->computes[i].slices;
    *count = (profile_of(&call)->slices - taken) / slices_of[id];
    DONE(SUCCESS);
}

/* MIG devices keep their index while they live; others' indices are not moved, so the list has holes. */
static unsigned free_index(const struct gpu *gpu) {
    for (unsigned index = 0;; index++) {
        int free = 1;
        for (const struct instance *found = gpu->instance; found < gpu->instance + INSTANCES; found++)
            for (const struct compute *row = found->computes; found->used && row < found->computes + COMPUTES; row++)
                if (row->used && row->mig_index == index) free = 0;
        if (free) return index;
    }
}

EXPORT int nvmlGpuInstanceCreateComputeInstance(handle instance, unsigned id, handle *out) {
    BEGIN(instance, ON(INSTANCE_KIND));
    if (!offered(&call, id)) DONE(NOT_SUPPORTED);
    int start = free_start(&call, slices_of[id]);
    if (start < 0) DONE(INSUFFICIENT_RESOURCES);
    for (unsigned i = 0; i < COMPUTES; i++) {
        struct compute *row = &call.instance->computes[i];
        if (row->used) continue;
        memset(row, 0, sizeof *row);
        row->id = i;
        row->slices = slices_of[id];
        row->start = (unsigned)start;
        row->mig_index = free_index(call.gpu);
        row->serial = next_serial(&call);
        random_uuid(row->uuid, sizeof row->uuid, "MIG");
        *out = row_handle(&call, COMPUTE_KIND, row->serial);
        COMMIT(row);
        DONE(SUCCESS);
    }
    DONE(INSUFFICIENT_RESOURCES);
}

static unsigned constant_of(const struct compute *row) {
    for (unsigned i = 0; i < COMPUTE_PROFILES; i++)
        if (slices_of[i] == row->slices) return i;
    return COMPUTE_PROFILE_COUNT;
}

EXPORT int nvmlGpuInstanceGetComputeInstances(handle instance, unsigned id, handle *out, unsigned *count) {
    BEGIN(instance, ON(INSTANCE_KIND));
    if (!offered(&call, id)) DONE(NOT_SUPPORTED);
    *count = 0;
    for (int i = 0; i < COMPUTES; i++)
        if (call.instance->computes[i].used && constant_of(&call.instance->computes[i]) == id)
            out[(*count)++] = row_handle(&call, COMPUTE_KIND, call.instance->computes[i].serial);
    DONE(SUCCESS);
}

EXPORT int nvmlGpuInstanceGetComputeInstanceById(handle instance, unsigned id, handle *out) {
    BEGIN(instance, ON(INSTANCE_KIND));
    if (id >= COMPUTES || !call.instance->computes[id].used) DONE(NOT_FOUND);
    *out = row_handle(&call, COMPUTE_KIND, call.instance->computes[id].serial);
    DONE(SUCCESS);
}

struct compute_instance_info {
    handle device, instance;
    unsigned id, profile, start, size;
};

EXPORT int nvmlComputeInstanceGetInfo_v2(handle compute, struct compute_instance_info *out) {
    BEGIN(compute, ON(COMPUTE_KIND));
    const struct compute *row = call.compute;
    *out = (struct compute_instance_info){row_handle(&call, MIG_KIND, row->serial),
                                          row_handle(&call, INSTANCE_KIND, call.instance->serial),
                                          row->id,
                                          constant_of(row),
                                          row->start,
                                          row->slices};
    DONE(SUCCESS);
}

EXPORT int nvmlComputeInstanceDestroy(handle compute) {
    BEGIN(compute, ON(COMPUTE_KIND));
    for (int i = 0; i < PROCESSES; i++)
        if (call.compute->pids[i]) DONE(IN_USE);
    REMOVE(call.compute);
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceIsMigDeviceHandle(handle device, unsigned *is) {
    BEGIN(device, ANY_DEVICE);
    *is = call.compute != NULL;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(handle device, unsigned *count) {
    BEGIN(device, ON(GPU_KIND));
    *count = call.gpu->mode ? call.gpu->slices : 0;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(handle device, unsigned index, handle *out) {
    BEGIN(device, ON(GPU_KIND));
    if (index >= call.gpu->slices) DONE(INVALID_ARGUMENT);
    for (const struct instance *found = call.gpu->instance; found < call.gpu->instance + INSTANCES; found++)
        for (const struct compute *row = found->computes; found->used && row < found->computes + COMPUTES; row++) {
            *out = row_handle(&call, MIG_KIND, row->serial);
            if (row->used && row->mig_index == index) DONE(SUCCESS);
        }
    DONE(NOT_FOUND);
}

EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle device, handle *out) {
    BEGIN(device, ON(MIG_KIND));
    *out = gpu_handle(&call, call.gpu);
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetGpuInstanceId(handle device, unsigned *id) {
    BEGIN(device, ON(MIG_KIND));
    *id = call.instance->id;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetComputeInstanceId(handle device, unsigned *id) {
    BEGIN(device, ON(MIG_KIND));
    *id = call.compute->id;
    DONE(SUCCESS);
}

struct attributes {
    unsigned multiprocessors, copy, decode, encode, jpeg, ofa, instance_slices, compute_slices;
    unsigned long long memory_mb;
};

EXPORT int nvmlDeviceGetAttributes_v2(handle device, struct attributes *out) {
    BEGIN(device, ON(MIG_KIND));
    const struct profile *parent = profile_of(&call);
    struct compute_info info = info_of(&call, constant_of(call.compute));
    *out = (struct attributes){info.multiprocessors, info.copy,          info.decode,          info.encode,      info.jpeg,
                               info.ofa,             parent->slices, call.compute->slices, parent->memory_mb};
    DONE(SUCCESS);
}
