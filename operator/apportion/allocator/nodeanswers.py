"""NodeAnswers: what a plan in the making has found out about single nodes.

In: questions about a node, nodes that changed. Out: answers, each found out once as long as its node does not change; or that enough was
asked at once. The plan is then given up, and begun anew by these answers once others have run: between two attempts the state is as it was.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

Answer = TypeVar("Answer")

AT_ONCE = 64
"""Questions to the allocator in one attempt; one takes some tenths of a millisecond."""
COUNTED = 0.05
"""What it costs to count one thing that becomes free on a node, in such questions."""
EVERYWHERE = ""
"""Stands for a node in questions about all nodes; no node has this name."""


class Unfinished(Exception):  # noqa: N818 - it is no error: the plan is begun anew
    """Enough was asked in this attempt."""


class NodeAnswers:
    """The answers so far."""

    def __init__(self, most: float = AT_ONCE, *, keeps: bool = True) -> None:
        """`most`: questions in the first attempt. `keeps`: whether answers are kept; if not, everything is found out whenever it comes up."""
        self._most = self._left = most
        self._keeps = keeps
        self._answers: dict[str, dict[object, Any]] = {}
        """By node and by what was asked."""

    def of(
        self,
        node: str,
        asked: object,
        answer: Callable[[], Answer],
        cost: Callable[[Answer], float] = lambda _: 1.0,
    ) -> Answer:
        """Return the answer to what is `asked` about a node, found out if it is not known; raises Unfinished once enough was asked in this attempt.

        `cost`: how much time it took, in questions to the allocator.
        """
        if not self._keeps:
            return answer()
        known = self._answers.setdefault(node, {})
        if asked not in known:
            if self._left <= 0:
                raise Unfinished
            known[asked] = answer()
            self._left -= cost(known[asked])
        found: Answer = known[asked]
        return found

    def search(self, steps: Iterable[bool]) -> None:
        """Make searches that an answer needs, where answers are kept; raises Unfinished after a slice of one that takes long, which goes on in the next attempt.

        `steps` say whether a search goes on.
        """
        if self._keeps and any(steps):
            raise Unfinished

    def begin(self, changed: Collection[str] | None) -> None:
        """Begin another attempt, after these nodes changed; None: any may have. So that a plan ends where they always do, that one may ask twice as much."""
        if changed is None:
            self._answers.clear()
            self._most *= 2
        elif changed and self._answers.pop(EVERYWHERE, None) is not None:
            self._most *= 2
        for node in changed or ():
            self._answers.pop(node, None)
        self._left = self._most
