"""The Ascend chips of this node as cards.

In: a session, the root of the host's file system. Out: chips: each a card with its attributes and profiles. A chip is
named by its physical id, which is also in the name of its device file.
"""

from collections.abc import Callable, Mapping
from ctypes import byref, c_int, c_uint
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from apportion.agent.devices import models, pci
from apportion.agent.devices.ascend import templates, topology, vnpus
from apportion.agent.devices.ascend.driverversion import driver_version
from apportion.agent.devices.ascend.knowntemplates import KnownTemplates
from apportion.agent.devices.ascend.ranktable import addresses
from apportion.agent.devices.ascend.session import NOT_PERMITTED, Session
from apportion.agent.devices.ascend.structures import (
    CHIP_INFO,
    DDIE,
    MOST_CARDS,
    SUPER_POD,
    VDIE,
    ChipInfo,
    DieId,
    HbmInfo,
    MemoryInfo,
    PcieInfo,
    PodInfo,
)
from apportion.agent.devices.ascend.vnpus import ChipAddress
from apportion.agent.devices.cardcalls import CardCalls
from apportion.agent.devices.models import CardModel
from apportion.agent.devices.values import MIB, UNCUT, Card, CardKind, CounterAmounts, Location, Profile
from apportion.dra.device import Scalar
from apportion.dra.semver import Semver
from apportion.errors import BrokenInput, HardwareError

_log = structlog.get_logger()

DcmiAddress = tuple[int, int]
"""A card of DCMI and the number of a chip on it."""

IDS = 16
FIRST_ID = 100
"""A chip's vNPU ids are its physical id * 16 + 100 and up: 16 of them on training chips, 8 on a 310P."""
_IDS_310P = 8
_VM_MODE: Final = "VirtualMachineMode"
_NOT_PERMITTED: Final = "NotPermitted"
_HINTS: Final = {
    _VM_MODE: "npu-smi set -t vnpu-mode -d 0",
    _NOT_PERMITTED: "vNPUs need root, on the host or in a privileged container",
}
_HOST_ONLY_MODE: Final = frozenset({"310P", "910A"})
"""Families that tell their mode in no container, not even to those who may cut them there: creation decides. Source:
dcmi_get_vdevice_mode and dcmi_check_set_vnpu_permission of the open driver."""


@dataclass(frozen=True, slots=True)
class Chip:
    """One chip: what slices publish, and what the driver needs."""

    card: Card
    address: ChipAddress
    phy: int
    divisible: bool
    """Whether the driver answers questions about vNPUs, as it does not on chips that have none."""

    @property
    def name(self) -> str:
        """The card's name."""
        return self.card.name


def discover(
    session: Session, root: Path, calls: CardCalls, links: topology.Topology, known: KnownTemplates
) -> tuple[tuple[Chip, ...], tuple[DcmiAddress, ...]]:
    """Look at every chip, in the order of their physical ids; returns them, and where chips are that do not answer."""
    version = driver_version(session)
    mode = _mode(session)
    places, left_out = _addresses(session, calls)
    nics = addresses(root)
    found = []
    looks = {place: partial(_chip, session, place, root, version, mode, known) for place in places}
    for place, chip in calls.ask("chip", looks).items():
        if isinstance(chip, Exception):
            # The others work; this one may answer after a reset, and a later discovery finds it.
            _log.warning("ascend.chip_left_out", card=place[0], device=place[1], error=str(chip))
            left_out.append(place)
        else:
            found.append(_with_address(chip, nics))
    found.sort(key=lambda chip: chip.phy)
    nodes = [
        topology.Node(chip.address, chip.card.uuid, str(chip.card.attributes["model"]), chip.phy)
        for chip in found
    ]
    groups = links.groups(nodes, len(found) + len(left_out))
    for index, chip in enumerate(found):
        if chip.name in groups:
            attributes = {**chip.card.attributes, "hccsGroup": groups[chip.name]}
            found[index] = replace(chip, card=replace(chip.card, attributes=attributes))
    return tuple(found), tuple(left_out)


