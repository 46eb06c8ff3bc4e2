/* The state of the fake driver: one file, mapped by every process, changed under flock.
 *
 * testbed/fakes/dcmi/layout.py mirrors this layout; `size` in the header keeps both honest. Whatever has a `used` field
 * exists from the moment that it is set, and it is set last: a process killed in the middle leaves no half-written row.
 */
#ifndef FAKE_DCMI_STATE_H
#define FAKE_DCMI_STATE_H

#include <stdint.h>

#include "statefile.h"

enum {
    MAGIC = 0x494d4344,
    LAYOUT = 2,
    CHIPS = 16,
    TEMPLATES = 12,
    VDEVICES = 32, /* DCMI_SOC_SPLIT_MAX */
    EVENTS = 8,
    ANSWERS = 64,
};

enum family { B310, P310, A910, B910, C910, A950 };

/* Who calls, and from where; virtual machines are left out. */
enum place { HOST, PRIVILEGED, CONTAINER, NOT_ROOT, PLACES };

/* What a call answers a place before it looks at anything else (permissions.py has the rows and their sources). */
struct answer {
    char symbol[64]; /* "dcmi_*": every one that begins so */
    uint32_t family;
    int32_t code[PLACES];
};

struct amounts {
    uint32_t aicore, aicpu, vpc, vdec, venc, jpegd, jpege, unused;
    uint64_t memory; /* MiB */
};

struct template {
    char name[32];
    struct amounts amounts;
};

struct vdevice {
    uint32_t used, id, template, group, in_use;
    uint32_t saved; /* in the host's recovery file, also after the vNPU has gone: see recovery.h */
    uint64_t serial, container;
};

struct event {
    uint32_t used, id;
};

struct chip {
    uint32_t family, card, device, logic, phy, board, lost, health;
    uint32_t sriov;  /* 910B: on while the chip is split */
    uint32_t aicpus; /* that a whole chip shows; splitting turns data CPUs into more */
    uint32_t most, first_id, ids, next_id;
    uint32_t templates, groups;
    int32_t domain, numa;
    uint32_t bus, slot, function, unused;
    uint32_t die[5], die_n[5];
    uint32_t sdid, pod_size, pod, server, chassis, pod_type;
    char name[32], npu_name[32];
    struct amounts total;
    struct template template[TEMPLATES];
    struct vdevice vdevice[VDEVICES];
    struct event event[EVENTS];
};

struct state {
    struct header header;
    uint32_t chips;
    uint32_t mode;      /* 0: containers, 1: virtual machines */
    uint32_t recover;   /* the host's vnpu.cfg: vNPUs in it are made again at boot */
    uint32_t own_recover; /* the same switch in a container's own vnpu.cfg, which no boot reads */
    uint32_t mounted;   /* containers have the host's vnpu.cfg */
    uint32_t smp;       /* 910A: the work mode that refuses every vNPU */
    uint32_t place;     /* of the caller */
    uint32_t answers;
    uint64_t next_serial;
    char driver[64];
    char recovery[256];           /* path of vnpu.cfg; empty: none is kept */
    uint8_t link[CHIPS][CHIPS];   /* DCMI_TOPO_TYPE_* by index */
    struct answer answer[ANSWERS];
    struct chip chip[CHIPS];
};

#endif
