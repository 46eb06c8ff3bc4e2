/* Enumeration of cards and chips, their identity and PCI addresses. */
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "chips.h"

EXPORT int dcmi_get_card_list(int *number, int *list, int room) {
    BEGIN(NO_CHIP, 0);
    *number = 0;
    for (const struct chip *chip = call.state->chip; chip < call.state->chip + call.state->chips; chip++) {
        if (chip->device != 0) continue;
        if (*number >= room) DONE(INVALID_PARAMETER);
        list[(*number)++] = (int)chip->card;
    }
    DONE(OK);
}

static int chips_of(const struct state *state, int card) {
    int found = 0;
    for (unsigned i = 0; i < state->chips; i++) found += (int)state->chip[i].card == card;
    return found;
}

EXPORT int dcmi_get_device_num_in_card(int card, int *number) {
    BEGIN(NO_CHIP, 0);
    *number = chips_of(call.state, card);
    DONE(*number ? OK : INVALID_PARAMETER);
}

/* Beside its chips a card has a management controller, numbered after them; 310P cards have none here. */
EXPORT int dcmi_get_device_id_in_card(int card, int *chips, int *mcu, int *cpu) {
    BEGIN(NO_CHIP, 0);
    *chips = chips_of(call.state, card);
    const struct chip *first = chip_at(call.state, card, 0);
    *mcu = first != NULL && first->family == B910 ? *chips : -1;
    *cpu = -1;
    DONE(*chips ? OK : INVALID_PARAMETER);
}

EXPORT int dcmi_get_all_device_count(int *number) {
    BEGIN(NO_CHIP, 0);
    *number = (int)call.state->chips;
    DONE(OK);
}

EXPORT int dcmi_get_device_type(int card, int device, int *type) {
    BEGIN(card, device);
    *type = 0;
    DONE(OK);
}

EXPORT int dcmi_get_driver_version(char *out, unsigned room) {
    BEGIN(NO_CHIP, 0);
    DONE(snprintf(out, room, "%s", call.state->driver) < (int)room ? OK : INVALID_PARAMETER);
}

EXPORT int dcmi_get_dcmi_version(char *out, unsigned room) {
    BEGIN(NO_CHIP, 0);
    DONE(snprintf(out, room, "%s", call.state->driver) < (int)room ? OK : INVALID_PARAMETER);
}

int tell_info(const struct chip *chip, struct chip_info_v2 *out) {
    memset(out, 0, sizeof *out);
    strcpy(out->type, "Ascend");
    memcpy(out->name, chip->name, sizeof out->name);
    strcpy(out->version, "V1");
    memcpy(out->npu_name, chip->npu_name, sizeof out->npu_name);
    out->aicores = chip->total.aicore;
    return OK;
}

EXPORT int dcmi_get_device_chip_info_v2(int card, int device, struct chip_info_v2 *out) {
    BEGIN(card, device);
    DONE(tell_info(call.chip, out));
}

int tell_place(const struct chip *chip, struct pcie_info_all *out) {
    *out = (struct pcie_info_all){0x19e5, 0x19e5, chip->family == P310 ? 0xd500 : 0xd802, 0x0100,
                                  chip->domain, chip->bus, chip->slot, chip->function, {0}};
    return OK;
}

EXPORT int dcmi_get_device_pcie_info_v2(int card, int device, struct pcie_info_all *out) {
    BEGIN(card, device);
    DONE(tell_place(call.chip, out));
}

EXPORT int dcmi_get_device_board_id(int card, int device, unsigned *board) {
    BEGIN(card, device);
    *board = call.chip->board;
    DONE(OK);
}

struct board_info {
    unsigned board, pcb, bom, slot;
};

EXPORT int dcmi_get_device_board_info(int card, int device, struct board_info *out) {
    BEGIN(card, device);
    *out = (struct board_info){call.chip->board, 0, 1, call.chip->card};
    DONE(OK);
}

EXPORT int dcmi_get_device_logic_id(int *logic, int card, int device) {
    BEGIN(card, device);
    *logic = (int)call.chip->logic;
    DONE(OK);
}

EXPORT int dcmi_get_device_phyid_from_logicid(unsigned logic, unsigned *phy) {
    BEGIN(NO_CHIP, 0);
    for (unsigned i = 0; i < call.state->chips; i++) {
        *phy = call.state->chip[i].phy;
        if (call.state->chip[i].logic == logic) DONE(OK);
    }
    DONE(INVALID_PARAMETER);
}

EXPORT int dcmi_get_device_logicid_from_phyid(unsigned phy, unsigned *logic) {
    BEGIN(NO_CHIP, 0);
    for (unsigned i = 0; i < call.state->chips; i++) {
        *logic = call.state->chip[i].logic;
        if (call.state->chip[i].phy == phy) DONE(OK);
    }
    DONE(INVALID_PARAMETER);
}

EXPORT int dcmi_get_card_id_device_id_from_phyid(int *card, int *device, unsigned phy) {
    BEGIN(NO_CHIP, 0);
    for (unsigned i = 0; i < call.state->chips; i++) {
        *card = (int)call.state->chip[i].card;
        *device = (int)call.state->chip[i].device;
        if (call.state->chip[i].phy == phy) DONE(OK);
    }
    DONE(INVALID_PARAMETER);
}

EXPORT int dcmi_get_card_id_device_id_from_logicid(int *card, int *device, unsigned logic) {
    BEGIN(NO_CHIP, 0);
    for (unsigned i = 0; i < call.state->chips; i++) {
        *card = (int)call.state->chip[i].card;
        *device = (int)call.state->chip[i].device;
        if (call.state->chip[i].logic == logic) DONE(OK);
    }
    DONE(INVALID_PARAMETER);
}

enum { NDIE, VDIE, DDIE };

/* dcmi_inner/src/dcmi_inner_info_get.c:1759-1778: later families have lost kinds of ids. */
int tell_die(const struct chip *chip, int type, unsigned out[5]) {
    if (type < NDIE || type > DDIE) return INVALID_PARAMETER;
    if (type == NDIE && (chip->family == B910 || chip->family == C910 || chip->family == A950)) return NOT_SUPPORTED;
    if (type == VDIE && chip->family == A950) return NOT_SUPPORTED;
    memcpy(out, type == NDIE ? chip->die_n : chip->die, 5 * sizeof *out);
    return OK;
}

EXPORT int dcmi_get_device_die_v2(int card, int device, int type, unsigned out[5]) {
    BEGIN(card, device);
    DONE(tell_die(call.chip, type, out));
}

/* Where chips sit to each other. */
EXPORT int dcmi_get_topo_info_by_device_id(int card, int device, int other_card, int other_device, int *type) {
    BEGIN(card, device);
    const struct chip *other = chip_at(call.state, other_card, other_device);
    if (other == NULL) DONE(INVALID_PARAMETER);
    *type = call.state->link[call.chip - call.state->chip][other - call.state->chip];
    DONE(OK);
}
