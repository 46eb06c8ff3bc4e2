"""Bindings: pods that somebody follows, and which of them have been bound, those included that are gone by now.

In: pods as they come and go. Out: whether one has been bound to a node. A reader that looks at the snapshot from time to time does not see a pod that was bound and deleted in between.
"""

from collections.abc import Iterable

from apportion.dra.pod import Pod


class Bindings:
    """Of the pods that are followed."""

    def __init__(self) -> None:
        self._bound: dict[str, bool] = {}
        """By UID."""

    def follow(self, pods: Iterable[Pod]) -> None:
        """Follow these pods, and no others."""
        self._bound = {pod.uid: self._bound.get(pod.uid, False) or pod.node is not None for pod in pods}

    def note(self, uid: str, *versions: Pod | None) -> None:
        """Note that a pod changed, from one version to another."""
        if uid in self._bound and any(pod is not None and pod.node is not None for pod in versions):
            self._bound[uid] = True

    def any_of(self, pods: Iterable[Pod]) -> bool:
        """Say whether one of these pods, which are followed, has been bound."""
        return any(self._bound.get(pod.uid) for pod in pods)
