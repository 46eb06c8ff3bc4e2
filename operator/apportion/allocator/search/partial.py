"""PartialSolution: the devices that a search has chosen so far, and the devices that it may choose next.

In: a view; devices taken and given back, one at a time. Out: states of counter groups, shares and constraints, and masks.
"""

from collections.abc import Sequence
from typing import NamedTuple

from apportion.allocator.node.counters import GroupState
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import ErrorCause, Query
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.constraints import ConstraintState


class Pick(NamedTuple):
    """One device for one slot. A named tuple, because a search creates many."""

    slot: int
    alternative: int
    device: int


LOOKS = 256
"""Looks at masks that take as long as to try a device: some ten microseconds."""


class OutOfBudget(Exception):  # noqa: N818 - control flow inside the search
    """The steps are used up."""


class PartialSolution:
    """The devices chosen in one search."""

    def __init__(
        self, view: NodeView, query: Query, candidate_rows: Sequence[Sequence[Candidates]], steps: int
    ) -> None:
        self.view = view
        self.query = query
        self.candidate_rows = candidate_rows
        self._left = steps
        self._looks = 0
        self.states = [group.state for group in view.groups]
        self._share_charged: list[bool] = []
        self._former_states: list[GroupState] = []
        self.fit = view.fit
        self.taken = 0
        """Devices chosen as a whole, by any claim of the demand."""
        self.taken_by: dict[int, int] = {}
        self.paid = 0
        """Shareable devices whose counters were charged in this search."""
        self.shares: dict[int, dict[str, int]] = {}
        self.constraints = [ConstraintState(constraint, view) for constraint in query.constraints]
        self.picks: list[Pick] = []
        self.counts: dict[int, int] = {}
        """Devices chosen by claim."""

    @property
    def steps_left(self) -> int:
        """Steps that may still be done."""
        return max(self._left, 0)

    def spend(self, looks: int) -> None:
        """Count looks at masks: a search may have a budget of work, not of devices, some of which take much. Raises OutOfBudget."""
        self._looks += looks
        self._left -= self._looks // LOOKS
        self._looks %= LOOKS
        if self._left < 0:
            raise OutOfBudget

    def open(self, candidates: Candidates, claim: int) -> int:
        """Return the devices that the alternative may take next."""
        mask = self.before_constraints(candidates, claim)
        for number in candidates.alternative.constraints:
            mask &= self.constraints[number].mask
        return mask

    def before_constraints(self, candidates: Candidates, claim: int) -> int:
        """Return the devices that are free and have sufficient counters, without regard to constraints."""
        if candidates.alternative.admin:
            # Admin access consumes no counters (kubernetes/kubernetes #140729).
            return candidates.mask & ~self.taken_by.get(claim, 0)
        return candidates.mask & ~self.taken & self.fit

    def take(self, number: int, candidates: Candidates, claim: int, index: int) -> bool:
        """Choose a device; False if its capacity does not suffice with the shares chosen so far."""
        self._left -= 1
        if self._left < 0:
            raise OutOfBudget
        bit = 1 << index
        view = self.view
        if view.shareable & bit:
            if not self._share(candidates, index):
                return False
        else:
            self.taken |= bit
            self.taken_by[claim] = self.taken_by.get(claim, 0) | bit
            if not candidates.alternative.admin:
                self._charge(index)
        for constraint in candidates.alternative.constraints:
            self.constraints[constraint].add(index)
        self.counts[claim] = self.counts.get(claim, 0) + 1
        self.picks.append(Pick(number, candidates.number, index))
        return True

    def give_back(self, candidates: Candidates, claim: int, index: int) -> None:
        """Undo the choice of the device chosen last."""
        bit = 1 << index
        self.picks.pop()
        self.counts[claim] -= 1
        for constraint in candidates.alternative.constraints:
            self.constraints[constraint].remove()
        if self.view.shareable & bit:
            self._unshare(candidates, index)
            return
        self.taken_by[claim] &= ~bit
        # One device may be chosen with admin access and by another claim; it is free after both are undone.
        if not any(mask & bit for mask in self.taken_by.values()):
            self.taken &= ~bit
        if not candidates.alternative.admin:
            self._discharge(index)

    def _share(self, candidates: Candidates, index: int) -> bool:
        taken = self.view.charge(index, candidates.alternative)
        if taken is None or isinstance(taken, ErrorCause):
            return False
        used = self.shares.get(index, {})
        held = self.view.used.get(index, {})
        capacity = self.view.devices[index].capacity
        for name, amount in taken.items():
            if held.get(name, 0) + used.get(name, 0) + amount.nano > capacity[name].value.nano:
                return False
        self.shares[index] = {name: used.get(name, 0) + amount.nano for name, amount in taken.items()} | {
            "": used.get("", 0) + 1
        }
        bit = 1 << index
        charges = not candidates.alternative.admin and not (self.view.charged | self.paid) & bit
        self._share_charged.append(charges)
        if charges:
            self.paid |= bit
            self._charge(index)
        return True

    def _unshare(self, candidates: Candidates, index: int) -> None:
        used = self.shares[index]
        if self._share_charged.pop():
            self.paid &= ~(1 << index)
            self._discharge(index)
        if used[""] > 1:
            taken = self.view.charge(index, candidates.alternative)
            for name, amount in taken.items() if isinstance(taken, dict) else ():
                used[name] -= amount.nano
            used[""] -= 1
            return
        del self.shares[index]

    def _charge(self, index: int) -> None:
        """Charge the counters of a device."""
        member = self.view.group_of.get(index)
        if member is not None:
            former = self.states[member[0]]
            self._former_states.append(former)
            self._set_state(member[0], former.after(member[1]))

    def _discharge(self, index: int) -> None:
        # Devices are given back in reverse order, so the last state kept is the one before this device.
        member = self.view.group_of.get(index)
        if member is not None:
            self._set_state(member[0], self._former_states.pop())

    def _set_state(self, number: int, state: GroupState) -> None:
        group = self.view.groups[number]
        self.states[number] = state
        self.fit = self.fit & ~group.mask | group.spread(state.fits) | self.view.charged | self.paid
