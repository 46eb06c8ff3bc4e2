"""FreeVolumes: the volumes that a claim may be bound to, found by labels or names of the nodes that they are on.

In: volumes in the order in which they are tried; a node. Out: those that can be used there. Of local volumes each node has a few of thousands.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby
from typing import TypeAlias

from apportion.dra.node import Node
from apportion.dra.selection import NAME_FIELD, NodeSelector, Term
from apportion.dra.volume import PersistentVolume

Entry: TypeAlias = tuple[str, str] | None
"""Under what volumes are found: a label of a node with its value, nothing and the name of a node; None: those of any node."""
_NAME = ""
"""Stands for the name of a node, as a label has one of its own."""


class FreeVolumes:
    """Volumes in an order."""

    def __init__(self, volumes: Iterable[PersistentVolume]) -> None:
        """`volumes`: the first that can be used on a node is taken there."""
        self._volumes = tuple(volumes)
        sizes = Counter(
            entry
            for volume in self._volumes
            for term in (volume.nodes.terms if volume.nodes is not None else ())
            for entries in _choices(term)
            for entry in entries
        )
        self._numbers: dict[Entry, list[int]] = {}
        for number, volume in enumerate(self._volumes):
            for entry in _entries(volume.nodes, sizes):
                self._numbers.setdefault(entry, []).append(number)
        self._keys = {entry[0] for entry in self._numbers if entry is not None}

    def __bool__(self) -> bool:
        """Say whether there are any."""
        return bool(self._volumes)

    def on(self, node: Node) -> Iterator[PersistentVolume]:
        """Yield those that can be used on a node, in their order."""
        entries: list[Entry] = [
            (key, value)
            for key in self._keys
            if (value := node.labels.get(key) if key != _NAME else node.name) is not None
        ]
        for number, _ in groupby(merge(*[self._numbers.get(entry, ()) for entry in (None, *entries)])):
            volume = self._volumes[number]
            if volume.nodes is None or volume.nodes.matches(node.name, node.labels):
                yield volume


def _entries(nodes: NodeSelector | None, sizes: Counter[tuple[str, str]]) -> Iterable[Entry]:
    """Return under what a volume is found on each node where it can be used: for each term by the rarest label, or name, of which that lists values."""
    if nodes is None:
        return (None,)
    found: dict[Entry, None] = {}
    for term in nodes.terms:
        rarest = min(_choices(term), key=lambda entries: sum(sizes[each] for each in entries), default=None)
        found.update(dict.fromkeys(rarest if rarest is not None else (None,)))
    return found


def _choices(term: Term) -> list[list[tuple[str, str]]]:
    labels = [(row.key, row) for row in term.labels]
    names = [(_NAME, row) for row in term.fields if row.key == NAME_FIELD]
    return [[(key, value) for value in row.values] for key, row in (*labels, *names) if row.operator == "In"]
