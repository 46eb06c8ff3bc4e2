"""The product's own simulated hardware under a chaos node.

In: a folder. Out: `FakeHardware`; its state file is read as plain JSON.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import yaml

from testbed.chaos.fakehardware import MODELS, LivePartition, Placement


class SimulatedHardware:
    """The product's own simulated hardware; its state file is read as plain JSON."""

    def __init__(self, folder: Path, models: Sequence[str] = MODELS) -> None:
        file = folder / "node.yaml"
        file.write_text(yaml.safe_dump({"cards": [{"model": model} for model in models]}))
        self._state = folder / "node.yaml.state.json"
        self._save({"partitions": [], "faults": {}, "next": 1})
        self.environment: Mapping[str, str] = {}
        self.root = None
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

    def change_second_driver(self, random: Random) -> str:
        """Do nothing: there is no driver."""
        del random
        return ""

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
