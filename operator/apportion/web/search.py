"""Search: nodes, cards, devices, claims, pods and namespaces by a part of their names.

In: the cluster as observed, a text. Out: what is found of each kind, the best first, bounded.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest

from apportion.web.observed import Observed

MOST = 25
"""Results of each kind."""
LONGEST = 253
"""Characters of a text; names are no longer."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that was found."""

    name: str
    """`pool/device`."""
    node: str
    """Empty: several nodes could use it."""
    card: str


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, `namespace/name` where objects have namespaces."""

    text: str
    namespaces: tuple[str, ...]
    nodes: tuple[str, ...]
    devices: tuple[Device, ...]
    claims: tuple[str, ...]
    pods: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many there are in all."""
        return sum(map(len, (self.namespaces, self.nodes, self.devices, self.claims, self.pods)))


def search(observed: Observed, text: str) -> Found:
    """Return what has the text in its name; an empty text finds nothing."""
    text = text.strip().lower()[:LONGEST]
    if not text:
        return Found("", (), (), (), (), ())
    snapshot = observed.snapshot
    devices = {
        f"{device.id.pool}/{device.id.name}": Device(
            f"{device.id.pool}/{device.id.name}",
            piece.availability.node or "",
            snapshot.devices.card(device.id).name,
        )
        for piece in snapshot.slices.values()
        for device in piece.devices
        if text in f"{device.id.pool}/{device.id.name}"
    }
    names = {claim.namespace for claim in snapshot.claims.values()}
    names |= {pod.namespace for pod in snapshot.pods.values()}
    return Found(
        text,
        _best(text, names),
        _best(text, (node.name for node in snapshot.nodes.values())),
        tuple(devices[name] for name in _best(text, devices)),
        _best(text, (claim.key for claim in snapshot.claims.values())),
        _best(text, (pod.key for pod in snapshot.pods.values())),
    )


def _best(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names with the text in them: the same name first, then those that begin with it, then others."""

    def rank(name: str) -> tuple[int, str]:
        own = name.rsplit("/", 1)[-1]
        return (0 if text in {name, own} else 1 if own.startswith(text) or name.startswith(text) else 2), name

    return tuple(nsmallest(MOST, (name for name in names if text in name.lower()), key=rank))
