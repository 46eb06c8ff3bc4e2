"""Chosen: the victims of one that waits, with the pods to evict.

In: an attempt, who may go by it, the victims that the allocator found. Out: one value: all pods that have to go, and which of them have borrowed
what is taken back.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from apportion.allocator.decision import Decision
from apportion.allocator.preemption.findgangvictims import GangVictims
from apportion.allocator.preemption.victims import VictimSet
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.scheduling.preemption.attempt import Attempt
from apportion.scheduling.preemption.holders import PossibleVictims


@dataclass(frozen=True, slots=True)
class Chosen:
    """Victims, and all the pods to evict: those of groups, on other nodes too."""

    victims: VictimSet | GangVictims
    pods: tuple[Pod, ...]
    asked: tuple[Claim, ...]
    """The demand's claims as the allocator was asked about them."""
    awaited: tuple[Pod, ...] = ()
    """Pods that end already, or are being evicted for others, and leave something for this one, too."""
    quota: str = ""
    """The quota that takes something back; empty: they go by priority."""
    borrowers: Mapping[str, str] = field(default_factory=dict)
    """By UID of the pods from whom it does: the quota that has borrowed."""

    @property
    def holds(self) -> dict[str, tuple[DeviceResult, ...]]:
        """Return what the victims' claims (UIDs) have, which is free once these pods are gone."""
        return {uid: results for each in self.victims.victims for uid, results in each.holds.items()}

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Return what each member gets."""
        return decisions_of(self.victims)


def chosen_by(
    attempt: Attempt, possible: Collection[PossibleVictims], victims: VictimSet | GangVictims
) -> Chosen:
    """Return the pods behind victims, and which of them have borrowed what is taken back."""
    pods: dict[str, Pod] = {}
    borrowers: dict[str, str] = {}
    groups = {key: whole for each in possible for key, whole in each.groups.items()}
    single = {key: own for each in possible for key, own in each.pods.items()}
    holders = {key: holder for each in possible for key, holder in each.holders.items()}
    for each in victims.victims:
        whole = each.group in victims.groups
        holder = groups[each.group] if whole else holders[each.key]
        own = holder.pods if whole else single[each.key]
        pods |= {pod.uid: pod for pod in own}
        if own and not attempt.by_priority.may_go(holder, attempt.demand):
            borrowers |= dict.fromkeys([pod.uid for pod in own], attempt.reclaim.borrower(holder.claims))
    gone = {pod.uid: pod for each in victims.victims for pod in holders[each.key].pods}
    awaited = tuple(pod for uid, pod in gone.items() if uid not in pods)
    quota = attempt.reclaim.quota if borrowers else ""
    return Chosen(victims, tuple(pods.values()), attempt.demand.asked, awaited, quota, borrowers)


def pods_of(possible: Iterable[PossibleVictims], victims: VictimSet | GangVictims) -> tuple[Pod, ...]:
    """Return all the pods that are gone once victims are, those of groups on other nodes too."""
    keys = {each.key for each in victims.victims}
    pods: dict[str, Pod] = {}
    for each in possible:
        holders = [holder for key, holder in each.holders.items() if key in keys]
        holders += [whole for key, whole in each.groups.items() if key in victims.groups]
        pods |= {pod.uid: pod for holder in holders for pod in holder.pods}
    return tuple(pods.values())


def decisions_of(victims: VictimSet | GangVictims) -> tuple[Decision, ...]:
    """Return what each member gets once the victims are gone."""
    return victims.decisions if isinstance(victims, GangVictims) else (victims.decision,)


def together(decisions: Sequence[Decision]) -> Decision:
    """Return decisions as one, for what is charged for them together."""
    allocations = tuple(each for decision in decisions for each in decision.allocations)
    return Decision(decisions[0].node, allocations)
