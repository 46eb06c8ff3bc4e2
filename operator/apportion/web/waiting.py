"""The queue: what waits for devices, in the operator's order, and why.

In: the cluster as observed, a page. Out: rows with the reason of the operator's Event.
"""

from dataclasses import dataclass

from apportion.allocator.decision import Decision
from apportion.cli.answers.decisions import Decisions
from apportion.cli.answers.story import FITS
from apportion.scheduling.demands.waiting import Unservable, UnservablePod, WaitingDemand
from apportion.web.observed import Observed
from apportion.web.paging import Paging, paging

ROWS = 25
"""Demands on a page: each is decided about."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One demand that waits, or what nobody serves as it is."""

    place: int | None
    """From 1; None: it is in no queue."""
    claims: tuple[str, ...]
    """`namespace/name`."""
    pods: tuple[str, ...]
    priority: int
    since: str
    """When the oldest of its objects was created (RFC 3339)."""
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class QueuePage:
    """One page of the queue."""

    waiting: int
    """Demands in the queue."""
    unservable: int
    """What nobody serves as it is; it comes after the queue."""
    paging: Paging
    rows: tuple[QueueRow, ...]


def queue_page(observed: Observed, page: int) -> QueuePage:
    """Return a page of the queue."""
    decisions = observed.decisions()
    waiting, unserved = decisions.waiting, decisions.unserved
    shown = paging(len(waiting) + len(unserved), ROWS, page)
    rows = [
        _waiting_row(decisions, waiting[index], index + 1)
        if index < len(waiting)
        else _unserved_row(decisions, unserved[index - len(waiting)])
        for index in range(shown.start, shown.end)
    ]
    return QueuePage(len(waiting), len(unserved), shown, tuple(rows))


def _waiting_row(decisions: Decisions, demand: WaitingDemand, place: int) -> QueueRow:
    answer = decisions.decide_in_group(demand)
    if isinstance(answer, Decision):
        reason, text = FITS, f"it fits on node {answer.node} now"
    else:
        reason, text = answer.name, answer.text
    return QueueRow(
        place,
        tuple(claim.key for claim in demand.claims),
        tuple(pod.key for pod in demand.pods),
        demand.priority,
        demand.since,
        reason,
        text,
    )


def _unserved_row(decisions: Decisions, found: Unservable) -> QueueRow:
    reason = decisions.unservable(found)
    if isinstance(found, UnservablePod):
        return QueueRow(
            None, (), (found.pod.key,), found.pod.priority, found.pod.created, reason.name, reason.text
        )
    pods = tuple(pod.key for pod in decisions.snapshot.users(found.claim))
    return QueueRow(None, (found.claim.key,), pods, 0, found.claim.created, reason.name, reason.text)
