"""The IMEX backend: channels by which programs on several nodes of one NVLink fabric import each other's GPU memory.

In: how many channels are offered, what NVIDIA's driver says of the fabric. Out: cards, each one channel; whole devices only. A channel
is a character device of NVIDIA's kernel module whose minor is the channel's number (dra-driver-nvidia-gpu 95932046,
cmd/compute-domain-kubelet-plugin/nvlib.go:388-403). The daemon nvidia-imex, without which a channel is of no use, is the
administrator's.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, Protocol

from apportion.agent.devices.uncut import UncutBackend
from apportion.agent.devices.values import Card, DeviceNode, Edits, Health, Location
from apportion.dra.device import Scalar
from apportion.errors import Lost

CHANNEL: Final = "channel"
"""The kind of such cards, named as NVIDIA's driver does."""
_MODULE: Final = "nvidia-caps-imex-channels"
"""Its name in /proc/devices, and of the folder below /dev."""


class Cliques(Protocol):
    """What knows in which cliques of the fabric the node's GPUs are."""

    @property
    def released(self) -> bool:
        """Whether the driver is let go of, and nobody asks it."""

    @property
    def seen(self) -> Collection[str]:
        """The cliques of GPUs as last seen, "" for one that is in none."""

    def common(self) -> str:
        """Ask for the clique of all GPUs that are in one; "": there is none, or they disagree. Raises HardwareError."""


class ImexBackend(UncutBackend):
    """The IMEX channels of this node."""

    def __init__(self, root: Path, channels: int, cliques: Cliques) -> None:
        """`root` is where the host's /proc is; channels 0 to `channels` - 1 are offered, if the driver has as many."""
        super().__init__("an IMEX channel")
        self._root = root
        self._channels = channels
        self._cliques = cliques
        self._clique = ""
        self._cards: dict[str, Card] = {}

    def devices(self) -> tuple[Card, ...]:
        """Offer the channels once the node is in a clique; those that were offered stay. Raises HardwareError."""
        clique = self._cliques.common()
        if clique and self._major() is not None:
            self._clique = clique
            self._cards = {card.name: card for card in map(self._card, range(self._count()))}
        return tuple(self._cards.values())

    def incomplete(self) -> bool:
        """Say no: when a GPU has joined another clique, its own backend says so, and all cards are discovered."""
        return False

    def edits(self, card: str) -> Edits:
        """Return a channel's device file with its numbers: the runtime makes it, and the host need not have it."""
        major = self._major()
        if major is None or card not in self._cards:
            raise Lost(f"{card}: NVIDIA's driver has no {_MODULE} now")
        number = int(card.rpartition("-")[2])
        return Edits(nodes=(DeviceNode(f"/dev/{_MODULE}/channel{number}", major=major, minor=number),))

    def health(self, cards: Collection[str] | None = None) -> Mapping[str, Health]:
        """Return the channels as lost while the driver has none, and as nobody knows while it is let go of."""
        known = [name for name in (self._cards if cards is None else cards) if name in self._cards]
        if self._cliques.released:
            return dict.fromkeys(known, Health.RELEASED)
        return dict.fromkeys(known, Health.LOST) if self._major() is None else {}

    def fabric_cards(self) -> Collection[str]:
        """Return all channels: each is of use only in the clique."""
        return tuple(self._cards)

    def fabric(self, card: str) -> str:  # noqa: ARG002 - the protocol's
        """Return why a channel cannot be used, "" while the GPUs that are in a clique are in this one."""
        seen = self._cliques.seen
        return "NoClique" if seen and {*seen} - {""} != {self._clique} else ""

    def _card(self, number: int) -> Card:
        attributes: dict[str, Scalar] = {"id": number, "cliqueID": self._clique}
        return Card(f"{CHANNEL}-{number}", CHANNEL, f"IMEX-{number}", Location("", ""), attributes)

    def _major(self) -> int | None:
        characters = _read(self._root / "proc/devices").partition("Block devices:")[0]
        found = re.search(rf"^\s*(\d+) {_MODULE}$", characters, re.MULTILINE)
        return int(found[1]) if found else None

    def _count(self) -> int:
        # The module's parameter NVreg_ImexChannelCount; NVIDIA's DRA driver assumes its default, 2048.
        found = re.search(
            r"^ImexChannelCount: (\d+)$", _read(self._root / "proc/driver/nvidia/params"), re.MULTILINE
        )
        return min(self._channels, int(found[1])) if found else self._channels


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
