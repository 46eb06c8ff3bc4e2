/* The second interface, that of 950: one number for a chip, its logical id. It has no vNPUs (dcmi_interface_api.h of
 * hicann/driver at ef377e9; dcmi_virtual_intf.c:292-294 refuses their creation). */
#include <stdio.h>

#include "call.h"
#include "chips.h"

EXPORT int dcmiv2_get_device_list(int *list, int *number, int room) {
    BEGIN(NO_CHIP, 0);
    for (*number = 0; *number < (int)call.state->chips && *number < room; (*number)++)
        list[*number] = (int)call.state->chip[*number].logic;
    DONE(OK);
}

EXPORT int dcmiv2_get_driver_version(char *out, unsigned room) {
    BEGIN(NO_CHIP, 0);
    DONE(snprintf(out, room, "%s", call.state->driver) < (int)room ? OK : INVALID_PARAMETER);
}

EXPORT int dcmiv2_get_chip_phy_id_by_dev_id(int device, unsigned *phy) {
    BEGIN_DEVICE(device);
    *phy = call.chip->phy;
    DONE(OK);
}

EXPORT int dcmiv2_get_device_chip_info(int device, struct chip_info_v2 *out) {
    BEGIN_DEVICE(device);
    DONE(tell_info(call.chip, out));
}

EXPORT int dcmiv2_get_device_board_id(int device, unsigned *board) {
    BEGIN_DEVICE(device);
    *board = call.chip->board;
    DONE(OK);
}

EXPORT int dcmiv2_get_device_hbm_info(int device, struct hbm_info *out) {
    BEGIN_DEVICE(device);
    DONE(tell_memory(call.chip, out));
}

EXPORT int dcmiv2_get_device_pcie_info(int device, struct pcie_info_all *out) {
    BEGIN_DEVICE(device);
    DONE(tell_place(call.chip, out));
}

EXPORT int dcmiv2_get_device_die_id(int device, int type, unsigned out[5]) {
    BEGIN_DEVICE(device);
    DONE(tell_die(call.chip, type, out));
}

EXPORT int dcmiv2_get_device_health(int device, unsigned *health) {
    BEGIN_DEVICE(device);
    *health = call.chip->health;
    DONE(OK);
}

EXPORT int dcmiv2_get_device_error_code_list(int device, int *number, unsigned *codes, unsigned room) {
    BEGIN_DEVICE(device);
    DONE(tell_codes(call.chip, number, codes, room));
}
