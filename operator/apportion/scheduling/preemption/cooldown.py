"""Cooldown: who may not have pods evicted for a while, who may not be evicted, and whose end nobody waits for.

In: evictions that were in vain, refusals by PodDisruptionBudgets, pods that did not end, the clock. Out: until when. A namespace whose evictions were
in vain waits, each time for twice as long; one that was served waits no more.
"""

from collections.abc import Callable, Iterable

_SPARED = 60.0
"""Seconds for which a pod is left alone that a PodDisruptionBudget protects."""
_LONGEST = 86_400.0
"""Seconds for which a namespace waits at most, and for which nobody waits for the end of a pod that took too long."""


class Cooldown:
    """By namespace, and by pod."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rests: dict[str, tuple[float, float]] = {}
        """Until when a namespace waits, and how long that is."""
        self._spared: dict[str, float] = {}
        self._hanging: dict[str, float] = {}

    def rests(self, namespace: str) -> bool:
        """Say whether nobody is evicted for this namespace now."""
        return self._rests.get(namespace, (0.0, 0.0))[0] > self._clock()

    def in_vain(self, namespace: str, first: float) -> float:
        """Let a namespace wait, the first time for `first` seconds; returns for how long."""
        _, last = self._rests.get(namespace, (0.0, 0.0))
        seconds = min(max(2 * last, first), _LONGEST)
        self._rests[namespace] = self._clock() + seconds, seconds
        return seconds

    def served(self, namespace: str) -> None:
        """End the rests of a namespace."""
        self._rests.pop(namespace, None)

    def spare(self, pod: str) -> None:
        """Leave a pod (UID) alone for a while."""
        now = self._clock()
        self._spared = {uid: until for uid, until in self._spared.items() if until > now}
        self._spared[pod] = now + _SPARED

    def spared(self, pod: str) -> bool:
        """Say whether a pod (UID) is left alone."""
        return self._spared.get(pod, 0.0) > self._clock()

    def waited_in_vain(self, pods: Iterable[str]) -> None:
        """Note that pods (UIDs) are being deleted and have not ended for too long: nobody waits for them."""
        now = self._clock()
        self._hanging = {uid: until for uid, until in self._hanging.items() if until > now}
        self._hanging |= dict.fromkeys(pods, now + _LONGEST)

    def hangs(self, pod: str) -> bool:
        """Say whether nobody waits for the end of a pod (UID)."""
        return pod in self._hanging and self._hanging[pod] > self._clock()
