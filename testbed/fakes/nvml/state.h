/* The state of the fake driver: one file, mapped by every process, changed under flock.
 *
 * testbed/fakes/nvml/layout.py mirrors this layout; `size` in the header keeps both honest. Whatever has a `used` field
 * exists from the moment that it is set, and it is set last: a process killed in the middle leaves no half-written row.
 */
#ifndef FAKE_NVML_STATE_H
#define FAKE_NVML_STATE_H

#include <stdint.h>

#include "statefile.h"

enum {
    MAGIC = 0x4c4d564e,
    LAYOUT = 7,
    GPUS = 16,
    PROFILES = 18, /* NVML_GPU_INSTANCE_PROFILE_COUNT */
    PLACES = 12,
    INSTANCES = 16,
    COMPUTES = 8,
    PROCESSES = 8,
    LINKS = 18,
    EVENTS = 64,
    ENGINES = 5, /* copy, decode, encode, jpeg, ofa */
};

struct compute {
    uint32_t used, id, slices, start, mig_index;
    uint32_t pids[PROCESSES]; /* 0: no process */
    uint32_t unused;
    uint64_t serial; /* never given twice: stale handles find nothing, though ids are reused */
    char uuid[48];
};

struct instance {
    uint32_t used, id, profile, start, size, unused;
    uint64_t serial;
    struct compute computes[COMPUTES];
};

struct profile {
    uint32_t constant, id, most, multiprocessors, slices, size, places, unused;
    uint32_t engines[ENGINES];
    uint32_t starts[PLACES];
    uint32_t unused_too;
    uint64_t memory_mb;
    char name[64];
};

struct link {
    uint32_t active, remote_type;
    char remote_bus[32];
};

enum { IN_MIG_MODE = 2 }; /* capable, and the driver names profiles only then, as those of the 535 line */

struct gpu {
    uint32_t minor, architecture, cuda_major, cuda_minor, brand, capable, mode, pending, lost;
    int32_t numa;
    uint32_t slices, profiles, pci_device;
    uint32_t pids[PROCESSES]; /* processes on the whole GPU */
    uint32_t keeps_minor; /* SetMigMode does not bind it anew */
    uint32_t gone;            /* taken from the driver (VFIO, PCI remove): it is in no list until it comes back */
    uint32_t virtualization; /* nvmlGpuVirtualizationMode_t */
    uint32_t fabric_state, fabric_status, clique, fabric_health; /* nvmlGpuFabricInfo_v3_t; state 0: no fabric */
    uint32_t compute_mode;   /* nvmlComputeMode_t */
    uint32_t time_slice;     /* as nvidia-smi compute-policy has it */
    uint32_t recovery;       /* nvmlDeviceGpuRecoveryAction_t */
    uint64_t memory, ecc;
    char name[64], uuid[48], bus[32];
    unsigned char cluster[16];
    struct profile profile[PROFILES];
    struct instance instance[INSTANCES];
    struct link link[LINKS];
};

struct event {
    uint64_t sequence; /* from 1 */
    uint64_t type, data;
    uint32_t gpu, instance, compute, unused;
};

struct state {
    struct header header;
    uint32_t gpus, cuda;
    uint32_t contained; /* callers are in a PID namespace of their own */
    uint32_t versioned_anytime; /* versioned profile queries are answered while MIG mode is off, too */
    uint64_t next_serial, next_event;
    char driver[64];
    struct gpu gpu[GPUS];
    struct event event[EVENTS];
};

#endif
