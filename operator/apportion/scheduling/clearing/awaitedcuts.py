"""AwaitedCuts: claims whose pods wait behind the gate for a partition that nobody cuts, or for a whole card from which nobody removes one.

In: the claims that kept gates shut for that in each pass, the clock. Out: those whose allocation is to be cleared. A node or agent that dies between
allocation and cut leaves the Partition as it is, and on bare metal the Node object stays; a process of the host's may use an idle partition for days: without
an end the pod, or a whole group with all its devices, would wait for as long.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.pod import Pod
from apportion.scheduling.demands.consumers import is_taken_up

PATIENCE: Final = 300.0
"""Seconds, counted from when the pod lacks nothing else. An agent that lives has cut the partition by then or says that it failed: it waits for room on the
card for 60 s at most, 30 s for a driver that timed out, 20 s for a card that another process has locked (agent, `Timeouts`), and an update replaces it
within a minute or two. It waits longer for nothing but a partition in deletion whose containers run on, which has no end either."""
_PAUSE: Final = 10.0
"""Seconds until a claim that is still there is to be cleared once more."""


class AwaitedCuts:
    """Since when the partition of each claim is waited for."""

    def __init__(
        self,
        snapshot: Snapshot,
        clock: Callable[[], float],
        *,
        manager: str,
        ungating: Callable[[str], bool],
    ) -> None:
        """`manager` is our field manager: only what we wrote is cleared. `ungating` says of which pods (UIDs) the gate is being removed."""
        self._snapshot = snapshot
        self._clock = clock
        self._manager = manager
        self._ungating = ungating
        self._since: dict[str, float] = {}
        """By UID."""

    def begin_anew(self) -> None:
        """Count the time from now on."""
        self._since.clear()

    def overdue(self, awaited: Iterable[Claim]) -> Iterator[Claim]:
        """Yield the claims with whose devices no pod can have started, and whose partition was waited for all the time; `awaited`: those of this pass."""
        now = self._clock()
        former, self._since = self._since, {}
        for claim in awaited:
            since = former.get(claim.uid, now)
            if now - since >= PATIENCE and self._is_untaken(claim):
                since = now - PATIENCE + _PAUSE
                yield claim
            self._since[claim.uid] = since

    def _is_untaken(self, claim: Claim) -> bool:
        return (
            claim.allocated_by == self._manager
            and not is_taken_up(claim, self._snapshot)
            and all(pod.finished or self._is_shut(pod) for pod in self._snapshot.users(claim))
        )

    def _is_shut(self, pod: Pod) -> bool:
        return pod.node is None and GATE in pod.gates and not self._ungating(pod.uid)


def awaited_of(claim: Claim, snapshot: Snapshot) -> list[DeviceId]:
    """Return the devices of a claim that are cut from a card, or are cards on which partitions are left."""
    devices = snapshot.devices
    results = claim.allocation.results if claim.allocation is not None else ()
    return [
        result.device
        for result in results
        if devices.partition(result.device) is not None
        or devices.published_partition(result.device) is not None
        or devices.leaving(result)
    ]
