/* System and GPUs: enumeration, identity, topology, health. */
#include <stdio.h>
#include <string.h>

#include "call.h"

static const struct {
    int code;
    const char *text;
} errors[] = {
    {SUCCESS, "Success"},
    {UNINITIALIZED, "Uninitialized"},
    {INVALID_ARGUMENT, "Invalid Argument"},
    {NOT_SUPPORTED, "Not Supported"},
    {4, "Insufficient Permissions"},
    {NOT_FOUND, "Not Found"},
    {INSUFFICIENT_SIZE, "Insufficient Size"},
    {DRIVER_NOT_LOADED, "Driver Not Loaded"},
    {TIMEOUT, "Timeout"},
    {GPU_IS_LOST, "GPU is lost"},
    {17, "The operating system has blocked the request"},
    {RESET_REQUIRED, "GPU requires reset"},
    {LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch"},
    {IN_USE, "In use by another client"},
    {INSUFFICIENT_RESOURCES, "Insufficient Resources"},
    {ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"},
};

EXPORT const char *nvmlErrorString(int code) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) return errors[i].text;
    return "Unknown Error";
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned length) {
    BEGIN(0, 0);
    DONE(text_out(out, length, call.state->driver));
}

EXPORT int nvmlSystemGetNVMLVersion(char *out, unsigned length) {
    BEGIN(0, 0);
    char text[80];
    snprintf(text, sizeof text, "%u.%s", call.state->cuda / 1000, call.state->driver);
    DONE(text_out(out, length, text));
}

EXPORT int nvmlSystemGetCudaDriverVersion(int *version) {
    BEGIN(0, 0);
    *version = (int)call.state->cuda;
    DONE(SUCCESS);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }

/* How many GPUs that are there have a lower PCI address: an index is a position in that order, and no identity (nvml.h at
 * nvmlDeviceGetHandleByIndex). GPUs leave the list without a reboot (NVIDIA/NVSentinel #684). source: none, as to an open
 * session: here it sees them leave at once. */
static unsigned index_of(const struct state *state, const struct gpu *gpu) {
    unsigned lower = 0;
    for (const struct gpu *other = state->gpu; other < state->gpu + state->gpus; other++)
        lower += !other->gone && strcmp(other->bus, gpu->bus) < 0;
    return lower;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count) {
    BEGIN(0, 0);
    *count = 0;
    for (unsigned i = 0; i < call.state->gpus; i++) *count += !call.state->gpu[i].gone;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *device) {
    BEGIN(0, 0);
    for (struct gpu *gpu = call.state->gpu; gpu < call.state->gpu + call.state->gpus; gpu++) {
        if (gpu->gone || index_of(call.state, gpu) != index) continue;
        *device = gpu_handle(&call, gpu);
        DONE(gpu->lost ? GPU_IS_LOST : SUCCESS);
    }
    DONE(INVALID_ARGUMENT);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, handle *device) {
    BEGIN(0, 0);
    for (call.gpu = call.state->gpu; call.gpu < call.state->gpu + call.state->gpus; call.gpu++) {
        if (call.gpu->gone) continue;
        *device = gpu_handle(&call, call.gpu);
        if (strcmp(call.gpu->uuid, uuid) == 0) DONE(call.gpu->lost ? GPU_IS_LOST : SUCCESS);
        for (struct instance *found = call.gpu->instance; found < call.gpu->instance + INSTANCES; found++)
            for (struct compute *row = found->computes; found->used && row < found->computes + COMPUTES; row++) {
                *device = row_handle(&call, MIG_KIND, row->serial);
                if (row->used && strcmp(row->uuid, uuid) == 0) DONE(SUCCESS);
            }
    }
    DONE(NOT_FOUND);
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, handle *device) {
    BEGIN(0, 0);
    unsigned wanted[4], own[4];
    if (sscanf(bus, "%x:%x:%x.%x", wanted, wanted + 1, wanted + 2, wanted + 3) != 4) DONE(INVALID_ARGUMENT);
    for (struct gpu *gpu = call.state->gpu; gpu < call.state->gpu + call.state->gpus; gpu++) {
        if (gpu->gone) continue;
        sscanf(gpu->bus, "%x:%x:%x.%x", own, own + 1, own + 2, own + 3);
        *device = gpu_handle(&call, gpu);
        if (memcmp(wanted, own, sizeof own) == 0) DONE(gpu->lost ? GPU_IS_LOST : SUCCESS);
    }
    DONE(NOT_FOUND);
}

