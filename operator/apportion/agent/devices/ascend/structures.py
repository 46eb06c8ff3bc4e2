"""The structures of DCMI, Huawei's device management interface, as ctypes.

In: nothing. Out: structures with the layouts of the vendor's public header `dcmi_interface_api.h` (version 2 of the
interface), under names of our own. Where a field has no meaning the driver writes all ones, or -1 in a float.
"""

from ctypes import Structure, c_char, c_float, c_int, c_ubyte, c_uint, c_ulonglong, c_ushort
from typing import Any, ClassVar, Final

CHIP_INFO: Final = 12
VDEVICES: Final = 52
"""Main commands of dcmi_get_device_info."""
ONE, TOTAL, FREE = 0, 1, 2
"""Sub-commands of VDEVICES."""
SUPER_POD: Final = 1
"""Sub-command of CHIP_INFO."""
AUTO: Final = 0xFFFFFFFF
"""Lets the driver choose an id or a group."""
VDIE, DDIE = 1, 2
"""Kinds of die ids (enum dcmi_die_type): 950 has the second only."""
MOST_CARDS: Final = 64
MOST_VDEVICES: Final = 32

_Fields = list[tuple[str, Any]]


class ChipInfo(Structure):
    """struct dcmi_chip_info_v2."""

    _fields_: ClassVar[_Fields] = [
        ("type", c_char * 32),
        ("name", c_char * 32),
        ("version", c_char * 32),
        ("aicores", c_uint),
        ("npu_name", c_char * 32),
    ]


class PcieInfo(Structure):
    """struct dcmi_pcie_info_all."""

    _fields_: ClassVar[_Fields] = [
        ("vendor", c_uint),
        ("subvendor", c_uint),
        ("device", c_uint),
        ("subdevice", c_uint),
        ("domain", c_int),
        ("bus", c_uint),
        ("slot", c_uint),
        ("function", c_uint),
        ("reserved", c_ubyte * 32),
    ]


class DieId(Structure):
    """struct dcmi_die_id."""

    _fields_: ClassVar[_Fields] = [("words", c_uint * 5)]


class MemoryInfo(Structure):
    """struct dcmi_get_memory_info_stru: sizes in MiB."""

    _fields_: ClassVar[_Fields] = [
        ("size", c_ulonglong),
        ("available", c_ulonglong),
        ("frequency", c_uint),
        ("page_size", c_ulonglong),
        ("pages", c_ulonglong),
        ("free_pages", c_ulonglong),
        ("load", c_uint),
        ("reserved", c_ubyte * 60),
    ]


class HbmInfo(Structure):
    """struct dcmi_hbm_info: sizes in MiB."""

    _fields_: ClassVar[_Fields] = [
        ("size", c_ulonglong),
        ("frequency", c_uint),
        ("used", c_ulonglong),
        ("celsius", c_int),
        ("load", c_uint),
    ]


class PodInfo(Structure):
    """struct dcmi_spod_info."""

    _fields_: ClassVar[_Fields] = [
        ("sdid", c_uint),
        ("size", c_uint),
        ("pod", c_uint),
        ("server", c_uint),
        ("chassis", c_uint),
        ("type", c_uint),
        ("reserved", c_uint * 6),
    ]


class _Base(Structure):
    _fields_: ClassVar[_Fields] = [
        ("token", c_ulonglong),
        ("token_max", c_ulonglong),
        ("task_timeout", c_ulonglong),
        ("group", c_uint),
        ("vip", c_ubyte),
        ("reserved", c_ubyte * 31),
    ]


class _Computing(Structure):
    _fields_: ClassVar[_Fields] = [
        ("cores", c_float),
        ("vectors", c_float),
        ("queues", c_ushort * 8),
        ("memory", c_ulonglong),
        ("ids", c_uint * 4),
        ("schedulers", c_ushort),
        ("host_control", c_ushort),
        ("host_aicpu", c_ushort),
        ("aicpu", c_ushort),
        ("slots", c_ushort),
        ("load", c_uint),
        ("memory_total", c_ulonglong),
        ("memory_free", c_ulonglong),
        ("reserved", c_ubyte * 12),
    ]


class _Media(Structure):
    _fields_: ClassVar[_Fields] = [
        ("jpegd", c_float),
        ("jpege", c_float),
        ("vpc", c_float),
        ("vdec", c_float),
        ("pngd", c_float),
        ("venc", c_float),
        ("reserved", c_ubyte * 32),
    ]


class Resources(Structure):
    """The three resource structures that every query of vNPUs ends with; memory in MiB."""

    _fields_: ClassVar[_Fields] = [("base", _Base), ("computing", _Computing), ("media", _Media)]


class VdeviceInfo(Structure):
    """struct dcmi_vdev_query_stru: `id` goes in."""

    _fields_: ClassVar[_Fields] = [
        ("id", c_uint),
        # c_char would end the name at a byte that may not be there: it fills all 16.
        ("pad", c_uint),
        ("name", c_ubyte * 16),
        ("status", c_uint),
        ("in_use", c_uint),
        ("function", c_uint),
        ("group", c_uint),
        ("container", c_ulonglong),
        ("resources", Resources),
    ]


class TotalInfo(Structure):
    """struct dcmi_soc_total_resource."""

    _fields_: ClassVar[_Fields] = [
        ("number", c_uint),
        ("ids", c_uint * MOST_VDEVICES),
        ("groups", c_uint),
        ("group_bits", c_uint),
        ("resources", Resources),
    ]


class FreeInfo(Structure):
    """struct dcmi_soc_free_resource."""

    _fields_: ClassVar[_Fields] = [("groups", c_uint), ("group_bits", c_uint), ("resources", Resources)]


class VdeviceRequest(Structure):
    """struct dcmi_create_vdev_res_stru."""

    _fields_: ClassVar[_Fields] = [
        ("id", c_uint),
        ("group", c_uint),
        ("template", c_char * 32),
        ("reserved", c_ubyte * 64),
    ]


class CreatedVdevice(Structure):
    """struct dcmi_create_vdev_out."""

    _fields_: ClassVar[_Fields] = [
        ("id", c_uint),
        ("bus", c_uint),
        ("slot", c_uint),
        ("function", c_uint),
        ("group", c_uint),
        ("reserved", c_ubyte * 32),
    ]
