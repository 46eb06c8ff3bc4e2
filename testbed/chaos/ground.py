"""The ground that agents stand on: fake hardware whose state outlives them, and what a card can be cut into.

In: a folder. Out: what is cut right now, read from the state file without a line of the product; reboots; partitions that a
person made.
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
"""One whose MIG mode switches at will and is off after a reboot, one whose mode stays on."""


_PROGRAM: Final = 4711
"""Process id of every program in a container."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A partition as it is on the hardware; a half-made one has no UUID."""

    card: str
    profile: str
    start: int
    size: int
    uuid: str


@dataclass(frozen=True, slots=True)
class Place:
    """A partition as it may be: one that a card offers."""

    card: str
    profile: str
    number: int
    start: int
    size: int
    slices: int
    engines: tuple[int, ...]
    most: int

    @property
    def device(self) -> str:
        """The name under which slices publish it."""
        label = self.profile.replace(".", "").replace("+", "-")
        return f"{self.card}-mig-{label}-{self.number}-{self.start}"

    def overlaps(self, other: "Place | Cut") -> bool:
        """Say whether both need the same memory slice."""
        return (
            self.card == other.card
            and self.start < other.start + other.size
            and other.start < self.start + self.size
        )


def places(card: str, model: str) -> tuple[Place, ...]:
    """Return everything that a card of this model can be cut into."""
    return tuple(
        Place(
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


def fits(place: Place, beside: Iterable[Place], offered: Sequence[Place]) -> bool:
    """Say whether a card has room for a place beside others: memory and compute slices, engines, number of its kind."""
    there = [other for other in beside if other.card == place.card]
    every = [*there, place]
    engines = [max(other.engines[n] for other in offered) for n in range(len(place.engines))]
    return (
        not any(place.overlaps(other) for other in there)
        and sum(other.slices for other in every) <= max(other.slices for other in offered)
        and sum(other.profile == place.profile for other in every) <= place.most
        and all(sum(other.engines[n] for other in every) <= most for n, most in enumerate(engines))
    )


class Ground(Protocol):
    """Fake hardware of one node."""

    environment: Mapping[str, str]
    arguments: Sequence[str]
    """Of `apportion agent`."""

    def cuts(self) -> tuple[Cut, ...]:
        """Return what is on the hardware now."""

    def whole(self, card: str) -> bool:
        """Say whether the card is usable uncut."""

    def reboot(self) -> None:
        """Reboot the node: partitions are gone, as on real hardware."""

    def stranger(self, place: Place) -> str:
        """Let a person make a partition; returns its UUID. Only while no agent runs."""

    def use(self, uuid: str, *, used: bool) -> None:
        """Let a program of a container open a partition, or close it; one that is gone is nobody's."""

    def kill_in(self, call: str, *, after: bool) -> None:
        """End the next process that makes this driver call, before or after its effect."""

    def heal(self) -> None:
        """Take back the faults that did not strike."""


class NvmlGround:
    """GPUs behind the fake libnvidia-ml.so."""

    def __init__(self, folder: Path) -> None:
        self.fake = FakeNvml.create(folder / "nvml", MODELS)
        self.fake.set_mode(1, on=True)
        root = lay_out(self.fake, folder / "root")
        self.environment: Mapping[str, str] = self.fake.environment
        self.arguments: Sequence[str] = ("--backend", "nvml", "--host-root", str(root))

    def cuts(self) -> tuple[Cut, ...]:
        """Return what is on the hardware now."""
        return tuple(
            Cut(
                f"gpu-{row.gpu}", row.profile, row.start, row.size, row.compute[0].uuid if row.compute else ""
            )
            for row in self.fake.instances()
        )

    def whole(self, card: str) -> bool:
        """Say whether the card's MIG mode is off."""
        return not self.fake.mode(int(card.split("-")[1]))[0]

    def reboot(self) -> None:
        """Reboot the node."""
        self.fake.reboot()

    def stranger(self, place: Place) -> str:
        """Make a GPU instance and its compute instance as nvidia-smi would."""
        uuid = f"MIG-made-by-hand-at-{place.card}-{place.start}"
        with self.fake.changing() as state:
            gpu = state.gpu[int(place.card.split("-")[1])]
            row = next(row for row in gpu.instance if not row.used)
            # Ids of people's instances come from the high end here, so that they never meet ours.
            row.id, row.profile, row.start, row.size = 13, place.number, place.start, place.size
            row.serial = state.next_serial
            compute = row.computes[0]
            compute.used, compute.id, compute.slices, compute.start = 1, 0, place.slices, 0
            compute.mig_index, compute.uuid, compute.serial = 6, uuid.encode(), state.next_serial + 1
            state.next_serial += 2
            row.used = 1
        return uuid

    def use(self, uuid: str, *, used: bool) -> None:
        """Let a program of a container open a partition, or close it."""
        with suppress(KeyError):
            self.fake.occupy(uuid, _PROGRAM if used else 0)

    def kill_in(self, call: str, *, after: bool) -> None:
        """End the next process that makes this driver call."""
        self.fake.kill(call, after=after)

    def heal(self) -> None:
        """Take back the faults that did not strike."""
        self.fake.heal()


class SimulatedGround:
    """The product's own simulated hardware; its state file is read as plain JSON."""

    def __init__(self, folder: Path, models: Sequence[str] = MODELS) -> None:
        file = folder / "node.yaml"
        file.write_text(yaml.safe_dump({"cards": [{"model": model} for model in models]}))
        self._state = folder / "node.yaml.state.json"
        self._save({"partitions": [], "faults": {}, "next": 1})
        self.environment: Mapping[str, str] = {}
        self.arguments: Sequence[str] = ("--backend", "simulated", "--simulation", str(file))

    def cuts(self) -> tuple[Cut, ...]:
        """Return what is on the hardware now."""
        return tuple(self._rows())

    def whole(self, card: str) -> bool:
        """Say whether the card is uncut."""
        return not any(cut.card == card for cut in self._rows())

    def reboot(self) -> None:
        """Reboot the node."""
        self._save({**self._load(), "partitions": []})

    def stranger(self, place: Place) -> str:
        """Make a partition that the agent knows nothing of."""
        uuid = f"MIG-made-by-hand-at-{place.card}-{place.start}"
        state = self._load()
        row = {
            "card": place.card,
            "profile": place.profile,
            "start": place.start,
            "size": place.size,
            "uuid": uuid,
            "instance": {"gpuInstance": "99", "computeInstance": "0"},
            "complete": True,
            "inUse": False,
            "foreign": True,
        }
        self._save({**state, "partitions": [*state["partitions"], row]})
        return uuid

    def use(self, uuid: str, *, used: bool) -> None:
        """Do nothing: nothing asks this hardware who uses it."""

    def kill_in(self, call: str, *, after: bool) -> None:
        """Refuse: there are no driver calls here."""
        raise NotImplementedError(f"simulated hardware has no call {call} (after={after})")

    def heal(self) -> None:
        """Do nothing: there are no faults here."""

    def _rows(self) -> Iterator[Cut]:
        for row in self._load()["partitions"]:
            uuid = row["uuid"] if row["complete"] else ""
            yield Cut(row["card"], row["profile"], row["start"], row["size"], uuid)

    def _load(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._state.read_text())
        return found

    def _save(self, state: Mapping[str, Any]) -> None:
        fresh = self._state.with_suffix(".fresh")
        fresh.write_text(json.dumps(state))
        fresh.replace(self._state)
