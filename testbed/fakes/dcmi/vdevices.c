/* vNPUs: creating, removing and describing them.
 *
 * A vNPU takes what its template says, of every resource that the chip has, and on a 310P whole groups of two cores (two
 * of one core share a group). The driver gives ids in turn, so one that comes back rarely has its old number; a caller
 * may ask for one of the chip's range. Why a creation fails the interface does not say.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "recovery.h"
#include "resources.h"

enum { GROUP_CORES = 2 };

static int fits(const struct amounts *what, const struct amounts *in) {
    return what->aicore <= in->aicore && what->aicpu <= in->aicpu && what->vpc <= in->vpc && what->vdec <= in->vdec &&
           what->venc <= in->venc && what->jpegd <= in->jpegd && what->jpege <= in->jpege && what->memory <= in->memory;
}

/* The groups that a vNPU of so many cores can have, as bits; 0: none. */
static unsigned free_groups(const struct chip *chip, unsigned cores) {
    unsigned taken = 0, halves = 0, found = 0, want = (cores + GROUP_CORES - 1) / GROUP_CORES;
    for (const struct vdevice *row = chip->vdevice; row < chip->vdevice + VDEVICES; row++) {
        if (!row->used) continue;
        if (amounts_of(chip, row)->aicore == 1) halves ^= row->group;
        taken |= row->group;
    }
    if (cores == 1 && halves) return halves & -halves;
    for (unsigned i = 0; i < chip->groups && want; i++)
        if (!(taken & 1u << i)) found |= 1u << i, want--;
    return want ? 0 : found;
}

static struct vdevice *by_id(struct chip *chip, unsigned id) {
    for (struct vdevice *row = chip->vdevice; row < chip->vdevice + VDEVICES; row++)
        if (row->used && row->id == id) return row;
    return NULL;
}

static unsigned given_id(struct chip *chip) {
    for (unsigned i = 0; i < chip->ids; i++) {
        unsigned id = chip->first_id + (chip->next_id + i) % chip->ids;
        if (by_id(chip, id) != NULL) continue;
        chip->next_id = (id + 1 - chip->first_id) % chip->ids;
        return id;
    }
    return AUTO;
}

struct vdevice_request {
    unsigned id, group;
    char template[32];
    unsigned char reserved[64];
};

struct vdevice_result {
    unsigned id, bus, slot, function, group;
    unsigned char reserved[32];
};

/* That the driver refuses in the mode for virtual machines has no source: npu-smi alone asks for the mode. */
static int permitted(const struct call *call) {
    if (call->state->mode != 0) return NOT_SUPPORTED;
    return call->chip->family == A910 && call->state->smp ? NOT_SUPPORTED : OK;
}

static const struct template *named(const struct chip *chip, const char *name) {
    for (unsigned i = 0; i < chip->templates; i++)
        if (strncmp(chip->template[i].name, name, sizeof chip->template[i].name) == 0) return &chip->template[i];
    return NULL;
}

static struct vdevice *make(struct call *call, const struct template *template, unsigned id) {
    struct chip *chip = call->chip;
    unsigned groups = chip->groups ? free_groups(chip, template->amounts.aicore) : 1;
    struct amounts rest = left(chip);
    if (groups == 0 || !fits(&template->amounts, &rest) || number_of(chip) >= chip->most) return NULL;
    if (id == AUTO) id = given_id(chip);
    if (id == AUTO || by_id(chip, id) != NULL) return NULL;
    for (struct vdevice *row = chip->vdevice; row < chip->vdevice + VDEVICES; row++) {
        if (row->used || row->saved) continue;
        memset(row, 0, sizeof *row);
        row->id = id;
        row->template = (uint32_t)(template - chip->template);
        row->group = groups;
        row->serial = call->state->next_serial++;
        COMMIT(row);
        return row;
    }
    return NULL;
}

static void remove_row(struct chip *chip, struct vdevice *row) {
    REMOVE(row);
    if (number_of(chip) == 0) chip->sriov = 0;
}

/* Between the driver's part and the recovery file's, as a step with a name for faults of its own. */
static int keep(struct call *call, const char *step, unsigned id) {
    struct fault fault = take_fault(step, (int)(call->chip - call->state->chip));
    if (fault.action == KILL_BEFORE) raise(SIGKILL);
    strike(call->chip, id);
    int code = fault.action == FAIL ? fault.code : save(call->state);
    if (fault.action == KILL_AFTER) raise(SIGKILL);
    return code;
}

EXPORT int dcmi_create_vdevice(int card, int device, const struct vdevice_request *request, struct vdevice_result *out) {
    BEGIN(card, device);
    struct chip *chip = call.chip;
    int code = permitted(&call);
    if (code != OK) DONE(code);
    const struct template *template = named(chip, request->template);
    if (template == NULL) DONE(INVALID_PARAMETER);
    if (request->id != AUTO && (request->id < chip->first_id || request->id >= chip->first_id + chip->ids)) DONE(INVALID_PARAMETER);
    if (chip->family == B910) chip->sriov = 1;
    struct vdevice *row = make(&call, template, request->id);
    if (row == NULL) {
        if (number_of(chip) == 0) chip->sriov = 0;
        DONE(INNER_ERROR);
    }
    memset(out, 0xff, sizeof *out);
    out->id = row->id;
    out->group = chip->groups ? (unsigned)__builtin_ctz(row->group) : AUTO;
    if (*recover_of(call.state) && is_hosts(call.state)) {
        row->saved = 1;
        code = keep(&call, "dcmi_create_vdevice.save", row->id);
        if (code != OK) row->saved = 0, remove_row(chip, row);
    }
    DONE(code);
}

