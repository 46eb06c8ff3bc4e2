"""The NVIDIA GPUs of this node as cards.

In: a session, the root of the host's file system. Out: GPUs: each a card with attributes under the names of NVIDIA's DRA
driver, and its MIG shapes. A GPU keeps the name that its UUID got first: NVML's index is a position in a list which GPUs leave.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pynvml
import structlog

from apportion.agent.devices import pci
from apportion.agent.devices.cardcalls import CardCalls
from apportion.agent.devices.names import CardNames
from apportion.agent.devices.nvml import profiles
from apportion.agent.devices.nvml.fabric import Fabric, fabric
from apportion.agent.devices.nvml.knownprofiles import KnownProfiles
from apportion.agent.devices.nvml.links import Links
from apportion.agent.devices.nvml.profiles import MigProfile
from apportion.agent.devices.nvml.session import HOW_TO_RESET, NOT_OFFERED, NoSession, Session, text
from apportion.agent.devices.values import UNCUT, Card, CardKind
from apportion.dra.device import Scalar
from apportion.dra.semver import Semver
from apportion.errors import HardwareError

_log = structlog.get_logger()

_STEM = "gpu"
HOPPER = pynvml.NVML_DEVICE_ARCH_HOPPER
"""From here on MIG mode switches without a reset of the GPU."""
_ARCHITECTURES = {
    pynvml.NVML_DEVICE_ARCH_KEPLER: "Kepler",
    pynvml.NVML_DEVICE_ARCH_MAXWELL: "Maxwell",
    pynvml.NVML_DEVICE_ARCH_PASCAL: "Pascal",
    pynvml.NVML_DEVICE_ARCH_VOLTA: "Volta",
    pynvml.NVML_DEVICE_ARCH_TURING: "Turing",
    pynvml.NVML_DEVICE_ARCH_AMPERE: "Ampere",
    pynvml.NVML_DEVICE_ARCH_ADA: "Ada Lovelace",
    pynvml.NVML_DEVICE_ARCH_HOPPER: "Hopper",
    pynvml.NVML_DEVICE_ARCH_BLACKWELL: "Blackwell",
    pynvml.NVML_DEVICE_ARCH_RUBIN: "Rubin",
}
_BRANDS = {
    pynvml.NVML_BRAND_QUADRO: "Quadro",
    pynvml.NVML_BRAND_TESLA: "Tesla",
    pynvml.NVML_BRAND_GEFORCE: "GeForce",
    pynvml.NVML_BRAND_TITAN: "Titan",
    pynvml.NVML_BRAND_QUADRO_RTX: "QuadroRTX",
    pynvml.NVML_BRAND_NVIDIA_RTX: "NvidiaRTX",
    pynvml.NVML_BRAND_NVIDIA: "Nvidia",
    pynvml.NVML_BRAND_GEFORCE_RTX: "GeForceRTX",
    pynvml.NVML_BRAND_TITAN_RTX: "TitanRTX",
}
_ADDRESSING = {
    pynvml.NVML_DEVICE_ADDRESSING_MODE_NONE: "None",
    pynvml.NVML_DEVICE_ADDRESSING_MODE_HMM: "HMM",
    pynvml.NVML_DEVICE_ADDRESSING_MODE_ATS: "ATS",
}


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: what slices publish, and what the driver needs."""

    card: Card
    architecture: int
    migs: tuple[MigProfile, ...]
    """Every profile it can be cut into; empty when it cannot be cut as it is."""
    on_fabric: bool = False
    """Whether it belongs to an NVLink fabric, joined or not."""
    in_mig_mode: bool = False
    """Whether MIG mode was on when its shapes were asked for."""

    @property
    def name(self) -> str:
        """The card's name."""
        return self.card.name

    @property
    def divisible(self) -> bool:
        """Whether it can be cut, as it is or in MIG mode."""
        return bool(self.migs) or UNCUT in self.card.attributes

    def mig(self, profile: str) -> MigProfile | None:
        """Return the shape of this profile name, None when the GPU does not offer it."""
        return next((mig for mig in self.migs if mig.profile.name == profile), None)


def discover(
    session: Session, root: Path, names: CardNames, calls: CardCalls, links: Links, known: KnownProfiles
) -> tuple[tuple[Gpu, ...], frozenset[str]]:
    """Look at every GPU, in NVML's order (by PCI bus id); `known` are profiles that the driver named before.

    Returns them, and the names of those that do not answer or that the driver has no more.
    """
    count = session.call("nvmlDeviceGetCount")
    handles = calls.ask("identity", {index: partial(_identity, session, index) for index in range(count)})
    left_out: set[str] = set()
    described: dict[str, Callable[[], Gpu]] = {}
    for index, identity in handles.items():
        if isinstance(identity, Exception):
            _leave_out(left_out, f"{_STEM}-{index}", identity)
        else:
            handle, uuid = identity
            name = names.name(_STEM, uuid, index)
            described[name] = partial(_gpu, session, handle, uuid, name, root, names, known)
    found: list[Gpu] = []
    for name, gpu in calls.ask("description", described).items():
        if isinstance(gpu, Exception):
            _leave_out(left_out, name, gpu)
        else:
            found.append(gpu)
    left_out |= {name for name in names.known() if name.startswith(f"{_STEM}-")}
    left_out -= {gpu.name for gpu in found}
    groups = links.groups({gpu.name: gpu.card for gpu in found})
    for index, gpu in enumerate(found):
        if gpu.name in groups:
            attributes = {**gpu.card.attributes, "nvlinkGroup": groups[gpu.name]}
            found[index] = replace(gpu, card=replace(gpu.card, attributes=attributes))
    return tuple(found), frozenset(left_out)