EXPORT int nvmlDeviceGetIndex(handle device, unsigned *index) {
    BEGIN(device, ON(GPU_KIND));
    *index = index_of(call.state, call.gpu);
    DONE(SUCCESS);
}

static const struct profile *profile_of(const struct call *call) {
    for (unsigned i = 0; i < call->gpu->profiles; i++)
        if (call->gpu->profile[i].id == call->instance->profile) return &call->gpu->profile[i];
    return NULL;
}

EXPORT int nvmlDeviceGetName(handle device, char *out, unsigned length) {
    BEGIN(device, ANY_DEVICE);
    char text[160];
    snprintf(text, sizeof text, "%s", call.gpu->name);
    if (call.compute) snprintf(text, sizeof text, "%s MIG %s", call.gpu->name, profile_of(&call)->name);
    DONE(text_out(out, length, text));
}

EXPORT int nvmlDeviceGetUUID(handle device, char *out, unsigned length) {
    BEGIN(device, ANY_DEVICE);
    DONE(text_out(out, length, call.compute ? call.compute->uuid : call.gpu->uuid));
}

EXPORT int nvmlDeviceGetBrand(handle device, unsigned *brand) {
    BEGIN(device, ON(GPU_KIND));
    *brand = call.gpu->brand;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetMinorNumber(handle device, unsigned *minor) {
    BEGIN(device, ON(GPU_KIND));
    *minor = call.gpu->minor;
    DONE(SUCCESS);
}

struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, pci_device, subsystem;
    char id[32];
};

static void pci_out(struct pci_info *out, const char *bus, unsigned pci_device) {
    memset(out, 0, sizeof *out);
    unsigned function = 0;
    sscanf(bus, "%x:%x:%x.%x", &out->domain, &out->bus, &out->device, &function);
    out->pci_device = pci_device;
    /* As the real library writes it: eight digits of domain, capitals. */
    snprintf(out->id, sizeof out->id, "%08X:%02X:%02X.%X", out->domain, out->bus, out->device, function);
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.%X", out->domain & 0xffff, out->bus & 0xff,
             out->device & 0xff, function & 0xf);
}

EXPORT int nvmlDeviceGetPciInfo_v3(handle device, struct pci_info *out) {
    BEGIN(device, ON(GPU_KIND));
    pci_out(out, call.gpu->bus, call.gpu->pci_device);
    DONE(SUCCESS);
}

struct memory {
    unsigned long long total, free, used;
};

