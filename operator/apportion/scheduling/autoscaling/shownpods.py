"""ShownPods: what was found last about pods that autoscalers are to see, or not to see any more, until they look so.

In: the snapshot, the clock, what is found. Out: what is to be written now; what a write was lost for is repeated.
"""

from collections.abc import Callable
from itertools import takewhile

from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod

_ANSWERED = 10.0
"""Seconds after which a pod is shown, or hidden, once more if it does not look so."""


class ShownPods:
    """Follows pods by UID."""

    def __init__(self, snapshot: Snapshot, clock: Callable[[], float]) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._said: dict[str, tuple[float, str]] = {}
        """When a pod was found last, and with which reason, the longest ago first; until it looks so then, or a while later."""

    def is_seen(self, pod: Pod) -> bool:
        """Say whether autoscalers see a pod, or will once what was said of it is written."""
        return pod.shown or bool(self._said.get(pod.uid, (0.0, ""))[1])

    def news(self, found: dict[str, tuple[Pod, str]]) -> dict[str, tuple[Pod, str]]:
        """Return those that are there as they were and do not look so yet, with those that still do not after a while."""
        now, pods, news = self._clock(), self._snapshot.pods, dict[str, tuple[Pod, str]]()
        due = [uid for uid, _ in takewhile(lambda row: now - row[1][0] >= _ANSWERED, self._said.items())]
        said = {uid: why for uid, (pod, why) in found.items() if pods.get(uid) is pod}
        for uid, why in [*((uid, self._said[uid][1]) for uid in due if uid not in said), *said.items()]:
            self._said.pop(uid, None)
            if (pod := pods.get(uid)) is None or GATE not in pod.gates:
                continue
            looks_so = pod.shown == bool(why)
            if not looks_so:
                news[uid] = pod, why
            # What was written to show it may be carried out after it was to be hidden.
            if not looks_so or (not why and uid in said):
                self._said[uid] = now, why
        return news