def _addresses(session: Session, calls: CardCalls) -> tuple[list[DcmiAddress], list[DcmiAddress]]:
    """Return where chips are, and the first chip of each card that does not say how many it has."""
    count = c_int()
    cards = (c_int * MOST_CARDS)()
    if session.second:
        session.call("dcmiv2_get_device_list", cards, byref(count), MOST_CARDS)
        return [(device, device) for device in cards[: count.value]], []
    session.call("dcmi_get_card_list", byref(count), cards, MOST_CARDS)
    counts = calls.ask("card", {card: partial(_count, session, card) for card in cards[: count.value]})
    found, left_out = [], []
    for card, chips in counts.items():
        if isinstance(chips, Exception):
            _log.warning("ascend.card_left_out", card=card, error=str(chips))
            left_out.append((card, 0))
        else:
            found += [(card, device) for device in range(chips)]
    return found, left_out


def _count(session: Session, card: int) -> int:
    chips, mcu, cpu = c_int(), c_int(), c_int()
    # Behind the chips comes the card's controller, which is none.
    arguments = card, byref(chips), byref(mcu), byref(cpu)
    session.call("dcmi_get_device_id_in_card", *arguments, about=f"card {card}")
    return chips.value


def _chip(
    session: Session, place: DcmiAddress, root: Path, version: Semver | None, mode: str, known: KnownTemplates
) -> Chip:
    card, device = place
    about = f"card {card} chip {device}"
    phy = _phy(session, card, device, about)
    address = ChipAddress(f"npu-{phy}", card, device)
    info = ChipInfo()
    session.call("dcmi_get_device_chip_info_v2", card, device, byref(info), about=address.name)
    chip = info.name.decode(errors="replace")
    memory = _memory(session, address)
    board = session.number("dcmi_get_device_board_id", card, device, about=address.name)
    model = models.of_chip(chip, board, memory)
    ids = _ids(phy, model, chip)
    location = _location(session, address, root)
    uuid = _uuid(session, address, location)
    ask = partial(known.ask, card, root, uuid, str(version or ""))
    totals, profiles, reason = _split(session, address, model, root, mode, ids, ask)
    # DCMI's card is what carries chips: an A3 module of two, a Duo card of two, else one.
    attributes: dict[str, Scalar] = {"model": chip, "cardId": card, "moduleId": card, "chipId": device}
    if version is not None:
        attributes["driverVersion"] = version
    attributes |= _super_pod(session, address)
    if reason:
        attributes[UNCUT] = reason
    capacity = totals or {"aicore": info.aicores, "memory": memory}
    return Chip(
        card=Card(
            name=address.name,
            kind=CardKind.NPU,
            uuid=uuid,
            location=location,
            attributes=attributes,
            capacity=capacity,
            totals=totals if profiles else {},
            profiles=profiles,
            instance_ids=ids if profiles else (),
        ),
        address=address,
        phy=phy,
        divisible=bool(totals),
    )


def _phy(session: Session, card: int, device: int, about: str) -> int:
    logic, phy = c_int(), c_uint()
    if session.second:
        session.call("dcmiv2_get_chip_phy_id_by_dev_id", device, byref(phy), about=about)
        return phy.value
    session.call("dcmi_get_device_logic_id", byref(logic), card, device, about=about)
    session.call("dcmi_get_device_phyid_from_logicid", c_uint(logic.value), byref(phy), about=about)
    return phy.value


def _memory(session: Session, address: ChipAddress) -> int:
    """Return the memory for programs, in bytes: HBM where the chip has it, else DDR; 0 when it reports neither."""
    for function, out in (
        ("dcmi_get_device_hbm_info", HbmInfo()),
        ("dcmi_get_device_memory_info_v3", MemoryInfo()),
    ):
        if (
            session.answers(function, address.card, address.device, byref(out), about=address.name)
            and out.size
        ):
            return int(out.size) * MIB
    return 0


