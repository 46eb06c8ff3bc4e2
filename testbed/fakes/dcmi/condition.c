/* Health, fault events, memory and load of chips. */
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "resources.h"

/* 0 normal, 1 minor, 2 major, 3 critical; a chip that is gone is an answer of its own. */
EXPORT int dcmi_get_device_health(int card, int device, unsigned *health) {
    BEGIN(card, device);
    *health = call.chip->health;
    DONE(OK);
}

struct fault_event {
    unsigned id;
    unsigned short device;
    unsigned char node_type, node, sub_node_type, sub_node, severity, assertion;
    int serial, notify_serial;
    unsigned long long raised;
    char name[256], info[32];
    unsigned char rest[32];
};

struct any_event {
    int type;
    struct fault_event event;
};

EXPORT int dcmi_get_device_current_fault_event(int card, int device, struct any_event *out, int room, int *number) {
    BEGIN(card, device);
    *number = 0;
    for (const struct event *row = call.chip->event; row < call.chip->event + EVENTS && *number < room; row++) {
        if (!row->used) continue;
        struct any_event *one = &out[(*number)++];
        memset(one, 0, sizeof *one);
        one->event.id = row->id;
        one->event.device = (unsigned short)call.chip->logic;
        one->event.severity = (unsigned char)row->severity;
        one->event.assertion = 1;
        one->event.serial = (int)row->serial;
        one->event.raised = row->raised;
        snprintf(one->event.name, sizeof one->event.name, "%s", row->name);
    }
    DONE(OK);
}

EXPORT int dcmi_get_device_errorcode_v2(int card, int device, int *number, unsigned *codes, unsigned room) {
    BEGIN(card, device);
    *number = 0;
    for (int i = 0; i < EVENTS; i++)
        if (call.chip->event[i].used && (unsigned)*number < room) codes[(*number)++] = call.chip->event[i].id;
    DONE(OK);
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

struct hbm_info {
    unsigned long long size; /* MB */
    unsigned frequency;
    unsigned long long used;
    int celsius;
    unsigned load;
};

EXPORT int dcmi_get_device_hbm_info(int card, int device, struct hbm_info *out) {
    BEGIN(card, device);
    if (call.chip->family == P310) DONE(NOT_SUPPORTED);
    *out = (struct hbm_info){call.chip->total.memory, 1600, 0, 45, 0};
    DONE(OK);
}

EXPORT int dcmi_get_device_utilization_rate(int card, int device, int type, unsigned *rate) {
    BEGIN(card, device);
    (void)type;
    *rate = 0;
    DONE(OK);
}
