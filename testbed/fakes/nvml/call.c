/* The frame of every call: session, lock, count, faults, handles. See call.h. */
#include "call.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;
static struct state *mapped;
static char path[4096];
static int sessions;
static unsigned epoch;
static int locked = -1;

static void sleep_for(uint64_t microseconds) {
    struct timespec span = {(time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
    while (nanosleep(&span, &span) != 0) {
    }
}

/* flock belongs to an open file, so a file per lock also keeps apart processes that share descriptors after a fork. */
static int lock(void) {
    pthread_mutex_lock(&threads);
    locked = open(path, O_RDWR | O_CLOEXEC);
    if (locked >= 0 && flock(locked, LOCK_EX) == 0) return 1;
    if (locked >= 0) close(locked);
    pthread_mutex_unlock(&threads);
    return 0;
}

static void unlock(void) {
    close(locked);
    pthread_mutex_unlock(&threads);
}

static int map(void) {
    const char *wanted = getenv("APPORTION_FAKE_NVML");
    if (wanted == NULL || strlen(wanted) >= sizeof path) return DRIVER_NOT_LOADED;
    int file = open(wanted, O_RDWR | O_CLOEXEC);
    if (file < 0) return DRIVER_NOT_LOADED;
    struct stat facts;
    void *found = MAP_FAILED;
    if (fstat(file, &facts) == 0 && facts.st_size == (off_t)sizeof(struct state))
        found = mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found == MAP_FAILED) {
        fprintf(stderr, "fake NVML: %s is no state file of this library\n", wanted);
        return UNKNOWN;
    }
    struct state *state = found;
    if (state->magic != MAGIC || state->layout != LAYOUT || state->size != sizeof(struct state)) {
        fprintf(stderr, "fake NVML: %s has another layout\n", wanted);
        munmap(found, sizeof(struct state));
        return UNKNOWN;
    }
    if (!state->driver_loaded) {
        munmap(found, sizeof(struct state));
        return DRIVER_NOT_LOADED;
    }
    mapped = state;
    epoch++;
    strcpy(path, wanted);
    return SUCCESS;
}

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&threads);
    int code = sessions == 0 ? map() : SUCCESS;
    if (code == SUCCESS) sessions++;
    pthread_mutex_unlock(&threads);
    return code;
}

EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

EXPORT int nvmlShutdown(void) {
    pthread_mutex_lock(&threads);
    int code = sessions == 0 ? UNINITIALIZED : SUCCESS;
    if (sessions > 0 && --sessions == 0) {
        munmap(mapped, sizeof(struct state));
        mapped = NULL;
    }
    pthread_mutex_unlock(&threads);
    return code;
}

/* For the check that the Python mirror has the same layout. */
EXPORT unsigned fake_state_size(void) { return sizeof(struct state); }

static void count(struct state *state, const char *symbol) {
    for (struct count *row = state->count; row < state->count + COUNTS; row++) {
        if (row->symbol[0] == 0) strncpy(row->symbol, symbol, sizeof row->symbol - 1);
        if (strcmp(row->symbol, symbol) == 0) {
            row->calls++;
            return;
        }
    }
}

/* Returns the first fault that strikes this call, NULL for none; latencies of all rules add up beside it. */
static struct rule *rule_for(struct state *state, const char *symbol, int gpu, uint64_t *microseconds) {
    struct rule *found = NULL;
    for (struct rule *rule = state->rule; rule < state->rule + RULES; rule++) {
        if (rule->action == NO_RULE || rule->times == 0 || (found != NULL && rule->action != DELAY)) continue;
        if (strcmp(rule->symbol, "*") != 0 && strcmp(rule->symbol, symbol) != 0) continue;
        if (rule->gpu >= 0 && rule->gpu != gpu) continue;
        if (rule->skip > 0) {
            rule->skip--;
            continue;
        }
        if (rule->times > 0) rule->times--;
        if (rule->action == DELAY)
            *microseconds += rule->microseconds;
        else
            found = rule;
    }
    return found;
}

static int resolve(struct call *call, handle device, unsigned kinds) {
    unsigned kind = (unsigned)(device >> 56), index = (device >> 48) & 0xff;
    uint64_t serial = device & 0xffffffffffffULL;
    if (kind == NO_KIND || kind > MIG_KIND || index >= call->state->gpus || !(kinds & ON(kind))) return INVALID_ARGUMENT;
    call->gpu = &call->state->gpu[index];
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
    if (mapped == NULL) return call->code = UNINITIALIZED, 0;
    if (!lock()) return call->code = UNKNOWN, 0;
    call->state = mapped;
    if (mapped == NULL) return finish(call, 0), call->code = UNINITIALIZED, 0; /* shut down meanwhile */
    count(mapped, symbol);
    int code = kinds ? resolve(call, device, kinds) : SUCCESS;
    uint64_t microseconds = 0;
    int gpu = call->gpu ? (int)(call->gpu - mapped->gpu) : -1;
    struct rule *rule = rule_for(mapped, symbol, gpu, &microseconds);
    uint32_t action = rule ? rule->action : NO_RULE;
    int failure = action == FAIL ? rule->code : SUCCESS;
    if (microseconds > 0) {
        /* Others go on meanwhile; what the handle means is looked up again afterwards. */
        unlock();
        sleep_for(microseconds);
        if (!lock()) return call->code = UNKNOWN, 0;
        call->state = mapped;
        if (mapped == NULL) return finish(call, 0), call->code = UNINITIALIZED, 0;
        if (kinds) code = resolve(call, device, kinds);
    }
    if (action == KILL_BEFORE) raise(SIGKILL);
    call->kill_after = action == KILL_AFTER;
    if (failure != SUCCESS) code = failure;
    if (code == SUCCESS && call->gpu != NULL && call->gpu->lost) code = GPU_IS_LOST;
    if (code == SUCCESS) return 1;
    finish(call, code);
    return call->code = code, 0;
}

int finish(struct call *call, int code) {
    if (call->kill_after) raise(SIGKILL);
    unlock();
    return code;
}

int pause_call(struct call *call, unsigned milliseconds) {
    unlock();
    sleep_for(milliseconds * 1000ULL);
    if (!lock()) return call->code = UNKNOWN, 0;
    call->state = mapped;
    if (mapped != NULL) return 1;
    finish(call, 0);
    return call->code = UNINITIALIZED, 0;
}

handle gpu_handle(const struct call *call, const struct gpu *gpu) {
    return (handle)GPU_KIND << 56 | (handle)(gpu - call->state->gpu) << 48;
}

handle row_handle(const struct call *call, unsigned kind, uint64_t serial) {
    return (handle)kind << 56 | (handle)(call->gpu - call->state->gpu) << 48 | serial;
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

int pids_out(const uint32_t *pids, unsigned *count, void *out, uint32_t instance, uint32_t compute) {
    unsigned room = *count, found = 0;
    struct process_info *rows = out;
    for (int i = 0; i < PROCESSES; i++) {
        if (pids[i] == 0) continue;
        if (rows != NULL && found < room) rows[found] = (struct process_info){pids[i], 1 << 20, instance, compute};
        found++;
    }
    *count = found;
    return found <= room ? SUCCESS : INSUFFICIENT_SIZE;
}

unsigned session_epoch(void) { return epoch; }

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
