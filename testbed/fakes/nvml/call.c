/* Begin and end of every call: session, lock, count, faults, handles. See call.h. */
#include "call.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

const struct fake fake = {"fake NVML", "APPORTION_FAKE_NVML", MAGIC, LAYOUT, sizeof(struct state)};

static struct state *mapped(void) { return (struct state *)statefile_header(); }

static char library[64], host[4096]; /* version of the library that this process has mapped, and of which host */
static int client = -1;              /* what keeps the kernel module loaded: an open file, gone with its process */

/* Whether library and kernel module are of one version. A process maps a library once, whatever is installed later. */
static int matches(void) {
    if (strcmp(host, getenv(fake.variable)) != 0) {
        snprintf(host, sizeof host, "%s", getenv(fake.variable));
        snprintf(library, sizeof library, "%s", mapped()->driver);
    }
    return strcmp(library, mapped()->driver) == 0;
}

/* A session has device files open, and a module with open files is not unloaded (delete_module(2), EWOULDBLOCK). */
static void hold(void) {
    char path[4200];
    snprintf(path, sizeof path, "%s.clients", getenv(fake.variable));
    if (client < 0 && (client = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) >= 0) flock(client, LOCK_SH);
}

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int opened = statefile_open();
    if (opened != OPENED) return opened == NO_DRIVER ? DRIVER_NOT_LOADED : UNKNOWN;
    if (!matches()) return statefile_close(), LIB_RM_VERSION_MISMATCH;
    hold();
    struct call call;
    if (!begin(&call, __func__, 0, 0)) return statefile_close(), call.code;
    return finish(&call, SUCCESS);
}

EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

static unsigned listening; /* sets of this session to which events go, and which were not freed */

void listens(int more) { listening += more; }

EXPORT int nvmlShutdown(void) {
    if (!statefile_close()) return UNINITIALIZED;
    if (mapped() == NULL && client >= 0) {
        /* Such a set keeps its GPU's file open for as long as the process lives, whatever is called later. source: an H200 with driver
         * 580.159.04 (docs/hardware.md). */
        if (listening == 0) close(client);
        client = -1;
        listening = 0;
    }
    return SUCCESS;
}

static int resolve(struct call *call, handle device, unsigned kinds) {
    unsigned kind = (unsigned)(device >> 56), index = (device >> 48) & 0xff;
    uint64_t serial = device & 0xffffffffULL;
    /* A handle ends with its session. source: an H200 with driver 580.159.04 (real-card report). */
    if (((device >> 32) & 0xffff) != (session_epoch() & 0xffff)) return INVALID_ARGUMENT;
    if (kind == NO_KIND || kind > MIG_KIND || index >= call->state->gpus || !(kinds & ON(kind))) return INVALID_ARGUMENT;
    call->gpu = &call->state->gpu[index];
    /* source: none, as to the code for a handle from before; it is that for a GPU that left the bus. */
    if (call->gpu->gone) return GPU_IS_LOST;
    if (kind == GPU_KIND) return SUCCESS;
    for (struct instance *found = call->gpu->instance; found < call->gpu->instance + INSTANCES; found++) {
        if (!found->used) continue;
        call->instance = found;
        if (kind == INSTANCE_KIND && found->serial == serial) return SUCCESS;
        for (struct compute *row = found->computes; kind != INSTANCE_KIND && row < found->computes + COMPUTES; row++) {
            call->compute = row;
            if (row->used && row->serial == serial) return SUCCESS;
        }
    }
    return NOT_FOUND;
}

