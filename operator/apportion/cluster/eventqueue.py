"""EventQueue: Events that wait to be written, in fair turns between namespaces.

In: Events as they are recorded, the time. Out: the one to write next. Of several Events for one reason about one object the
newest waits, in the place of the first. Pure: no clock, no I/O.
"""

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from apportion.cluster.kinds import ResourceKind

MOST_WAITING = 10_000
"""Events that wait at most; beyond, the namespace with the most of them loses its newest."""


@dataclass(frozen=True, slots=True)
class About:
    """The object that an Event is about (`involvedObject`)."""

    kind: ResourceKind
    name: str
    uid: str
    namespace: str = ""

    @property
    def key(self) -> str:
        """The UID; the name of an object whose UID is unknown."""
        return self.uid or self.name


@dataclass(frozen=True, slots=True)
class Event:
    """An Event to write."""

    about: About
    severity: str
    reason: str
    text: str

    @property
    def topic(self) -> tuple[str, str]:
        """Object and reason: of the Events that wait for one topic, the newest is written."""
        return self.about.key, self.reason


@dataclass(slots=True)
class _Waiting:
    """What waits in one namespace, by topic."""

    ready: dict[tuple[str, str], Event] = field(default_factory=dict)
    later: dict[tuple[str, str], Event] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ready) + len(self.later)


class EventQueue:
    """Events by namespace and topic."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        """`most` Events wait at once."""
        self._most = most
        self.dropped: Counter[str] = Counter()
        """How many Events were given up for lack of room, by namespace; the caller empties it."""
        self._namespaces: OrderedDict[str, _Waiting] = OrderedDict()
        """The one whose turn it is first."""
        self._due: list[tuple[float, str, tuple[str, str]]] = []
        """When Events that wait for their time become ready; also of some that do not wait any more."""
        self._reasons: dict[str, set[str]] = {}
        """Reasons that wait, by object."""
        self._size = 0
        self._by_size: dict[int, dict[str, None]] = {}
        """Namespaces by how many of their Events wait."""
        self._largest = 0
        """The largest of these numbers."""

    def __len__(self) -> int:
        return self._size

    def put(self, event: Event, *, due: float, now: float) -> None:
        """Let an Event wait until `due` (seconds, by the clock of `now`), in the place of an older one of its topic."""
        topic, namespace = event.topic, event.about.namespace
        waiting = self._namespaces.get(namespace) or _Waiting()
        for events in (waiting.ready, waiting.later):
            if topic in events:
                events[topic] = event
                return
        if self._size >= self._most and not self._make_room(namespace):
            return
        self._namespaces[namespace] = waiting
        self._size += 1
        self._resize(namespace, len(waiting), len(waiting) + 1)
        self._reasons.setdefault(topic[0], set()).add(topic[1])
        if due <= now:
            waiting.ready[topic] = event
        else:
            waiting.later[topic] = event
            heapq.heappush(self._due, (due, namespace, topic))

    def withdraw(self, about: About, reason: str | None = None) -> None:
        """Let no Event about the object wait any more, or none for this reason."""
        for each in tuple(self._reasons.get(about.key, ())):
            if reason in (None, each):
                self._remove(about.namespace, (about.key, each))

    def next(
        self, now: float, allows: Callable[[str, float], bool] = lambda _namespace, _now: True
    ) -> Event | None:
        """Return and remove the Event to write now; None when none is due. Namespaces that are allowed one take turns."""
        while self._due and self._due[0][0] <= now:
            _, namespace, topic = heapq.heappop(self._due)
            waiting = self._namespaces.get(namespace)
            if waiting is not None and topic in waiting.later:
                waiting.ready[topic] = waiting.later.pop(topic)
        for namespace, waiting in self._namespaces.items():
            if waiting.ready and allows(namespace, now):
                topic, event = next(iter(waiting.ready.items()))
                self._namespaces.move_to_end(namespace)
                self._remove(namespace, topic)
                return event
        return None

    def _make_room(self, namespace: str) -> bool:
        """Give up the newest Event of the namespace with the most; says whether `namespace` may have one more."""
        mine = len(self._namespaces.get(namespace, ()))
        if self._largest <= mine + 1:
            self.dropped[namespace] += 1
            return False
        largest = next(iter(self._by_size[self._largest]))
        waiting = self._namespaces[largest]
        self.dropped[largest] += 1
        self._remove(largest, next(reversed(waiting.later or waiting.ready)))
        return True

    def _remove(self, namespace: str, topic: tuple[str, str]) -> None:
        waiting = self._namespaces.get(namespace)
        if waiting is None or (waiting.ready.pop(topic, None) or waiting.later.pop(topic, None)) is None:
            return
        if not len(waiting):
            del self._namespaces[namespace]
        self._size -= 1
        self._resize(namespace, len(waiting) + 1, len(waiting))
        reasons = self._reasons[topic[0]]
        reasons.discard(topic[1])
        if not reasons:
            del self._reasons[topic[0]]

    def _resize(self, namespace: str, before: int, after: int) -> None:
        """Note that one Event more or less of a namespace waits."""
        if before:
            del self._by_size[before][namespace]
            if not self._by_size[before]:
                del self._by_size[before]
        if after:
            self._by_size.setdefault(after, {})[namespace] = None
        if after > self._largest or self._largest not in self._by_size:
            self._largest = after
