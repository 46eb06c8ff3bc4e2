"""VictimSearch: whom to evict for a demand, asked of the allocator.

In: a demand that was refused, who has devices. Out: the cheapest victims with the pods to evict, or None. At most MOST_NODES nodes are
looked at in one search; where there are more, the next search begins behind them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from apportion.allocator.policyterms import terms_of
from apportion.allocator.preemption.findvictims import MOST_NODES, find_victims
from apportion.allocator.preemption.victims import VictimSet
from apportion.dra.pod import Pod
from apportion.errors import BrokenInput
from apportion.scheduling.candidates import unplaced
from apportion.scheduling.decider import Decider
from apportion.scheduling.hostcapacity import HostCapacity
from apportion.scheduling.podneeds import total
from apportion.scheduling.preemption.cooldown import Cooldown
from apportion.scheduling.preemption.eligibility import Eligibility, Holder
from apportion.scheduling.preemption.holders import ClaimsByNode, Holders
from apportion.scheduling.quota.overlimit import OverLimit
from apportion.scheduling.waiting import WaitingDemand


class _Nobody:
    """The rule by which nobody is evicted."""

    def may_go(self, _holder: Holder, _demand: WaitingDemand) -> bool:
        return False


_NOBODY = _Nobody()


@dataclass(frozen=True, slots=True)
class Chosen:
    """Victims, and all the pods to evict: those of groups, on other nodes too."""

    victims: VictimSet
    pods: tuple[Pod, ...]


class VictimSearch:
    """Searches for one demand at a time."""

    def __init__(self, decider: Decider, holders: Holders, rule: Eligibility, cooldown: Cooldown) -> None:
        self._decider = decider
        self._snapshot = decider.snapshot
        self._holders = holders
        self._rule = rule
        self._cooldown = cooldown
        self._turn = 0
        """Where the next search begins among the nodes, if there are too many."""

    def claims(self) -> ClaimsByNode:
        """Return the claims whose devices could be taken back."""
        return self._holders.by_node()

    def search(
        self,
        demand: WaitingDemand,
        found: ClaimsByNode,
        nodes: Iterable[str],
        capacity: HostCapacity,
        *,
        evicts: bool,
    ) -> Chosen | None:
        """Return the cheapest victims; None if there are none, or if the demand needs none."""
        try:
            self._decider.quotas.check(demand)
        except OverLimit:
            return None  # what waits for its quota takes nothing from anybody
        asked = self._decider.candidates.ask_with_victims(demand, capacity, nodes)
        if asked is None:
            return None
        names = sorted(asked.nodes or ())
        first = self._turn % len(names) if len(names) > MOST_NODES else 0
        self._turn += MOST_NODES
        rows = [(name, found.claims[name]) for name in (names[first:] + names[:first])[:MOST_NODES]]
        wanted = total(unplaced(demand, self._snapshot))
        rule = self._rule if evicts else _NOBODY
        possible = self._holders.read(demand, rows, capacity, rule, self._cooldown.spared, wanted)
        terms = terms_of(self._snapshot.managed.policy(demand.claims[0]))
        try:
            with self._decider.reservations.lifted(demand):
                victims = find_victims(
                    self._snapshot.state,
                    asked,
                    possible.nodes,
                    wanted=wanted,
                    terms=terms,
                    prefer=self._decider.candidates.idle,
                )
            if victims is None:
                return None
            self._decider.quotas.within(demand, victims.decision, lambda _: None)
            self._decider.admissible.check(demand, victims.decision)
        except (BrokenInput, OverLimit):
            return None  # the one who decides about the demand meets it again, and says so
        pods = {pod.uid: pod for each in victims.victims for pod in possible.pods[each.key]}
        pods |= {pod.uid: pod for group in sorted(victims.groups) for pod in possible.groups[group]}
        return Chosen(victims, tuple(pods.values()))
