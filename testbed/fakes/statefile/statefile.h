/* What every fake driver library shares: a state file that all processes map, its lock, and faults on request.
 *
 * A fake defines `fake`, and begins its `struct state` with a `struct header`. testbed/fakes/statefile/layout.py mirrors it.
 */
#ifndef FAKE_STATEFILE_H
#define FAKE_STATEFILE_H

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum { RULES = 32, COUNTS = 96 };
enum { NO_RULE, FAIL, DELAY, KILL_BEFORE, KILL_AFTER, HANG };

struct rule {
    uint32_t action;
    int32_t unit;  /* which card; -1: any */
    int32_t code;  /* FAIL */
    int32_t times; /* -1: for ever */
    uint32_t skip; /* so many matching calls pass first */
    uint32_t microseconds;
    char symbol[64]; /* "*": any */
};

struct count {
    uint64_t calls;
    char symbol[64];
};

struct header {
    uint32_t magic, layout, size, driver_loaded;
    struct rule rule[RULES];
    struct count count[COUNTS];
};

struct fake {
    const char *name;     /* for messages */
    const char *variable; /* environment variable that names the state file */
    uint32_t magic, layout, size;
};
extern const struct fake fake;

enum { OPENED, NO_DRIVER, WRONG_FILE };

/* Begin a session of this process, mapping the file for the first one. */
int statefile_open(void);
/* End a session; 0: there was none. */
int statefile_close(void);
/* Map the file that the environment names now; keep what is mapped if it is the same. For libraries without an end. */
int statefile_reopen(void);
/* NULL without a session; valid under the lock. */
struct header *statefile_header(void);
/* Another number for every mapping. */
unsigned statefile_epoch(void);

int statefile_lock(void);
void statefile_unlock(void);
void sleep_microseconds(uint64_t microseconds);

struct fault {
    uint32_t action; /* NO_RULE, FAIL, KILL_BEFORE or KILL_AFTER */
    int32_t code;
    uint64_t microseconds; /* latencies of all rules together */
    struct rule *hangs;    /* the call does not return as long as this rule is there; NULL: it does */
};

/* Count a call, and use up what was asked for to happen to it. Under the lock. */
struct fault take_fault(const char *symbol, int unit);

/* Wait, without the lock, until the rule is gone or the session is over. Returns whether the lock is held anew. */
int wait_out(const struct rule *rule);

/* Set a `used` field: the row exists from here on. */
#define COMMIT(row) __atomic_store_n(&(row)->used, 1u, __ATOMIC_RELEASE)
#define REMOVE(row) __atomic_store_n(&(row)->used, 0u, __ATOMIC_RELEASE)

#endif
