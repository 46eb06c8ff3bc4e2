"""Invariants of one node, checked without the product's code.

In: an observation of hardware, CDI folder, API and containers. Out: violations in words. `always` holds at any moment, also
while no agent runs; `at_rest` holds once all scenarios have ended.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from testbed.chaos.fakehardware import LivePartition, overlap

LEAKED: Final = "leaked"
DOUBLED: Final = "doubled"
KILLED: Final = "killed_in_use"
MISDIRECTED: Final = "misdirected"
PERCENTAGE: Final = 50
"""Of a GPU's threads that claims with MPS ask for."""
LONG: Final = 3
"""The time slice that claims ask for, as nvidia-smi compute-policy has it."""
KINDS: Final = (LEAKED, DOUBLED, KILLED, MISDIRECTED)


@dataclass(frozen=True, slots=True)
class Container:
    """A container that kubelet runs: its claim was prepared and not unprepared."""

    claim: str
    """UID."""
    device: str
    card: str
    uuid: str
    """Of the partition or card in its CDI edits."""
    share: str = ""
    """ID of its share of a card that several claims use."""
    sharing: str = ""
    """Strategy by which its claim asks for its programs to share the card: "MPS", "TimeSlicing"."""


@dataclass(frozen=True, slots=True)
class CardSetup:
    """How programs share one card now."""

    exclusive: bool = False
    """Whether its compute mode takes one process at a time."""
    time_slice: int = 0
    """0: the driver's own."""
    daemons: tuple[str, ...] = ()
    """What each control daemon answers as the default share of threads, in percent."""


@dataclass(frozen=True, slots=True)
class CdiFile:
    """A CDI file, the claim that its name says, and the UUIDs that it injects."""

    name: str
    claim: str
    uuids: frozenset[str]
    minors: tuple[tuple[str, int], ...] = ()
    """UUIDs with the minors of the GPU files that stand beside them."""
    shares: frozenset[str] = frozenset()
    """Those of the UUIDs of which it has a share."""


@dataclass(frozen=True, slots=True)
class PodInterface:
    """A NIC's network interface, which is on the host or in the pod of a claim."""

    claim: str
    """UID, "" while no claim has it."""
    running: bool
    """Whether a container of the pod runs."""
    in_pod: bool
    """Whether it is in the pod's network, set up."""
    on_host: bool
    """Whether it is on the host, as it was before the first claim."""
    left: tuple[str, ...] = ()
    """Files that the agent keeps about it."""