def _split(
    session: Session,
    address: ChipAddress,
    model: CardModel | None,
    root: Path,
    mode: str,
    ids: tuple[int, ...],
    ask: Callable[[], Mapping[str, CounterAmounts]],
) -> tuple[CounterAmounts, tuple[Profile, ...], str]:
    """Return totals, profiles, and why there are none; `ask` returns amounts by template.

    Raises HardwareError when nobody knows whether there are vNPUs: with some on it the chip must not be given away whole.
    """
    reported = vnpus.total(session, address)
    if reported is None:
        if model is not None and any((root / "dev" / f"vdavinci{number}").exists() for number in ids):
            raise HardwareError(
                f"{address.name}: its driver says that it has no vNPUs, and device files of some are there"
            )
        _log.info("ascend.no_vnpus", card=address.name)
        return {}, (), "NotSupported"
    known = model.totals if model is not None else {}
    totals = {key: reported.get(key, known.get(key, 0)) for key in (*reported, *known)}
    if "aicpu" in known:
        # Splitting turns data CPUs into AI CPUs: a chip that is whole shows fewer than its vNPUs can take.
        totals["aicpu"] = max(totals["aicpu"], known["aicpu"])
    if mode and not (mode == _NOT_PERMITTED and model is not None and model.family in _HOST_ONLY_MODE):
        _log.warning("ascend.not_cut", card=address.name, reason=mode, hint=_HINTS[mode])
        return totals, (), mode
    profiles = templates.profiles(ask(), model, totals)
    if not profiles:
        _log.warning(
            "ascend.templates_unknown",
            card=address.name,
            hint="the chip is published whole; make npu-smi visible to the agent to cut it",
        )
    return totals, profiles, "" if profiles else "UnknownChip"


def _mode(session: Session) -> str:
    """Return why the node's mode keeps chips from being cut; "" for no reason, or for a mode that the library does not tell."""
    mode = c_int()
    code = session.ask("dcmi_get_vdevice_mode", byref(mode))
    if code == 0 and mode.value != 0:
        return _VM_MODE
    return _NOT_PERMITTED if code == NOT_PERMITTED else ""


def _super_pod(session: Session, address: ChipAddress) -> dict[str, Scalar]:
    try:
        pod = session.info(address.card, address.device, CHIP_INFO, SUPER_POD, PodInfo(), about=address.name)
    except HardwareError:
        return {}
    return {"superPodId": int(pod.pod), "serverIndex": int(pod.server), "superDeviceId": int(pod.sdid)}


def _with_address(chip: Chip, nics: Mapping[int, str]) -> Chip:
    """Return a chip with the address of the NIC that it carries (`deviceIP`), where the host says it."""
    if chip.phy not in nics:
        return chip
    attributes = {**chip.card.attributes, "deviceIP": nics[chip.phy]}
    return replace(chip, card=replace(chip.card, attributes=attributes))


def _location(session: Session, address: ChipAddress, root: Path) -> Location:
    """Return where the chip is plugged in; unknown for one in a module, or behind UB."""
    info = PcieInfo()
    function = "dcmi_get_device_pcie_info_v2"
    if not session.answers(function, address.card, address.device, byref(info), about=address.name):
        return Location("", "")
    text = f"{max(info.domain, 0):04x}:{info.bus:02x}:{info.slot:02x}.{info.function:x}"
    try:
        return pci.locate(text, root)
    except BrokenInput as error:
        raise HardwareError(f"{address.name}: {function}: {error}") from None


def _uuid(session: Session, address: ChipAddress, location: Location) -> str:
    """Name the chip by its die, which outlives slots and reboots; by its slot only where the chip has no die id at all.

    Raises HardwareError when the driver does not answer now: another name would be another chip's.
    """
    die = DieId()
    for kind in (VDIE, DDIE):
        arguments = (address.card, address.device, c_int(kind), byref(die))
        if session.answers("dcmi_get_device_die_v2", *arguments, about=address.name) and any(die.words):
            return "NPU-" + "".join(f"{word:08x}" for word in die.words)
    return f"NPU-{location.pci_bus_id or address.name}"


def _ids(phy: int, model: CardModel | None, chip: str) -> tuple[int, ...]:
    short = chip.startswith("310P") or (model is not None and model.family == "310P")
    first = phy * IDS + FIRST_ID
    return tuple(range(first, first + (_IDS_310P if short else IDS)))