EXPORT int dcmi_set_destroy_vdevice(int card, int device, unsigned id) {
    BEGIN(card, device);
    int code = permitted(&call), found = 0;
    if (code != OK) DONE(code);
    for (struct vdevice *row = call.chip->vdevice; row < call.chip->vdevice + VDEVICES; row++) {
        if (!row->used || (row->id != id && id != EVERY)) continue;
        if (row->in_use) DONE(OCCUPIED);
        remove_row(call.chip, row);
        found = 1;
    }
    if (found && *recover_of(call.state) && is_hosts(call.state)) code = keep(&call, "dcmi_set_destroy_vdevice.save", id);
    DONE(found || id == EVERY ? code : DEVICE_NOT_EXIST);
}

struct base {
    unsigned long long token, token_max, task_timeout;
    unsigned group;
    unsigned char vip, reserved[31];
};

struct computing {
    float cores, vectors;
    unsigned short some[8];
    unsigned long long memory; /* MB */
    unsigned ids[4];
    unsigned short schedulers, host_control, host_aicpu, aicpu, slots;
    unsigned load;
    unsigned long long memory_total, memory_free;
    unsigned char reserved[12];
};

struct media {
    float jpegd, jpege, vpc, vdec, pngd, venc;
    unsigned char reserved[32];
};

struct resources {
    struct base base;
    struct computing computing;
    struct media media;
};

static void describe(const struct chip *chip, const struct amounts *what, struct resources *out) {
    memset(out, 0, sizeof *out);
    out->base.group = AUTO;
    out->computing.cores = (float)what->aicore;
    out->computing.vectors = -1;
    out->computing.memory = what->memory;
    out->computing.aicpu = (unsigned short)what->aicpu;
    out->media = (struct media){(float)what->jpegd, (float)what->jpege, (float)what->vpc, (float)what->vdec, -1,
                                (float)what->venc, {0}};
    /* A 910 does not report its engines. */
    if (chip->family == A910) out->media = (struct media){-1, -1, -1, -1, -1, -1, {0}};
}

struct one {
    unsigned id;
    struct {
        char name[16];
        unsigned status, in_use, function, group;
        unsigned long long container;
        struct resources resources;
    } info;
};

struct whole {
    unsigned number, id[VDEVICES], groups, group_bits;
    struct resources resources;
};

struct rest {
    unsigned groups, group_bits;
    struct resources resources;
};

static int tell_one(struct chip *chip, struct one *out) {
    const struct vdevice *row = by_id(chip, out->id);
    if (row == NULL) return DEVICE_NOT_EXIST;
    unsigned id = out->id;
    memset(out, 0, sizeof *out);
    out->id = id;
    /* The field holds no terminator beyond its 16 bytes. */
    memcpy(out->info.name, chip->template[row->template].name, sizeof out->info.name);
    out->info.in_use = row->in_use;
    out->info.container = row->container;
    describe(chip, amounts_of(chip, row), &out->info.resources);
    out->info.group = out->info.resources.base.group = chip->groups ? (unsigned)__builtin_ctz(row->group) : AUTO;
    return OK;
}

static int tell_whole(const struct chip *chip, struct whole *out) {
    memset(out, 0, sizeof *out);
    for (const struct vdevice *row = chip->vdevice; row < chip->vdevice + VDEVICES; row++)
        if (row->used) out->id[out->number++] = row->id;
    struct amounts all = in_all(chip);
    describe(chip, &all, &out->resources);
    out->groups = chip->groups;
    return OK;
}

static int tell_rest(const struct chip *chip, struct rest *out) {
    memset(out, 0, sizeof *out);
    struct amounts rest = left(chip);
    describe(chip, &rest, &out->resources);
    return OK;
}

struct pod_info {
    unsigned sdid, size, pod, server, chassis, type, reserved[6];
};

static int tell_pod(const struct chip *chip, struct pod_info *out) {
    if (chip->family != C910) return NOT_SUPPORTED;
    *out = (struct pod_info){chip->sdid, chip->pod_size, chip->pod, chip->server, chip->chassis, chip->pod_type, {0}};
    return OK;
}

enum { CHIP_INFO = 12, VDEVICES_OF = 52 };
enum { ONE, WHOLE, REST };
enum { POD = 1 };

EXPORT int dcmi_get_device_info(int card, int device, int main, unsigned sub, void *out, unsigned *size) {
    BEGIN(card, device);
    if (main == CHIP_INFO && sub == POD) DONE(*size < sizeof(struct pod_info) ? INVALID_PARAMETER : tell_pod(call.chip, out));
    /* That a chip without vNPUs does not answer has no source: the interface asks the driver for every family. */
    if (main != VDEVICES_OF || call.chip->most == 0) DONE(NOT_SUPPORTED);
    if (sub == ONE) DONE(*size < sizeof(struct one) ? INVALID_PARAMETER : tell_one(call.chip, out));
    if (sub == WHOLE) DONE(*size < sizeof(struct whole) ? INVALID_PARAMETER : tell_whole(call.chip, out));
    if (sub == REST) DONE(*size < sizeof(struct rest) ? INVALID_PARAMETER : tell_rest(call.chip, out));
    DONE(NOT_SUPPORTED);
}