@dataclass(frozen=True, slots=True)
class Observation:
    """State of one node at one moment."""

    live: tuple[LivePartition, ...]
    """Partitions on the hardware."""
    whole: frozenset[str]
    """Cards that are not partitioned."""
    cards: Mapping[str, str]
    """UUID of each card."""
    cdi_files: tuple[CdiFile, ...]
    stray_files: tuple[str, ...]
    """Files in the CDI folder without the ending of a CDI file."""
    containers: tuple[Container, ...]
    foreign: frozenset[str]
    """UUIDs of partitions that the agent did not make."""
    objects: tuple[Mapping[str, Any], ...] = ()
    """Partition objects."""
    minors: Mapping[str, int] = field(default_factory=dict)
    """Minor that the driver gives the GPU of a card or partition now, by UUID."""
    setups: Mapping[str, CardSetup] = field(default_factory=dict)
    """By card."""
    daemon_folders: tuple[str, ...] = ()
    """Folders of control daemons."""
    interface: PodInterface | None = None
    """None where the node has no NIC."""


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One violated invariant."""

    kind: str
    text: str


def always(observation: Observation) -> Iterator[Violation]:
    """Yield violations of what must hold at every moment."""
    live = {partition.uuid for partition in observation.live if partition.uuid}
    for container in observation.containers:
        about = f"claim {container.claim} runs on {container.device}"
        if container.device != container.card:
            if container.uuid not in live:
                yield Violation(KILLED, f"{about}, and {container.uuid} is not on the hardware any more")
        elif container.card not in observation.whole:
            yield Violation(KILLED, f"{about}, and the card was cut or is in partition mode")
    for uuid in sorted(observation.foreign - live):
        yield Violation(KILLED, f"{uuid}, which the agent did not make, is not on the hardware any more")
    for container in observation.containers:
        setup = observation.setups.get(container.card)
        if setup is not None and container.sharing and not _is_set_up(container.sharing, setup):
            about = f"claim {container.claim} runs on {container.device} with {container.sharing}"
            yield Violation(MISDIRECTED, f"{about}, and finds {setup}")
    interface = observation.interface
    if interface is not None and interface.running and not interface.in_pod:
        yield Violation(
            MISDIRECTED, f"claim {interface.claim} runs, and its interface is not in the pod's network"
        )
    yield from _used_twice(observation.containers)
    yield from _wrong_files(observation)
    for position, partition in enumerate(observation.live):
        for other in observation.live[position + 1 :]:
            if overlap(partition, other):
                yield Violation(DOUBLED, f"{_where(partition)} and {_where(other)} overlap on the hardware")


def _wrong_files(observation: Observation) -> Iterator[Violation]:
    """Yield what CDI files give to two claims, or of another card than the claim has."""
    users: dict[str, set[str]] = defaultdict(set)
    alone: set[str] = set()
    for file in observation.cdi_files:
        alone |= file.uuids - file.shares
        for uuid in file.uuids:
            users[uuid].add(file.claim)
    for uuid, claims in users.items():
        if len(claims) > 1 and uuid in alone:
            yield Violation(DOUBLED, f"{uuid} is in the CDI files of the claims {', '.join(sorted(claims))}")
    for file in observation.cdi_files:
        for uuid, minor in file.minors:
            right = observation.minors.get(uuid, minor)
            if minor != right:
                yield Violation(
                    MISDIRECTED,
                    f"claim {file.claim} has {uuid}, which is /dev/nvidia{right}, and gets /dev/nvidia{minor}",
                )


def _used_twice(containers: Iterable[Container]) -> Iterator[Violation]:
    seen: list[Container] = []
    for one in containers:
        for other in seen:
            if one.card == other.card and one.claim != other.claim:
                whole = one.card in (one.device, other.device)
                if one.share and other.share and one.share != other.share and one.device == other.device:
                    continue
                if whole or one.uuid == other.uuid or one.device == other.device:
                    yield Violation(
                        DOUBLED, f"the claims {other.claim} and {one.claim} both run on {one.device}"
                    )
        seen.append(one)


def at_rest(observation: Observation) -> Iterator[Violation]:
    """Yield violations of what must hold when nothing changes any more: leftovers, and what is missing."""
    live = {partition.uuid for partition in observation.live if partition.uuid}
    wanted: Counter[tuple[str, str, int]] = Counter()
    for item in observation.objects:
        spec = item["spec"]
        wanted[spec["parent"], spec["profile"], spec["placement"]["start"]] += 1
        problem = _problem(item, live, observation.containers)
        if problem:
            yield Violation(LEAKED, f"Partition {item['metadata']['name']} {problem}")
    for partition in observation.live:
        if partition.uuid in observation.foreign:
            continue
        if not partition.uuid:
            yield Violation(LEAKED, f"{_where(partition)} is half made")
        elif not wanted[partition.card, partition.profile, partition.start]:
            yield Violation(LEAKED, f"{_where(partition)} is on the hardware, and nobody owns it")
    yield from _cdi_mismatches(observation, live)
    yield from _left_setups(observation)
    interface = observation.interface
    if interface is not None and not interface.running:
        if not interface.on_host:
            yield Violation(LEAKED, "the interface of the NIC is not on the host as it was")
        for name in interface.left:
            yield Violation(LEAKED, f"{name} is left of an interface that no claim has")


def _is_set_up(sharing: str, setup: CardSetup) -> bool:
    if sharing == "MPS":
        return setup.exclusive and setup.daemons == (f"{PERCENTAGE}.0",)
    return not setup.exclusive and setup.time_slice == LONG


def _left_setups(observation: Observation) -> Iterator[Violation]:
    """Yield what is set up for no container."""
    wanted = {(container.card, container.sharing) for container in observation.containers}
    for card, setup in observation.setups.items():
        if (setup.exclusive or setup.daemons) and (card, "MPS") not in wanted:
            yield Violation(LEAKED, f"{card} is set up for MPS, and no claim has it so: {setup}")
        if setup.time_slice and (card, "TimeSlicing") not in wanted:
            yield Violation(LEAKED, f"{card} has time slice {setup.time_slice}, and no claim has it so")
    if observation.daemon_folders and not any(sharing == "MPS" for _, sharing in wanted):
        yield Violation(LEAKED, f"folders of control daemons are left: {observation.daemon_folders}")


def _problem(item: Mapping[str, Any], live: set[str], containers: Iterable[Container]) -> str:
    """Return what is wrong with a Partition object, "" if nothing is."""
    spec, status = item["spec"], item.get("status") or {}
    phase, uuid = status.get("phase"), status.get("uuid")
    if "deletionTimestamp" in item["metadata"]:
        return "is being deleted and does not go"
    if phase not in ("Ready", "Idle"):
        return f"stays {phase}: {_ready_condition(status)}"
    if uuid not in live:
        return f"says UUID {uuid}, which is not on the hardware"
    if phase != ("Ready" if spec.get("holder") else "Idle"):
        return f"says {phase}, and its holder is {spec.get('holder')}"
    users = sorted(one.claim for one in containers if one.uuid == uuid)
    users_in_status = status.get("preparedBy") or []
    return f"says preparedBy {users_in_status}, not {users}" if users != users_in_status else ""


def _cdi_mismatches(observation: Observation, live: set[str]) -> Iterator[Violation]:
    """Yield CDI files without a container, and containers without a CDI file."""
    running = {one.claim for one in observation.containers}
    if observation.interface is not None and observation.interface.running:
        running.add(observation.interface.claim)
    for file in observation.cdi_files:
        if file.claim not in running:
            yield Violation(LEAKED, f"the CDI file {file.name} is left of claim {file.claim}")
        for uuid in sorted(file.uuids - live - set(observation.cards.values())):
            yield Violation(LEAKED, f"the CDI file {file.name} names {uuid}, which is not on the hardware")
    for claim in sorted(running - {file.claim for file in observation.cdi_files}):
        yield Violation(LEAKED, f"claim {claim} runs, and its CDI file is gone")
    for name in observation.stray_files:
        yield Violation(LEAKED, f"{name} is in the CDI folder")


def _ready_condition(status: Mapping[str, Any]) -> str:
    ready: Mapping[str, Any] = next(
        (row for row in status.get("conditions") or () if row["type"] == "Ready"), {}
    )
    return f"{ready.get('reason', '')} {ready.get('message', '')}".strip()


def _where(partition: LivePartition) -> str:
    return f"{partition.profile} at {partition.start} of {partition.card}"
