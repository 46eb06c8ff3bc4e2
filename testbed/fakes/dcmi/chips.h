/* What both interfaces say of a chip, in the same structures. Each returns what its call answers. */
#ifndef FAKE_DCMI_CHIPS_H
#define FAKE_DCMI_CHIPS_H

#include "state.h"

struct chip_info_v2 {
    char type[32], name[32], version[32];
    unsigned aicores;
    char npu_name[32];
};

struct pcie_info_all {
    unsigned vendor, subvendor, device, subdevice;
    int domain;
    unsigned bus, slot, function;
    unsigned char reserved[32];
};

struct hbm_info {
    unsigned long long size; /* MB */
    unsigned frequency;
    unsigned long long used;
    int celsius;
    unsigned load;
};

int tell_info(const struct chip *chip, struct chip_info_v2 *out);
int tell_place(const struct chip *chip, struct pcie_info_all *out);
int tell_die(const struct chip *chip, int type, unsigned out[5]);
int tell_memory(const struct chip *chip, struct hbm_info *out);
int tell_codes(const struct chip *chip, int *number, unsigned *codes, unsigned room);

#endif
