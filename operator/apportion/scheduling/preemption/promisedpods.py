"""PromisedPods: pods for which others go, counted on the nodes that are kept for them while victims are searched for others.

In: what is in progress. Out: neighbours beside which those others would run. The queue does not see them: they may get other nodes, and who needs their company would wait for it
behind no gate.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from apportion.dra.pod import Pod
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.preemption.inprogress import InProgress


class PromisedPods:
    """Pods on nodes to which nobody has sent them yet."""

    def __init__(self, candidates: Candidates, in_progress: Callable[[], InProgress]) -> None:
        self._candidates = candidates
        self._in_progress = in_progress
        self._counted: dict[str, tuple[Pod, str]] = {}
        """By UID, with the node."""

    @contextmanager
    def counted(self) -> Generator[None]:
        """Count them within a block."""
        self.follow()
        try:
            yield
        finally:
            self._replace({})

    def follow(self) -> None:
        """Count them as they are now."""
        self._replace(self._in_progress().pods)

    def _replace(self, pods: Mapping[str, tuple[Pod, str]]) -> None:
        for uid, (pod, node) in tuple(self._counted.items()):
            if uid not in pods or pods[uid][1] != node:
                del self._counted[uid]
                self._candidates.placed.place(pod, None)
        for uid, (pod, node) in pods.items():
            if uid not in self._counted and self._candidates.placed.place_of(pod) is None:
                self._counted[uid] = pod, node
                self._candidates.placed.place(pod, node)
