"""What DCMI answers a caller before it looks at anything else: by call, family of chips, and place of the caller.

In: nothing. Out: rows with their sources, which the state file carries and the library obeys. A call without a row is answered
everywhere. Sources are files of hicann/driver at ef377e9 (src/custom/dev_prod/user/dcmi), with lines.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from testbed.fakes.dcmi.layout import A910, A950, B310, B910, C910, P310, Answer

_OK, _NOT_PERMITTED, _NOT_SUPPORTED = 0, -8002, -8255

Codes = tuple[int, int, int, int]
"""To root on the host, root in a privileged container, root in a plain one, and somebody else on the host."""
ROOT: Codes = (_OK, _OK, _OK, _NOT_PERMITTED)
PRIVILEGED_ROOT: Codes = (_OK, _OK, _NOT_PERMITTED, _NOT_PERMITTED)
HOST_ROOT: Codes = (_OK, _NOT_PERMITTED, _NOT_PERMITTED, _NOT_PERMITTED)
NOWHERE: Codes = (_NOT_SUPPORTED, _NOT_SUPPORTED, _NOT_SUPPORTED, _NOT_SUPPORTED)


@dataclass(frozen=True, slots=True)
class Permission:
    """Where one call is answered on some families."""

    call: str
    families: tuple[int, ...]
    codes: Codes
    source: str


_CREATE, _DESTROY = "dcmi_create_vdevice", "dcmi_set_destroy_vdevice"
_MODE, _SET_MODE = "dcmi_get_vdevice_mode", "dcmi_set_vdevice_mode"
_RECOVER, _SET_RECOVER = "dcmi_get_vnpu_config_recover_mode", "dcmi_set_vnpu_config_recover_mode"
_SAVED = "dcmi_interface/src/dcmi_virtual_intf.c:1183-1202"
_CHANGES = "dcmi_interface/src/dcmi_virtual_intf.c"

PERMISSIONS = (
    # 950 has an interface of its own, and no other family has that.
    Permission("dcmi_*", (A950,), NOWHERE, "dcmi_init/src/dcmi_init_basic.c:1446-1453"),
    Permission(
        "dcmiv2_*", (B310, P310, A910, B910, C910), NOWHERE, "dcmi_init/src/dcmi_init_basic.c:1497-1503"
    ),
    *(
        row
        for call in (_CREATE, _DESTROY)
        for row in (
            Permission(call, (P310,), ROOT, f"{_CHANGES}:270-276"),
            Permission(call, (A910,), ROOT, f"{_CHANGES}:277-283"),
            Permission(call, (B910,), PRIVILEGED_ROOT, f"{_CHANGES}:284-291"),
            # A privileged root passes the first check, and then no template is known for the family.
            Permission(
                call,
                (C910,),
                (_NOT_SUPPORTED, _NOT_SUPPORTED, _NOT_PERMITTED, _NOT_PERMITTED),
                f"{_CHANGES}:284-291, 250-251",
            ),
            Permission(call, (B310,), NOWHERE, f"{_CHANGES}:292-294"),
        )
    ),
    Permission(_MODE, (B910,), PRIVILEGED_ROOT, f"{_CHANGES}:1059-1065"),
    Permission(_MODE, (B310, A910, C910), HOST_ROOT, f"{_CHANGES}:1059-1065"),
    Permission(_MODE, (P310,), HOST_ROOT, f"{_CHANGES}:1066-1071"),
    Permission(_SET_MODE, (B910,), PRIVILEGED_ROOT, f"{_CHANGES}:1158-1162"),
    Permission(_SET_MODE, (B310, P310, A910, C910), HOST_ROOT, f"{_CHANGES}:1158-1162"),
    *(
        row
        for call in (_RECOVER, _SET_RECOVER)
        for row in (
            Permission(call, (P310, A910), HOST_ROOT, _SAVED),
            Permission(call, (B910,), PRIVILEGED_ROOT, _SAVED),
            Permission(call, (B310, C910), NOWHERE, _SAVED),
        )
    ),
    Permission(
        "dcmi_get_npu_work_mode",
        (B910, C910),
        NOWHERE,
        "dcmi_interface/src/dcmi_running_info_intf.c:1039-1042",
    ),
    Permission("dcmi_get_npu_work_mode", (B310, P310), NOWHERE, "source: none (servers only)"),
    Permission(
        "dcmi_get_device_memory_info_v3",
        (B910, C910),
        NOWHERE,
        "dcmi_inner/src/dcmi_inner_info_get.c:2250-2254",
    ),
    Permission("dcmi_get_device_hbm_info", (B310, P310), NOWHERE, "source: none (they have DDR)"),
    Permission(
        "dcmi_get_topo_info_by_device_id",
        (B310, P310, A910),
        NOWHERE,
        "dcmi_interface/src/dcmi_npu_link_intf.c:582-586",
    ),
)


def answers() -> Iterator[Answer]:
    """Yield the rows of the state file: one for each call and family."""
    for row in PERMISSIONS:
        for family in row.families:
            yield Answer(row.call.encode(), family, row.codes)
