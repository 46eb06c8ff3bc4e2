"""Fake hardware whose state outlives the agents, and the partitions that its cards offer.

In: a folder. Out: the partitions that exist, read from the state file without the product's code; reboots; foreign partitions.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from testbed.fakes.nvml.host import lay_out
from testbed.fakes.nvml.library import FakeNvml
from testbed.fakes.nvml.models import models

MODELS: Final = ("H100-80GB", "A100-40GB")
"""MIG mode of the first is switched by the agent and off after a reboot; that of the second stays on."""
_LATE_SECONDS: Final = 6.0
"""More than an agent waits for one answer (`Hardware`)."""
_PROGRAM: Final = 4711
"""Process id that every program in a container has."""


@dataclass(frozen=True, slots=True)
class LivePartition:
    """A partition on the hardware; a half-made one has no UUID."""

    card: str
    profile: str
    start: int
    size: int
    uuid: str


@dataclass(frozen=True, slots=True)
class Placement:
    """A partition that a card offers: a profile at a start position."""

    card: str
    profile: str
    number: int
    """NVML's id of the profile."""
    start: int
    size: int
    slices: int
    engines: tuple[int, ...]
    most: int
    """How many of this profile fit on one card."""

    @property
    def device(self) -> str:
        """The name under which slices publish it."""
        label = self.profile.replace(".", "").replace("+", "-")
        return f"{self.card}-mig-{label}-{self.number}-{self.start}"


def overlap(one: Placement | LivePartition, other: Placement | LivePartition) -> bool:
    """Return whether both need the same memory slice."""
    return (
        one.card == other.card and one.start < other.start + other.size and other.start < one.start + one.size
    )


def placements(card: str, model: str) -> tuple[Placement, ...]:
    """Return every partition that a card of this model offers."""
    return tuple(
        Placement(
            card,
            row["name"],
            row["id"],
            start,
            size,
            int(row["name"].split("g.")[0]),
            tuple(row["engines"]),
            row["most"],
        )
        for row in models()[model]["profiles"]
        for start, size in row["placements"]
    )


def fits(placement: Placement, beside: Iterable[Placement], offered: Sequence[Placement]) -> bool:
    """Return whether a placement fits beside others: memory and compute slices, engines, number of its profile."""
    there = [other for other in beside if other.card == placement.card]
    every = [*there, placement]
    engines = [max(other.engines[n] for other in offered) for n in range(len(placement.engines))]
    return (
        not any(overlap(placement, other) for other in there)
        and sum(other.slices for other in every) <= max(other.slices for other in offered)
        and sum(other.profile == placement.profile for other in every) <= placement.most
        and all(sum(other.engines[n] for other in every) <= most for n, most in enumerate(engines))
    )


class FakeHardware(Protocol):
    """Fake hardware of one node."""

    environment: Mapping[str, str]
    arguments: Sequence[str]
    """Of `apportion agent`."""

    def partitions(self) -> tuple[LivePartition, ...]:
        """Return the partitions that exist now."""

    def whole(self, card: str) -> bool:
        """Return whether the card is usable as a whole device."""

    def reboot(self) -> None:
        """Reboot the node: partitions are gone, as on real hardware."""

    def create_foreign(self, placement: Placement) -> str:
        """Create a partition that is not the agent's; returns its UUID. Only while no agent runs."""

    def set_in_use(self, uuid: str, *, used: bool) -> None:
        """Let a program open a partition, or close it. Does nothing when the partition does not exist."""

    def minors(self) -> Mapping[str, int]:
        """Return the minor of the GPU file behind each card and partition now, by UUID; nothing where there are none."""

    def rebind(self) -> None:
        """Have the driver give the first card another device file. Only while nobody uses the card."""

    def reorder(self) -> None:
        """Have the driver list the cards in another order. Only while no agent runs."""

    def hang(self) -> None:
        """Let the driver's next answer about one card take longer than the agent waits for it."""

    def kill_in_call(self, call: str, *, after: bool) -> None:
        """End the next process that makes this driver call, before or after its effect."""

    def clear_faults(self) -> None:
        """Remove the faults that did not happen."""