def _identity(session: Session, index: int) -> tuple[Any, str]:
    name = f"{_STEM}-{index}"
    handle = session.call("nvmlDeviceGetHandleByIndex", index, about=name)
    return handle, text(session.call("nvmlDeviceGetUUID", handle, about=name))


def _leave_out(left_out: set[str], name: str, error: Exception) -> None:
    """Take note of a GPU that did not answer, or not in time; raises NoSession, which is about all of them.

    Whatever it answers (lost ones say "Unknown Error", too) concerns this GPU only. The others work; this one may answer
    after a reset, and a later discovery finds it.
    """
    if isinstance(error, NoSession):
        raise error
    left_out.add(name)
    _log.warning("nvml.gpu_left_out", card=name, error=str(error))


def numbers(version: str) -> Semver:
    """Read a driver's version: `535.104.05` -> 535.104.5 (semantic versions have no leading zeros)."""
    parts = [int(part) for part in version.split(".") if part.isdigit()][:3]
    return Semver.parse(".".join(str(part) for part in (*parts, 0, 0, 0)[:3]))


def _gpu(
    session: Session, handle: Any, uuid: str, name: str, root: Path, names: CardNames, known: KnownProfiles
) -> Gpu:
    def call(function: str, *args: Any) -> Any:
        return session.call(function, handle, *args, about=name)

    session.remember(uuid, handle)
    info = session.ask("nvmlDeviceGetMemoryInfo", handle, none_on=NOT_OFFERED, about=name)
    memory = int(info.total) if info is not None else 0
    architecture = int(call("nvmlDeviceGetArchitecture"))
    migs, uncut, in_mig_mode = _mig_profiles(session, handle, uuid, name, memory, architecture, names, known)
    totals = profiles.totals(migs)
    place = _fabric(session, handle, name)
    card = Card(
        name=name,
        kind=CardKind.GPU,
        uuid=uuid,
        location=pci.locate(text(call("nvmlDeviceGetPciInfo").busId), root),
        attributes=_attributes(session, handle, name, architecture)
        | (place.attributes if place is not None else {})
        | ({UNCUT: uncut} if uncut else {})
        # GB10 has no memory of its own; the name is that of NVIDIA's DRA driver (its pull request 1121).
        | ({} if memory else {"memoryType": "unified"}),
        capacity={**totals, "memory": memory} if memory else {},
        totals=totals,
        slices=profiles.memory_slices(migs),
        profiles=tuple(mig.profile for mig in migs),
        parts_only=bool(migs) and architecture < HOPPER,
    )
    return Gpu(card, architecture, migs, on_fabric=place is not None, in_mig_mode=in_mig_mode)


def _fabric(session: Session, handle: Any, name: str) -> Fabric | None:
    try:
        return fabric(session, handle, name)
    except NoSession:
        raise
    except HardwareError as error:
        # It may have a fabric, and is asked when its health is.
        _log.warning("nvml.fabric_unknown", card=name, error=str(error))
        return Fabric("Unknown", {})


def _mig_profiles(
    session: Session,
    handle: Any,
    uuid: str,
    name: str,
    memory: int,
    architecture: int,
    names: CardNames,
    known: KnownProfiles,
) -> tuple[tuple[MigProfile, ...], str, bool]:
    """Return the shapes, why there are none on a GPU that could be cut, and whether MIG mode is on."""
    mode = session.ask("nvmlDeviceGetMigMode", handle, none_on=NOT_OFFERED, about=name)
    if mode is None or not memory:
        return (), "", False
    on = bool(mode[0])
    virtual = session.ask("nvmlDeviceGetVirtualizationMode", handle, none_on=NOT_OFFERED, about=name)
    if virtual == pynvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU:
        # What it is of the physical GPU is decided on its host (NVIDIA's DRA driver refuses such guests altogether).
        return (), "VirtualGPU", on
    if not on and architecture < HOPPER:
        # Profiles that need a reset first are not offered: the agent could not cut them on demand.
        _log.warning(
            "nvml.mig_needs_reset", card=name, hint=f"nvidia-smi -mig 1, then a reset; {HOW_TO_RESET}"
        )
        return (), "MIGModeNeedsReset", on
    found = profiles.mig_profiles(session, handle, memory, names.profiles(uuid), name)
    driver = text(session.call("nvmlSystemGetDriverVersion"))
    if found and on:
        known.put(uuid, driver, found)
    # Drivers of the 535 line report no profiles while MIG mode is off.
    found = found or known.get(uuid, driver)
    if not found:
        _log.warning("nvml.mig_profiles_unknown", card=name, hint="switch MIG mode on with nvidia-smi -mig 1")
    return found, "" if found else "MIGProfilesUnknown", on


def _attributes(session: Session, handle: Any, name: str, architecture: int) -> dict[str, Scalar]:
    major, minor = session.call("nvmlDeviceGetCudaComputeCapability", handle, about=name)
    cuda = int(session.call("nvmlSystemGetCudaDriverVersion"))
    found: dict[str, Scalar] = {
        "productName": text(session.call("nvmlDeviceGetName", handle, about=name)),
        "brand": _BRANDS.get(session.call("nvmlDeviceGetBrand", handle, about=name), "Unknown"),
        "architecture": _ARCHITECTURES.get(architecture, "Unknown"),
        "cudaComputeCapability": Semver.parse(f"{major}.{minor}.0"),
        "driverVersion": numbers(text(session.call("nvmlSystemGetDriverVersion"))),
        "cudaDriverVersion": Semver.parse(f"{cuda // 1000}.{cuda % 1000 // 10}.0"),
    }
    mode = session.ask("nvmlDeviceGetAddressingMode", handle, none_on=NOT_OFFERED, about=name)
    if mode in _ADDRESSING:
        found["addressingMode"] = _ADDRESSING[mode]
    return found
