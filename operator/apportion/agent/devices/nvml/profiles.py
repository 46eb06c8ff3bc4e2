"""The MIG profiles of one GPU, as its driver reports them; no table of models is used.

In: a session and a GPU. Out: MIG profiles, one per GPU instance profile. NVML has two kinds of profile number: the constants
0..COUNT-1 only find a profile's description, whose `id` every other call wants.
"""

import math
import re
from collections.abc import Iterator, Mapping
from ctypes import byref, c_uint
from dataclasses import dataclass
from typing import Any

import pynvml
import structlog

from apportion.agent.devices.nvml.session import NOT_OFFERED, Session, text
from apportion.agent.devices.values import MIB, CounterAmounts, Placement, Profile

_log = structlog.get_logger()

_SUFFIXES = {
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1: "+me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1: "+me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_3_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX: "+gfx",
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_NO_ME: "-me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME: "-me",
    pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME: "+me.all",
    pynvml.NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME: "+me.all",
}
_NEW_CONSTANTS = 8
"""Constants beyond those that the binding knows: a newer driver may have more."""
_EIGHTHS = 8
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A GPU instance profile, with what creating and listing need beyond the profile itself."""

    profile: Profile
    id: int
    """GPU instance profile id."""
    slices: int
    """Compute slices; a compute instance of as many fills the instance."""
    room: int
    """How many rows a list of its instances can have."""


def mig_profiles(
    session: Session, gpu: Any, memory: int, names: Mapping[int, str], about: str
) -> tuple[MigProfile, ...]:
    """Discover every profile that has a placement; `memory` is the GPU's in bytes, for names that the driver leaves out.

    `names` are those under which partitions exist on the GPU, by profile id. A profile for which the driver has the name of another
    one of these is left out: two profiles of one name could be taken for each other.
    """
    found: dict[int, MigProfile] = {}
    for constant, info in _infos(session, gpu, about):
        placements = _placements(session, gpu, info.id, about)
        name = names.get(info.id) or _name(info, constant, memory)
        if info.id not in names and name in names.values():
            _log.warning("nvml.profile_left_out", card=about, profile=name, id=info.id)
            continue
        if placements and info.id not in found:
            profile = Profile(
                name=name,
                number=info.id,
                amounts=_amounts(info),
                placements=placements,
                # Some drivers count wrongly (A30): there are never more instances than places.
                most=min(info.instanceCount, len(placements)) or len(placements),
            )
            found[info.id] = MigProfile(
                profile, info.id, info.sliceCount, room=max(info.instanceCount, len(placements))
            )
    return tuple(found.values())


def totals(migs: tuple[MigProfile, ...]) -> CounterAmounts:
    """Return what partitions can take together: of everything, the most that one profile has (NVIDIA's own rule)."""
    keys = migs[0].profile.amounts if migs else ()
    return {key: max(mig.profile.amounts[key] for mig in migs) for key in keys}


def memory_slices(migs: tuple[MigProfile, ...]) -> int:
    """Return how many memory slices the GPU has: as many as the largest placement."""
    return max((place.size for mig in migs for place in mig.profile.placements), default=0)


def computed_name(slices: int, memory_mb: int, total: int, suffix: str = "") -> str:
    """Name a profile as NVIDIA's tools do: memory in eighths of the GPU's, rounded up, in GB of the whole."""
    eighths = math.ceil(_EIGHTHS * memory_mb * MIB / total) / _EIGHTHS
    return f"{slices}g.{math.floor(eighths * math.ceil(total / _GIB) + 0.5)}gb{suffix}"


def _infos(session: Session, gpu: Any, about: str) -> Iterator[tuple[int, Any]]:
    function = "nvmlDeviceGetGpuInstanceProfileInfo"
    for constant in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT + _NEW_CONSTANTS):
        for version in (2, 1):
            info = session.ask(function, gpu, constant, version, none_on=NOT_OFFERED, about=about)
            if info is not None:
                yield constant, info
                break


def _placements(session: Session, gpu: Any, number: int, about: str) -> tuple[Placement, ...]:
    function = "nvmlDeviceGetGpuInstancePossiblePlacements"
    count = c_uint()
    if session.ask(function, gpu, number, None, byref(count), none_on=NOT_OFFERED, about=about) is None:
        return ()
    rows = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    session.call(function, gpu, number, rows, byref(count), about=about)
    return tuple(sorted(Placement(row.start, row.size) for row in rows[: count.value]))


def _name(info: Any, constant: int, memory: int) -> str:
    found = re.search(r"\d+g\.\d+gb\S*", text(getattr(info, "name", "")))
    if found is not None:
        return found[0]
    return computed_name(info.sliceCount, info.memorySizeMB, memory, _SUFFIXES.get(constant, ""))


def _amounts(info: Any) -> CounterAmounts:
    return {
        "memory": info.memorySizeMB * MIB,
        "multiprocessors": info.multiprocessorCount,
        "copy-engines": info.copyEngineCount,
        "decoders": info.decoderCount,
        "encoders": info.encoderCount,
        "jpeg-engines": info.jpegCount,
        "ofa-engines": info.ofaCount,
    }