class NvmlHardware:
    """GPUs behind the fake libnvidia-ml.so."""

    def __init__(self, folder: Path) -> None:
        self.fake = FakeNvml.create(folder / "nvml", MODELS)
        self.fake.set_mode(1, on=True)
        root = lay_out(self.fake, folder / "root")
        self.environment: Mapping[str, str] = self.fake.environment
        self.arguments: Sequence[str] = ("--backend", "nvml", "--host-root", str(root))

    def partitions(self) -> tuple[LivePartition, ...]:
        """Return the partitions that exist now."""
        return tuple(
            LivePartition(
                f"gpu-{row.gpu}", row.profile, row.start, row.size, row.compute[0].uuid if row.compute else ""
            )
            for row in self.fake.instances()
        )

    def whole(self, card: str) -> bool:
        """Return whether the card's MIG mode is off."""
        return not self.fake.mode(int(card.split("-")[1]))[0]

    def reboot(self) -> None:
        """Reboot the node."""
        self.fake.reboot()

    def create_foreign(self, placement: Placement) -> str:
        """Create a GPU instance and its compute instance as nvidia-smi does; returns the UUID."""
        uuid = f"MIG-made-by-hand-at-{placement.card}-{placement.start}"
        with self.fake.changing() as state:
            gpu = state.gpu[int(placement.card.split("-")[1])]
            row = next(row for row in gpu.instance if not row.used)
            # A high id, which the fake driver never gives to the agent's instances.
            row.id, row.profile, row.start, row.size = 13, placement.number, placement.start, placement.size
            row.serial = state.next_serial
            compute = row.computes[0]
            compute.used, compute.id, compute.slices, compute.start = 1, 0, placement.slices, 0
            compute.mig_index, compute.uuid, compute.serial = 6, uuid.encode(), state.next_serial + 1
            state.next_serial += 2
            row.used = 1
        return uuid

    def set_in_use(self, uuid: str, *, used: bool) -> None:
        """Let a program open a partition, or close it."""
        with suppress(KeyError):
            self.fake.occupy(uuid, _PROGRAM if used else 0)

    def minors(self) -> Mapping[str, int]:
        """Return the minor of the GPU file behind each card and partition now."""
        state = self.fake.read()
        gpus = {gpu.uuid.decode(): int(gpu.minor) for gpu in state.gpu[: state.gpus]}
        parts = {
            compute.uuid: int(state.gpu[row.gpu].minor)
            for row in self.fake.instances()
            for compute in row.compute
        }
        return gpus | parts

    def rebind(self) -> None:
        """Give the first GPU the minor that none has; when its MIG mode is switched, it gets the lowest free one."""
        with self.fake.changing() as state:
            one, two = state.gpu[0], state.gpu[1]
            (one.minor,) = {0, 1, 2} - {one.minor, two.minor}

    def reorder(self) -> None:
        """Swap the slots of both GPUs; a name stays with its UUID."""
        with self.fake.changing() as state:
            one, two = state.gpu[0], state.gpu[1]
            one.bus, two.bus = two.bus, one.bus

    def hang(self) -> None:
        """Let the second GPU answer late, once."""
        self.fake.delay("nvmlDeviceGetMemoryInfo", _LATE_SECONDS, times=1, card=1)

    def kill_in_call(self, call: str, *, after: bool) -> None:
        """End the next process that makes this driver call."""
        self.fake.kill(call, after=after)

    def clear_faults(self) -> None:
        """Remove the faults that did not happen."""
        self.fake.heal()


class SimulatedHardware:
    """The product's own simulated hardware; its state file is read as plain JSON."""

    def __init__(self, folder: Path, models: Sequence[str] = MODELS) -> None:
        file = folder / "node.yaml"
        file.write_text(yaml.safe_dump({"cards": [{"model": model} for model in models]}))
        self._state = folder / "node.yaml.state.json"
        self._save({"partitions": [], "faults": {}, "next": 1})
        self.environment: Mapping[str, str] = {}
        self.arguments: Sequence[str] = ("--backend", "simulated", "--simulation", str(file))

    def partitions(self) -> tuple[LivePartition, ...]:
        """Return the partitions that exist now."""
        return tuple(self._rows())

    def whole(self, card: str) -> bool:
        """Return whether the card has no partition."""
        return not any(partition.card == card for partition in self._rows())

    def reboot(self) -> None:
        """Reboot the node."""
        self._save({**self._load(), "partitions": []})

    def create_foreign(self, placement: Placement) -> str:
        """Create a partition that the agent's journal does not know; returns its UUID."""
        uuid = f"MIG-made-by-hand-at-{placement.card}-{placement.start}"
        state = self._load()
        row = {
            "card": placement.card,
            "profile": placement.profile,
            "start": placement.start,
            "size": placement.size,
            "uuid": uuid,
            "instance": {"gpuInstance": "99", "computeInstance": "0"},
            "complete": True,
            "inUse": False,
            "foreign": True,
        }
        self._save({**state, "partitions": [*state["partitions"], row]})
        return uuid

    def set_in_use(self, uuid: str, *, used: bool) -> None:
        """Do nothing: this backend reports no users."""

    def minors(self) -> Mapping[str, int]:
        """Return nothing: these cards have no device files."""
        return {}

    def rebind(self) -> None:
        """Do nothing: these cards have no device files."""

    def reorder(self) -> None:
        """Do nothing: these cards have no order."""

    def hang(self) -> None:
        """Do nothing: there is no driver."""

    def kill_in_call(self, call: str, *, after: bool) -> None:
        """Raise NotImplementedError: this backend has no driver calls."""
        raise NotImplementedError(f"simulated hardware has no call {call} (after={after})")

    def clear_faults(self) -> None:
        """Do nothing: there are no faults here."""

    def _rows(self) -> Iterator[LivePartition]:
        for row in self._load()["partitions"]:
            uuid = row["uuid"] if row["complete"] else ""
            yield LivePartition(row["card"], row["profile"], row["start"], row["size"], uuid)

    def _load(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._state.read_text())
        return found

    def _save(self, state: Mapping[str, Any]) -> None:
        fresh = self._state.with_suffix(".fresh")
        fresh.write_text(json.dumps(state))
        fresh.replace(self._state)
