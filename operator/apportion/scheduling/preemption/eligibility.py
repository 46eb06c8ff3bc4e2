"""Eligibility: who may be a victim for whom.

In: a demand that waits, pods that have devices. Out: whether they may be evicted for it. LowerPriority is the rule of a policy; that of
quotas, by which pods go that have what their quota has borrowed, is `guarantees.ReclaimRule`. Why nobody flaps by both: ADR 28.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.scheduling.demands.waiting import WaitingDemand


@dataclass(frozen=True, slots=True)
class Holder:
    """Pods that share claims with devices, with all of these claims: they go together or not at all."""

    claims: tuple[Claim, ...]
    pods: tuple[Pod, ...]
    """Live pods, bound to a node."""
    priority: int
    """The highest of its pods and of their groups."""
    by_priority: bool = True
    """Whether the policies of all of its claims let it go for a higher priority."""


class Eligibility(Protocol):
    """A rule by which pods may be evicted."""

    def may_go(self, holder: Holder, demand: WaitingDemand) -> bool:
        """Say whether these pods may be evicted so that the demand gets devices."""


class LowerPriority:
    """Pods go for those of strictly higher priority."""

    def may_go(self, holder: Holder, demand: WaitingDemand) -> bool:
        """Say whether all pods have a lower priority than the demand."""
        return holder.by_priority and holder.priority < demand.priority


class AnyOf:
    """Pods go if one of several rules says so."""

    def __init__(self, rules: Iterable[Eligibility]) -> None:
        self._rules = tuple(rules)

    def may_go(self, holder: Holder, demand: WaitingDemand) -> bool:
        """Say whether a rule lets them go."""
        return any(rule.may_go(holder, demand) for rule in self._rules)
