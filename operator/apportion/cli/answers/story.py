"""Story: what became of one claim or pod so far, as `apportion why` and the web page tell it.

In: a world, the name of a claim or pod. Out: its devices with who chose them and by which strategy; or the reason why it waits, in the words
of the operator's Event, and changes each of which would be enough.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from apportion.allocator.decision import Decision
from apportion.cli.answers.decisions import DEVICES_HELD, Decisions, Reason
from apportion.cli.answers.remedies import Remedies, Remedy
from apportion.cli.answers.situation import Situation, claim_situation, pod_situation
from apportion.cli.world.holds import said
from apportion.cli.world.world import World
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod

FITS = "Fits"
"""The reason of what would be served now."""


class What(StrEnum):
    """What can be asked about."""

    CLAIM = "claim"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class Given:
    """One device that a claim has."""

    claim: str
    """`namespace/name`."""
    request: str
    device: str
    node: str
    """`-` where several nodes could use it."""
    allocatedBy: str  # noqa: N815 - as the commands print it
    strategy: str
    policy: str
    """AllocationPolicy of the claim's class; `-`: none."""


@dataclass(frozen=True, slots=True)
class Story:
    """How a claim or pod is now."""

    title: str
    reason: Reason | None
    """Why it waits; None: it is served."""
    remedies: tuple[Remedy, ...]
    devices: tuple[Given, ...]
    complete: bool = True
    """Whether all remedies were tried."""

    @property
    def held(self) -> tuple[str, ...]:
        """What is held for it, in words."""
        reason = self.reason
        return () if reason is None or reason.name == DEVICES_HELD else tuple(map(said, reason.held))


def find(snapshot: Snapshot, what: What, namespace: str, name: str) -> Claim | Pod | None:
    """Return the claim or pod of this name."""
    if what is What.CLAIM:
        return snapshot.claim(namespace, name)
    return next(
        (pod for pod in snapshot.pods.values() if pod.name == name and pod.namespace == namespace), None
    )


def story_of(
    world: World, decisions: Decisions, found: Claim | Pod, goes_on: Callable[[], bool] = lambda: True
) -> Story:
    """Tell the story of a claim or pod; no further remedy is tried when `goes_on` says no."""
    snapshot = world.snapshot
    if isinstance(found, Claim):
        title, situation = f"claim {found.key}", claim_situation(snapshot, decisions, found)
    else:
        title, situation = f"pod {found.key}", pod_situation(snapshot, decisions, found)
    if situation.demand is None:
        return Story(title, situation.reason, (), _given(snapshot, situation) if not situation.reason else ())
    answer = decisions.decide(situation.demand)
    if isinstance(answer, Decision):
        together = decisions.decide_in_group(situation.demand)
        if not isinstance(together, Decision):
            return Story(title, together, (), ())
        answer = together
        text = f"it fits on node {answer.node} now, so the operator is about to decide, or pauses after a failure"
        return Story(title, Reason(FITS, text), (), ())
    remedies: list[Remedy] = []
    complete = True
    for each in Remedies(world, decisions, situation.demand, answer).find():
        remedies.append(each)
        if not goes_on():
            complete = False
            break
    return Story(title, answer, tuple(remedies), (), complete)


def _given(snapshot: Snapshot, situation: Situation) -> tuple[Given, ...]:
    return tuple(row for claim in situation.claims for row in _devices(claim, snapshot))


def _devices(claim: Claim, snapshot: Snapshot) -> Iterator[Given]:
    allocation = claim.allocation
    own = [name for each in claim.classes if (name := snapshot.managed.policy_names.get(each))]
    for result in allocation.results if allocation is not None else ():
        yield Given(
            claim.key,
            result.request,
            str(result.device),
            (allocation.node if allocation is not None else None) or "-",
            claim.allocated_by or "-",
            snapshot.managed.policy(claim).strategy.value,
            own[0] if own else "-",
        )