EXPORT int nvmlDeviceGetMemoryInfo(handle device, struct memory *out) {
    BEGIN(device, ANY_DEVICE);
    uint64_t total = call.compute ? profile_of(&call)->memory_mb << 20 : call.gpu->memory;
    /* A GPU without memory of its own (GB10): kubernetes-sigs/dra-driver-nvidia-gpu issues 1073 and 1115. */
    if (total == 0) DONE(NOT_SUPPORTED);
    *out = (struct memory){total, total, 0};
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetArchitecture(handle device, unsigned *architecture) {
    BEGIN(device, ON(GPU_KIND));
    *architecture = call.gpu->architecture;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetCudaComputeCapability(handle device, int *major, int *minor) {
    BEGIN(device, ANY_DEVICE);
    *major = (int)call.gpu->cuda_major;
    *minor = (int)call.gpu->cuda_minor;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetVirtualizationMode(handle device, unsigned *mode) {
    BEGIN(device, ON(GPU_KIND));
    *mode = call.gpu->virtualization;
    DONE(SUCCESS);
}

struct addressing_mode {
    unsigned version, value;
};

EXPORT int nvmlDeviceGetAddressingMode(handle device, struct addressing_mode *out) {
    BEGIN(device, ON(GPU_KIND));
    out->value = 0; /* NONE: neither HMM nor ATS */
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetComputeMode(handle device, unsigned *mode) {
    BEGIN(device, ON(GPU_KIND));
    *mode = call.gpu->compute_mode;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceSetComputeMode(handle device, unsigned mode) {
    BEGIN(device, ON(GPU_KIND));
    /* nvmlComputeMode_t: EXCLUSIVE_THREAD (1) was removed. source: none, as to its code. */
    if (mode > 3 || mode == 1) DONE(INVALID_ARGUMENT);
    call.gpu->compute_mode = mode;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetNumaNodeId(handle device, unsigned *node) {
    BEGIN(device, ON(GPU_KIND));
    if (call.gpu->numa < 0) DONE(NOT_SUPPORTED);
    *node = (unsigned)call.gpu->numa;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetEccMode(handle device, unsigned *current, unsigned *pending) {
    BEGIN(device, ON(GPU_KIND));
    *current = *pending = 1;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetTotalEccErrors(handle device, unsigned type, unsigned counter, unsigned long long *count) {
    BEGIN(device, ON(GPU_KIND));
    (void)counter;
    *count = type == 1 ? call.gpu->ecc : 0; /* 1: uncorrected */
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(handle device, unsigned *count, void *out) {
    BEGIN(device, ANY_DEVICE);
    if (call.compute) DONE(pids_out(&call, call.compute->pids, count, out, call.instance->id, call.compute->id));
    DONE(pids_out(&call, call.gpu->pids, count, out, UINT32_MAX, UINT32_MAX));
}

/* Nothing is there, or the GPU has fewer: the answer is the same. source: an H200 with driver 580.159.04 (real-card report). */
static int no_link(const struct call *call, unsigned link) {
    return link >= LINKS || call->gpu->link[link].remote_bus[0] == 0;
}

EXPORT int nvmlDeviceGetNvLinkState(handle device, unsigned link, unsigned *active) {
    BEGIN(device, ON(GPU_KIND));
    if (no_link(&call, link)) DONE(NOT_SUPPORTED);
    *active = call.gpu->link[link].active;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(handle device, unsigned link, struct pci_info *out) {
    BEGIN(device, ON(GPU_KIND));
    if (no_link(&call, link)) DONE(NOT_SUPPORTED);
    pci_out(out, call.gpu->link[link].remote_bus, 0);
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(handle device, unsigned link, unsigned *type) {
    BEGIN(device, ON(GPU_KIND));
    if (no_link(&call, link)) DONE(NOT_SUPPORTED);
    *type = call.gpu->link[link].remote_type;
    DONE(SUCCESS);
}

struct fabric_info { /* nvmlGpuFabricInfo_v2_t, to which version 3 adds a byte; its ids are made of the size */
    unsigned version;
    unsigned char cluster[16];
    unsigned status, clique;
    unsigned char state;
    unsigned health;
};
enum { FABRIC_V2 = 0x02000024, FABRIC_V3 = 0x03000028 };

/* nvml.h:7833: "For Hopper or newer"; status "must be checked only if state returns complete" (nvml.h:3816). */
EXPORT int nvmlDeviceGetGpuFabricInfoV(handle device, struct fabric_info *out) {
    BEGIN(device, ON(GPU_KIND));
    if (call.gpu->architecture < HOPPER) DONE(NOT_SUPPORTED);
    if (out->version != FABRIC_V2 && out->version != FABRIC_V3) DONE(ARGUMENT_VERSION_MISMATCH);
    memcpy(out->cluster, call.gpu->cluster, sizeof out->cluster);
    out->status = call.gpu->fabric_status;
    out->clique = call.gpu->clique;
    out->state = (unsigned char)call.gpu->fabric_state;
    out->health = call.gpu->fabric_health;
    DONE(SUCCESS);
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(handle device, handle other, unsigned *level) {
    BEGIN(device, ON(GPU_KIND));
    unsigned index = (other >> 48) & 0xff;
    if (other >> 56 != GPU_KIND || index >= call.state->gpus) DONE(INVALID_ARGUMENT);
    const struct gpu *there = &call.state->gpu[index];
    /* INTERNAL, NODE (same NUMA node), SYSTEM */
    *level = there == call.gpu ? 0 : there->numa == call.gpu->numa ? 40 : 50;
    DONE(SUCCESS);
}
