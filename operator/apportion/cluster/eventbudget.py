"""EventBudget: how many Events may be written now, in all and for each namespace.

In: the time, by any clock; the namespaces of Events that are written. Out: whether one more may be written. Pure.
"""

from dataclasses import dataclass, field

RATE, BURST = 25.0, 256.0
"""Events that are written a second, on average, and at once: each costs the API server as much as a pod's binding."""
NAMESPACE_RATE, NAMESPACE_BURST = 10.0, 128.0
"""The same for one namespace: its flood leaves the API server's time, and most of this budget, to others."""
_MOST_KEPT = 1024
"""Namespaces whose budget is kept although it may be whole by now."""


@dataclass(slots=True)
class _Bucket:
    """A budget that refills."""

    rate: float
    burst: float
    left: float
    at: float

    def refill(self, now: float) -> float:
        """Return what is left now."""
        self.left, self.at = min(self.burst, self.left + (now - self.at) * self.rate), now
        return self.left


@dataclass(slots=True)
class EventBudget:
    """The budget, whole at the start."""

    _all: _Bucket = field(default_factory=lambda: _Bucket(RATE, BURST, BURST, float("-inf")))
    _namespaces: dict[str, _Bucket] = field(default_factory=dict)

    def wait(self, now: float) -> float:
        """Return the seconds until one more Event may be written, whatever its namespace."""
        return max(0.0, (1 - self._all.refill(now)) / RATE)

    def allows(self, namespace: str, now: float) -> bool:
        """Say whether the namespace has something left."""
        bucket = self._namespaces.get(namespace)
        return bucket is None or bucket.refill(now) >= 1

    def spend(self, namespace: str, now: float) -> None:
        """Count one Event of the namespace."""
        self._all.refill(now)
        self._all.left -= 1
        if len(self._namespaces) >= _MOST_KEPT:
            self._namespaces = {
                name: bucket for name, bucket in self._namespaces.items() if bucket.refill(now) < bucket.burst
            }
        own = self._namespaces.setdefault(
            namespace, _Bucket(NAMESPACE_RATE, NAMESPACE_BURST, NAMESPACE_BURST, now)
        )
        own.refill(now)
        own.left -= 1
