/* Health, error codes, memory and load of chips. */
#include <string.h>

#include "call.h"
#include "chips.h"
#include "resources.h"

/* 0 normal, 1 minor, 2 major, 3 critical; a chip that is gone is an answer of its own. */
EXPORT int dcmi_get_device_health(int card, int device, unsigned *health) {
    BEGIN(card, device);
    *health = call.chip->health;
    DONE(OK);
}

int tell_codes(const struct chip *chip, int *number, unsigned *codes, unsigned room) {
    *number = 0;
    for (int i = 0; i < EVENTS; i++)
        if (chip->event[i].used && (unsigned)*number < room) codes[(*number)++] = chip->event[i].id;
    return OK;
}

EXPORT int dcmi_get_device_errorcode_v2(int card, int device, int *number, unsigned *codes, unsigned room) {
    BEGIN(card, device);
    DONE(tell_codes(call.chip, number, codes, room));
}

struct memory_info {
    unsigned long long size, available; /* MB */
    unsigned frequency;
    unsigned long page_size, pages, free_pages;
    unsigned load;
    unsigned char reserved[60];
};

EXPORT int dcmi_get_device_memory_info_v3(int card, int device, struct memory_info *out) {
    BEGIN(card, device);
    memset(out, 0, sizeof *out);
    out->size = call.chip->total.memory;
    out->available = left(call.chip).memory;
    out->frequency = 1600;
    DONE(OK);
}

int tell_memory(const struct chip *chip, struct hbm_info *out) {
    *out = (struct hbm_info){chip->total.memory, 1600, 0, 45, 0};
    return OK;
}

EXPORT int dcmi_get_device_hbm_info(int card, int device, struct hbm_info *out) {
    BEGIN(card, device);
    DONE(tell_memory(call.chip, out));
}

EXPORT int dcmi_get_device_utilization_rate(int card, int device, int type, unsigned *rate) {
    BEGIN(card, device);
    (void)type;
    *rate = 0;
    DONE(OK);
}
