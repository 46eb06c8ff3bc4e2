"""Fake hardware whose state outlives the agents, and the partitions that its cards offer.

In: a folder. Out: the partitions that exist, read from the state file without the product's code; reboots; foreign partitions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Protocol

from testbed.fakes.nvml.models import models

MODELS: Final = ("H100-80GB", "A100-40GB")
"""MIG mode of the first is switched by the agent and off after a reboot; that of the second stays on."""


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

    @property
    def root(self) -> Path | None:
        """What stands for the node's `/`; None where the agent reads nothing there."""

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

    def change_second_driver(self, random: Random) -> str:
        """Let the node's other driver be well, fail or be gone; returns which, "" where there is none. Only while no agent runs."""

    def kill_in_call(self, call: str, *, after: bool) -> None:
        """End the next process that makes this driver call, before or after its effect."""

    def clear_faults(self) -> None:
        """Remove the faults that did not happen."""
