"""DCMI's two interfaces: `dcmi_*` names a chip by card and number, `dcmiv2_*`, the only one for 950, by one number.

In: a function of the first interface and its arguments. Out: the function and arguments of the second. Source: the open driver's
header (dcmi_interface_api.h); structures are the same. What the second has no counterpart for is left out: vNPUs, super pods,
the vNPU mode, the other kind of memory.
"""

from collections.abc import Mapping
from typing import Any, Final

_CARD: Final = (0,)
"""Positions of arguments that the second interface has not: the card."""
_SECOND: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "dcmi_get_driver_version": ("dcmiv2_get_driver_version", ()),
    "dcmi_get_device_chip_info_v2": ("dcmiv2_get_device_chip_info", _CARD),
    "dcmi_get_device_board_id": ("dcmiv2_get_device_board_id", _CARD),
    "dcmi_get_device_hbm_info": ("dcmiv2_get_device_hbm_info", _CARD),
    "dcmi_get_device_pcie_info_v2": ("dcmiv2_get_device_pcie_info", _CARD),
    "dcmi_get_device_die_v2": ("dcmiv2_get_device_die_id", _CARD),
    "dcmi_get_device_health": ("dcmiv2_get_device_health", _CARD),
    "dcmi_get_device_errorcode_v2": ("dcmiv2_get_device_error_code_list", _CARD),
    "dcmi_get_topo_info_by_device_id": ("dcmiv2_get_topo_info_by_device_id", (0, 2)),
}


def second(function: str, arguments: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the call of the second interface; a function without a counterpart, or of the second itself, stays as it is."""
    name, left_out = _SECOND.get(function, (function, ()))
    return name, tuple(value for index, value in enumerate(arguments) if index not in left_out)
