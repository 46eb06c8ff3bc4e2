/* The state file, its lock and the faults. See statefile.h. */
#include "statefile.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;
static struct header *mapped;
static char path[4096];
static int sessions;
static unsigned epoch;
static int locked = -1;

void sleep_microseconds(uint64_t microseconds) {
    struct timespec span = {(time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
    while (nanosleep(&span, &span) != 0) {
    }
}

/* flock belongs to an open file, so a file per lock also keeps apart processes that share descriptors after a fork. */
int statefile_lock(void) {
    pthread_mutex_lock(&threads);
    locked = open(path, O_RDWR | O_CLOEXEC);
    if (locked >= 0 && flock(locked, LOCK_EX) == 0) return 1;
    if (locked >= 0) close(locked);
    pthread_mutex_unlock(&threads);
    return 0;
}

void statefile_unlock(void) {
    close(locked);
    pthread_mutex_unlock(&threads);
}

static int map(const char *wanted) {
    if (wanted == NULL || strlen(wanted) >= sizeof path) return NO_DRIVER;
    int file = open(wanted, O_RDWR | O_CLOEXEC);
    if (file < 0) return NO_DRIVER;
    struct stat facts;
    void *found = MAP_FAILED;
    if (fstat(file, &facts) == 0 && facts.st_size == (off_t)fake.size)
        found = mmap(NULL, fake.size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found == MAP_FAILED) {
        fprintf(stderr, "%s: %s is no state file of this library\n", fake.name, wanted);
        return WRONG_FILE;
    }
    struct header *header = found;
    if (header->magic != fake.magic || header->layout != fake.layout || header->size != fake.size) {
        fprintf(stderr, "%s: %s has another layout\n", fake.name, wanted);
        munmap(found, fake.size);
        return WRONG_FILE;
    }
    if (!header->driver_loaded) {
        munmap(found, fake.size);
        return NO_DRIVER;
    }
    mapped = header;
    epoch++;
    strcpy(path, wanted);
    return OPENED;
}

static void unmap(void) {
    munmap(mapped, fake.size);
    mapped = NULL;
}

int statefile_open(void) {
    pthread_mutex_lock(&threads);
    int opened = sessions == 0 ? map(getenv(fake.variable)) : OPENED;
    if (opened == OPENED) sessions++;
    pthread_mutex_unlock(&threads);
    return opened;
}

int statefile_close(void) {
    pthread_mutex_lock(&threads);
    int was_open = sessions > 0;
    if (was_open && --sessions == 0) unmap();
    pthread_mutex_unlock(&threads);
    return was_open;
}

int statefile_reopen(void) {
    pthread_mutex_lock(&threads);
    const char *wanted = getenv(fake.variable);
    int opened = OPENED;
    if (mapped == NULL || wanted == NULL || strcmp(wanted, path) != 0) {
        if (mapped != NULL) unmap();
        opened = map(wanted);
    }
    pthread_mutex_unlock(&threads);
    return opened;
}

struct header *statefile_header(void) { return mapped; }

unsigned statefile_epoch(void) { return epoch; }

/* For the check that the Python mirror has the same layout. */
EXPORT unsigned fake_state_size(void) { return fake.size; }

static void count(const char *symbol) {
    for (struct count *row = mapped->count; row < mapped->count + COUNTS; row++) {
        if (row->symbol[0] == 0) strncpy(row->symbol, symbol, sizeof row->symbol - 1);
        if (strcmp(row->symbol, symbol) == 0) {
            row->calls++;
            return;
        }
    }
}

struct fault take_fault(const char *symbol, int unit) {
    struct fault fault = {NO_RULE, 0, 0, NULL};
    count(symbol);
    for (struct rule *rule = mapped->rule; rule < mapped->rule + RULES; rule++) {
        if (rule->action == NO_RULE || rule->times == 0) continue;
        if (fault.action != NO_RULE && rule->action != DELAY && rule->action != HANG) continue;
        if (strcmp(rule->symbol, "*") != 0 && strcmp(rule->symbol, symbol) != 0) continue;
        if (rule->unit >= 0 && rule->unit != unit) continue;
        if (rule->skip > 0) {
            rule->skip--;
            continue;
        }
        if (rule->times > 0) rule->times--;
        if (rule->action == HANG) {
            fault.hangs = rule;
        } else if (rule->action == DELAY) {
            fault.microseconds += rule->microseconds;
        } else {
            fault.action = rule->action;
            fault.code = rule->code;
        }
    }
    return fault;
}

int wait_out(const struct rule *rule) {
    unsigned begun = epoch;
    do {
        statefile_unlock();
        sleep_microseconds(10000);
        if (!statefile_lock()) return 0;
    } while (mapped != NULL && epoch == begun && rule->action == HANG);
    return 1;
}
