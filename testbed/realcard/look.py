"""Look: everything that the agent would read on this machine, read once, and checked against the host's files.

In: the agent's options. Out: a report. Nothing is changed: no partition, no mode, no file outside of the folder for CDI.
"""

import os
import platform
import stat
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apportion import __version__
from apportion.agent.backends import REAL
from apportion.agent.devices.backend import Backend
from apportion.agent.devices.hostfs import HostFiles
from apportion.agent.devices.names import UnkeptNames
from apportion.agent.devices.values import Card, DeviceNode, Edits, Health, LivePartition
from apportion.agent.settings import AgentOptions
from apportion.agent.tables import card_json, partition_json
from apportion.errors import ApportionError
from testbed.realcard.report import BackendReport, Check, Report, Verdict

_LOOKS = 5
"""Looks at health and partitions whose CPU time is averaged."""


@dataclass(frozen=True, slots=True)
class Found:
    """A card that answered, and what a container would get for it."""

    backend: Backend
    card: Card
    edits: Edits


def look(options: AgentOptions) -> tuple[Report, tuple[Found, ...]]:
    """Return the report, and the cards whose edits could be read."""
    backends: list[BackendReport] = []
    checks: list[Check] = []
    found: list[Found] = []
    for name, make in REAL.items():
        backend = make(options, UnkeptNames())
        try:
            if not backend.present():
                backends.append(BackendReport(name, present=False))
                continue
            report, cards = _discovered(name, backend)
        except ApportionError as error:
            backends.append(BackendReport(name, present=True, error=str(error)))
            checks.append(Check(f"{name}: discovery", Verdict.BAD, str(error)))
            continue
        backends.append(report)
        for card in cards:
            made, said = _edits(backend, card)
            checks += said
            found += made
    if found:
        checks += _unique([each.card for each in found])
    elif not checks:
        checks.append(Check("cards", Verdict.UNKNOWN, "no backend finds its hardware on this machine"))
    for each in found:
        checks += host_checks(each.card, each.edits, HostFiles(options.host_root))
    return Report(__version__, _host(options.host_root), tuple(backends), tuple(checks)), tuple(found)


def host_checks(card: Card, edits: Edits, host: HostFiles) -> Iterator[Check]:
    """Yield whether the host has what a container is to get for a card."""
    wrong = [said for node in edits.nodes if (said := _wrong_node(node, host))]
    yield _check(
        f"{card.name}: device files", wrong, f"{len(edits.nodes)} device files as the driver numbers them"
    )
    missing = [mount.host_path for mount in edits.mounts if host.resolve(mount.host_path) is None]
    yield _check(f"{card.name}: mounts", missing, f"{len(edits.mounts)} files and folders of the host")
    paths = {hook.path for hook in edits.hooks}
    not_run = [path for path in sorted(paths) if not os.access(_here(host, path), os.X_OK)]
    yield _check(f"{card.name}: hooks", not_run, f"{len(edits.hooks)} calls of {len(paths)} programs")
    outside = [
        f"{profile.name} at {place.start}"
        for profile in card.profiles
        for place in profile.placements
        if place.start + place.size > card.slices
    ]
    yield _check(
        f"{card.name}: placements", outside, f"{len(card.profiles)} profiles on {card.slices} memory slices"
    )
    if edits.warning:
        yield Check(f"{card.name}: driver files", Verdict.BAD, edits.warning)


def _discovered(name: str, backend: Backend) -> tuple[BackendReport, tuple[Card, ...]]:
    began = time.perf_counter()
    cards = backend.devices()
    discovery = time.perf_counter() - began
    began = time.process_time()
    health: Mapping[str, Health] = {}
    live: tuple[LivePartition, ...] = ()
    for _ in range(_LOOKS):
        health, live = backend.health(), backend.partitions()
    spent = (time.process_time() - began) / _LOOKS * 1000
    rows = tuple(
        card_json(card, health.get(card.name, Health.HEALTHY), "") | {"partitions": _partitions(card, live)}
        for card in cards
    )
    return BackendReport(name, present=True, discovery=discovery, look=spent, cards=rows), cards


def _partitions(card: Card, live: tuple[LivePartition, ...]) -> list[Any]:
    return [partition_json(each, {}, ()) for each in live if each.card == card.name]


def _edits(backend: Backend, card: Card) -> tuple[list[Found], list[Check]]:
    try:
        return [Found(backend, card, backend.edits(card.name))], []
    except ApportionError as error:
        return [], [Check(f"{card.name}: what a container gets", Verdict.BAD, str(error))]


def _unique(cards: list[Card]) -> Iterator[Check]:
    for what, values in (("name", [card.name for card in cards]), ("UUID", [card.uuid for card in cards])):
        twice = sorted(value for value, count in Counter(values).items() if count > 1 or not value)
        yield _check(f"{what}s", twice, f"{len(cards)} cards, each with a {what} of its own")


def _wrong_node(node: DeviceNode, host: HostFiles) -> str:
    path = node.host_path or node.path
    try:
        there = _here(host, path).stat()
    except OSError as error:
        # The runtime makes a file whose number is given; the driver may make the host's when it is first opened.
        return "" if node.major is not None else f"{path}: {error.strerror}"
    if not stat.S_ISCHR(there.st_mode):
        return f"{path} is no device file"
    number = os.major(there.st_rdev), os.minor(there.st_rdev)
    if node.major is not None and number != (node.major, node.minor):
        return f"{path} is {number[0]}:{number[1]}, not {node.major}:{node.minor}"
    return ""


def _here(host: HostFiles, path: str) -> Path:
    found = host.resolve(path)
    return host.here(found if found is not None else path)


def _check(name: str, wrong: list[str], fine: str) -> Check:
    return Check(name, Verdict.BAD, "; ".join(wrong)) if wrong else Check(name, Verdict.OK, fine)


def _host(root: Path) -> dict[str, str]:
    host = HostFiles(root)
    driver = host.text("/proc/driver/nvidia/version").splitlines()[:1]
    names = dict(
        line.split("=", 1) for line in host.text("/etc/os-release").splitlines() if line.count("=") == 1
    )
    return {
        "system": names.get("PRETTY_NAME", "").strip('"'),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "nvidiaModule": driver[0].strip() if driver else "",
        "ascendDriver": host.text("/usr/local/Ascend/driver/version.info").strip().replace("\n", ", "),
        "root": str(os.geteuid() == 0),
    }
