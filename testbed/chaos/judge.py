"""The judge: what is on the hardware, in the CDI folder, in the API and in kubelet's memory in, broken promises in words out.

Pure, and without a line of the product. `now` holds at any moment, also while the agent is dead; `at_rest` is what has to
be right once everybody has finished.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from testbed.chaos.ground import Cut

LEAKED: Final = "leaked"
DOUBLED: Final = "doubled"
KILLED: Final = "killed_in_use"
KINDS: Final = (LEAKED, DOUBLED, KILLED)


@dataclass(frozen=True, slots=True)
class Container:
    """What kubelet believes to run: it was prepared, and nobody has asked to unprepare it."""

    claim: str
    """UID."""
    device: str
    card: str
    uuid: str
    """What the container was given."""


@dataclass(frozen=True, slots=True)
class Injection:
    """A CDI file: which claim (by its name), which devices, which UUIDs."""

    file: str
    claim: str
    uuids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sight:
    """Everything there is to see of one node."""

    cuts: tuple[Cut, ...]
    whole: frozenset[str]
    """Cards that can be used uncut."""
    cards: Mapping[str, str]
    """UUID of each card."""
    injections: tuple[Injection, ...]
    litter: tuple[str, ...]
    """Files in the CDI folder that no runtime reads."""
    containers: tuple[Container, ...]
    strangers: frozenset[str]
    """UUIDs of partitions that people made."""
    partitions: tuple[Mapping[str, Any], ...] = ()
    """Partition objects."""


@dataclass(frozen=True, slots=True, order=True)
class Verdict:
    """One broken promise."""

    kind: str
    text: str


def now(sight: Sight) -> Iterator[Verdict]:
    """Yield what must never be, not for a moment."""
    live = {cut.uuid for cut in sight.cuts if cut.uuid}
    for container in sight.containers:
        about = f"claim {container.claim} runs on {container.device}"
        if container.device != container.card:
            if container.uuid not in live:
                yield Verdict(KILLED, f"{about}, and {container.uuid} is not on the hardware any more")
        elif container.card not in sight.whole:
            yield Verdict(KILLED, f"{about}, and the card was cut or is in partition mode")
    for uuid in sorted(sight.strangers - live):
        yield Verdict(KILLED, f"{uuid}, which a person made, is not on the hardware any more")
    yield from _twice(sight.containers)
    users: dict[str, set[str]] = defaultdict(set)
    for injection in sight.injections:
        for uuid in injection.uuids:
            users[uuid].add(injection.claim)
    for uuid, claims in users.items():
        if len(claims) > 1:
            yield Verdict(DOUBLED, f"{uuid} is in the CDI files of the claims {', '.join(sorted(claims))}")
    for position, cut in enumerate(sight.cuts):
        for other in sight.cuts[position + 1 :]:
            if (
                cut.card == other.card
                and cut.start < other.start + other.size
                and other.start < cut.start + cut.size
            ):
                yield Verdict(DOUBLED, f"{_place(cut)} and {_place(other)} overlap on the hardware")


def _twice(containers: Iterable[Container]) -> Iterator[Verdict]:
    seen: list[Container] = []
    for one in containers:
        for other in seen:
            if one.card == other.card and one.claim != other.claim:
                whole = one.card in (one.device, other.device)
                if whole or one.uuid == other.uuid or one.device == other.device:
                    yield Verdict(
                        DOUBLED, f"the claims {other.claim} and {one.claim} both run on {one.device}"
                    )
        seen.append(one)


def at_rest(sight: Sight) -> Iterator[Verdict]:
    """Yield what is left over or missing when nothing moves any more."""
    live = {cut.uuid for cut in sight.cuts if cut.uuid}
    wanted: Counter[tuple[str, str, int]] = Counter()
    for item in sight.partitions:
        spec = item["spec"]
        wanted[spec["parent"], spec["profile"], spec["placement"]["start"]] += 1
        problem = _unsettled(item, live, sight.containers)
        if problem:
            yield Verdict(LEAKED, f"Partition {item['metadata']['name']} {problem}")
    for cut in sight.cuts:
        if cut.uuid in sight.strangers:
            continue
        if not cut.uuid:
            yield Verdict(LEAKED, f"{_place(cut)} is half made")
        elif not wanted[cut.card, cut.profile, cut.start]:
            yield Verdict(LEAKED, f"{_place(cut)} is on the hardware, and nobody owns it")
    yield from _misplaced(sight, live)


def _unsettled(item: Mapping[str, Any], live: set[str], containers: Iterable[Container]) -> str:
    """Say what is not right about a Partition object, "" when all is."""
    spec, status = item["spec"], item.get("status") or {}
    phase, uuid = status.get("phase"), status.get("uuid")
    if "deletionTimestamp" in item["metadata"]:
        return "is being deleted and does not go"
    if phase not in ("Ready", "Idle"):
        return f"stays {phase}: {_why(status)}"
    if uuid not in live:
        return f"says UUID {uuid}, which is not on the hardware"
    if phase != ("Ready" if spec.get("holder") else "Idle"):
        return f"says {phase}, and its holder is {spec.get('holder')}"
    users = sorted(one.claim for one in containers if one.uuid == uuid)
    told = status.get("preparedBy") or []
    return f"says preparedBy {told}, not {users}" if users != told else ""


def _misplaced(sight: Sight, live: set[str]) -> Iterator[Verdict]:
    """Yield CDI files without a container, and containers without a CDI file that fits."""
    running = {one.claim for one in sight.containers}
    for injection in sight.injections:
        if injection.claim not in running:
            yield Verdict(LEAKED, f"the CDI file {injection.file} is left of claim {injection.claim}")
        for uuid in sorted(injection.uuids - live - set(sight.cards.values())):
            yield Verdict(LEAKED, f"the CDI file {injection.file} names {uuid}, which is not on the hardware")
    for claim in sorted(running - {injection.claim for injection in sight.injections}):
        yield Verdict(LEAKED, f"claim {claim} runs, and its CDI file is gone")
    for file in sight.litter:
        yield Verdict(LEAKED, f"{file} lies in the CDI folder")


def _why(status: Mapping[str, Any]) -> str:
    ready: Mapping[str, Any] = next(
        (row for row in status.get("conditions") or () if row["type"] == "Ready"), {}
    )
    return f"{ready.get('reason', '')} {ready.get('message', '')}".strip()


def _place(cut: Cut) -> str:
    return f"{cut.profile} at {cut.start} of {cut.card}"