int begin(struct call *call, const char *symbol, handle device, unsigned kinds) {
    memset(call, 0, sizeof *call);
    if (mapped() == NULL) return call->code = UNINITIALIZED, 0;
    if (!statefile_lock()) return call->code = UNKNOWN, 0;
    call->state = mapped();
    if (mapped() == NULL) return finish(call, 0), call->code = UNINITIALIZED, 0; /* shut down meanwhile */
    int code = kinds ? resolve(call, device, kinds) : SUCCESS;
    struct fault fault = take_fault(symbol, call->gpu ? (int)(call->gpu - mapped()->gpu) : -1);
    if (fault.microseconds > 0 || fault.hangs != NULL) {
        /* Others go on meanwhile; what the handle means is looked up again afterwards. */
        statefile_unlock();
        sleep_microseconds(fault.microseconds);
        if (!statefile_lock()) return call->code = UNKNOWN, 0;
        if (fault.hangs != NULL && !wait_out(fault.hangs)) return call->code = UNKNOWN, 0;
        call->state = mapped();
        if (mapped() == NULL) return finish(call, 0), call->code = UNINITIALIZED, 0;
        if (kinds) code = resolve(call, device, kinds);
    }
    if (fault.action == KILL_BEFORE) raise(SIGKILL);
    call->kill_after = fault.action == KILL_AFTER;
    if (fault.action == FAIL && fault.code != SUCCESS) code = fault.code;
    if (code == SUCCESS && call->gpu != NULL && call->gpu->lost) code = GPU_IS_LOST;
    if (code == SUCCESS) return 1;
    finish(call, code);
    return call->code = code, 0;
}

int finish(struct call *call, int code) {
    if (call->kill_after) raise(SIGKILL);
    statefile_unlock();
    return code;
}

int pause_call(struct call *call, unsigned milliseconds) {
    statefile_unlock();
    sleep_microseconds(milliseconds * 1000ULL);
    if (!statefile_lock()) return call->code = UNKNOWN, 0;
    call->state = mapped();
    if (mapped() != NULL) return 1;
    finish(call, 0);
    return call->code = UNINITIALIZED, 0;
}

static handle this_session(void) { return (handle)(session_epoch() & 0xffff) << 32; }

handle gpu_handle(const struct call *call, const struct gpu *gpu) {
    return (handle)GPU_KIND << 56 | (handle)(gpu - call->state->gpu) << 48 | this_session();
}

handle row_handle(const struct call *call, unsigned kind, uint64_t serial) {
    return (handle)kind << 56 | (handle)(call->gpu - call->state->gpu) << 48 | this_session() | serial;
}

int text_out(char *out, unsigned length, const char *text) {
    if (strlen(text) >= length) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

struct process_info { /* nvmlProcessInfo_t, version 3 of the call */
    unsigned pid;
    unsigned long long used_memory;
    unsigned instance, compute;
};

int pids_out(const struct call *call, const uint32_t *pids, unsigned *count, void *out, uint32_t instance,
             uint32_t compute) {
    unsigned room = *count, found = 0;
    struct process_info *rows = out;
    for (int i = 0; i < PROCESSES; i++) {
        /* The driver leaves out processes that the caller's PID namespace does not have, and says nothing of it (open-gpu-kernel-modules
         * 595.45.04, gpu_rmapi.c:811-818 and 978). */
        if (pids[i] == 0 || call->state->contained) continue;
        if (rows != NULL && found < room) rows[found] = (struct process_info){pids[i], 1 << 20, instance, compute};
        found++;
    }
    *count = found;
    return found <= room ? SUCCESS : INSUFFICIENT_SIZE;
}

unsigned session_epoch(void) { return statefile_epoch(); }

uint64_t next_serial(struct call *call) { return call->state->next_serial++; }

void random_uuid(char *out, size_t length, const char *prefix) {
    unsigned char raw[16];
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw) abort();
    raw[6] = (raw[6] & 0x0f) | 0x40;
    raw[8] = (raw[8] & 0x3f) | 0x80;
    char text[33];
    for (int i = 0; i < 16; i++) sprintf(text + 2 * i, "%02x", raw[i]);
    snprintf(out, length, "%s-%.8s-%.4s-%.4s-%.4s-%.12s", prefix, text, text + 8, text + 12, text + 16, text + 20);
}
