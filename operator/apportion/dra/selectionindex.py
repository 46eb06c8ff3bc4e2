"""SelectionIndex: selections of pods, by something that each pod has which they match: a label, a namespace, a port, a volume.

In: selections; pods. Out: for a pod, the few selections that may match it; for a selection, under what its pods are found.
"""

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Generic, TypeAlias, TypeVar

from apportion.dra.pod import Pod
from apportion.dra.podrelations import HostPort, KnownNamespaces, PodSelection, VolumeUse, conflict

Matched: TypeAlias = PodSelection | VolumeUse | tuple[HostPort, ...]
"""What pods match: a selection, or volumes or host ports of which they take one."""
Entry: TypeAlias = tuple[str, str] | tuple[str, int] | VolumeUse | str | None
"""Under what pods are found: a label with its value, a port with its protocol, a volume, a namespace; None: all."""
K = TypeVar("K", bound=Hashable)
_MANY = 1 << 20


def matches(asked: Matched, pod: Pod) -> bool:
    """Say whether a pod is selected, uses one of these volumes, or takes one of these ports."""
    if isinstance(asked, PodSelection):
        return asked.matches(pod.namespace, pod.labels, deleting=pod.deleting)
    if isinstance(asked, VolumeUse):
        return pod.namespace == asked.namespace and not set(asked.claims).isdisjoint(pod.volumes)
    return conflict(asked, pod.relations.ports)


def entries_of(pod: Pod) -> Iterator[Entry]:
    """Yield under what a pod is found."""
    yield None
    yield pod.namespace
    yield from pod.labels.items()
    for port in pod.relations.ports:
        yield port.protocol, port.port
    for claim in pod.volumes:
        yield VolumeUse(pod.namespace, (claim,))


def entries_for(asked: Matched, size: Callable[[Entry], int]) -> tuple[Entry, ...]:
    """Return under what all pods are found that match: by the rarest label of one value of which they all have one, by their namespaces, or under what all pods are where these are too many.

    `size` returns how many pods are found under an entry.
    """
    if isinstance(asked, VolumeUse):
        return tuple(VolumeUse(asked.namespace, (claim,)) for claim in asked.claims)
    if not isinstance(asked, PodSelection):
        return tuple(dict.fromkeys((port.protocol, port.port) for port in asked))
    if asked.labels is None:
        return ()
    choices: list[tuple[Entry, ...]] = [
        tuple([(row.key, value) for value in dict.fromkeys(row.values)])
        for row in asked.labels
        if row.operator == "In"
    ]
    fewest = min(asked.known, key=len, default=None)
    named: list[frozenset[str] | KnownNamespaces | None] = [asked.namespaces, fewest]
    choices += [tuple(sorted(each)) for each in named if each is not None and len(each) <= size(None)]
    choices.append((None,))
    return min(choices, key=lambda entries: len(entries) + sum(map(size, entries)))


class SelectionIndex(Generic[K]):
    """Keys by the selection of each."""

    def __init__(
        self, size: Callable[[Entry], int] = lambda entry: 1 if entry is not None else _MANY
    ) -> None:
        """`size` returns about how many pods are found under an entry."""
        self._size = size
        self._keys: dict[Entry, dict[int, K]] = {}
        """By a number of each: a key with thousands of values is long to hash, and may have as many entries."""
        self._entries: dict[K, tuple[int, tuple[Entry, ...]]] = {}
        """The number of each, and under what it is found."""
        self._last = 0

    def put(self, key: K, asked: Matched) -> tuple[Entry, ...]:
        """Add a key that is not there, with what it selects; return under what pods that match are found."""
        entries = entries_for(asked, self._size)
        self._last += 1
        self._entries[key] = self._last, entries
        for entry in entries:
            self._keys.setdefault(entry, {})[self._last] = key
        return entries

    def drop(self, key: K) -> None:
        """Remove a key that is there."""
        number, entries = self._entries.pop(key)
        for entry in entries:
            del self._keys[entry][number]
            if not self._keys[entry]:
                del self._keys[entry]

    def count_around(self, *pods: Pod | None) -> int:
        """Return how many `around` would return at most."""
        entries = (entry for pod in pods if pod is not None for entry in entries_of(pod))
        return sum(len(self._keys.get(entry, ())) for entry in entries)

    def around(self, *pods: Pod | None) -> Collection[K]:
        """Return the keys whose selections may match one of these pods, and all whose do."""
        found = (self._keys.get(entry, {}) for pod in pods if pod is not None for entry in entries_of(pod))
        return {number: key for keys in found for number, key in keys.items()}.values()
