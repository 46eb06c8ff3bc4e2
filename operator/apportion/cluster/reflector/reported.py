"""Reported: the objects of one kind as they were reported, and how what a list says differs from them.

In: changes and lists, as the server says them. Out: calls of `observe`; what a list does not have any more is reported as deleted.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, NamedTuple

from apportion.cluster.client import Object
from apportion.cluster.kinds import ResourceKind
from apportion.cluster.resourceversion import number

Observe = Callable[[ResourceKind, str, Object], None]
"""Takes the kind, the event's type (ADDED, MODIFIED, DELETED, RESTORED) and the object."""
Answered = Callable[[ResourceKind], Iterable[Mapping[str, Any]]]
"""Returns the metadata of objects of a kind that the answers to writes have shown, and nothing that was reported."""


def nothing(_: ResourceKind) -> Iterable[Mapping[str, Any]]:
    """Nobody writes objects of the kind, or takes note of the answers."""
    return ()


class _Known(NamedTuple):
    """What is kept of a reported object: what a later DELETED needs."""

    version: int
    name: str
    namespace: str


class Reported:
    """Objects by UID."""

    def __init__(self, kind: ResourceKind, observe: Observe, answered: Answered) -> None:
        self._kind = kind
        self._observe = observe
        self._answered = answered
        self._known: dict[str, _Known] = {}

    def __len__(self) -> int:
        """Return how many objects were reported and are not deleted."""
        return len(self._known)

    def report(self, change: str, item: Object) -> None:
        """Report a change of an object, and remember what was reported."""
        metadata = item["metadata"]
        if change == "DELETED":
            self._known.pop(metadata["uid"], None)
        else:
            self._known[metadata["uid"]] = _Known(
                number(metadata["resourceVersion"]), metadata["name"], metadata.get("namespace", "")
            )
        self._observe(self._kind, change, item)

    def vanish(self, found: Container[str]) -> None:
        """Report every object as deleted whose UID was not `found`."""
        for uid in [uid for uid in self._known if uid not in found]:
            _, name, namespace = self._known[uid]
            self.report(
                "DELETED",
                {"metadata": {"uid": uid, "name": name, **({"namespace": namespace} if namespace else {})}},
            )

    def confirm(self, observed: float) -> None:
        """Report what answers alone have shown, in a version up to which every change was reported, as deleted: it was made and went in between."""
        for metadata in self._answered(self._kind):
            if number(metadata["resourceVersion"]) <= observed:
                self.report("DELETED", {"metadata": metadata})

    def compare(self, item: Object, observed: int) -> int:
        """Return more than 0 for a version later than the one that was reported, 0 for that one, less for one of another history.

        `observed`: the resourceVersion up to which every change was reported. In one history an object never gets an older version, and
        one that nobody knows was made after it: a UID does not come back.
        """
        metadata = item["metadata"]
        own, before = number(metadata["resourceVersion"]), self._known.get(metadata["uid"])
        if before is None:
            return 1 if own > observed else -1
        return own - before.version
