"""The search on one node: devices for every slot, in order, or the proof that there are none.

In: options per slot. Out: picks, "none", or "budget". Depth first in the order of the slots, as upstream does, so that
the first solution in device order is upstream's. What upstream does not do: devices that are alike are tried once,
states that failed are remembered in a form that likeness does not change, and counts are compared before and, after
the first dead end, during the search. None of this removes a solution.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from apportion.allocator.bounds import Ask, possible
from apportion.allocator.counters import GroupState, bits
from apportion.allocator.fault import Fault, Flaw
from apportion.allocator.likeness import Likeness
from apportion.allocator.options import Option
from apportion.allocator.rules import RuleState
from apportion.allocator.shape import MOST_RESULTS, Shape
from apportion.allocator.view import NodeView

STEPS = 20_000
"""Devices tried on one node before the search gives up; about 0.2 s."""


@dataclass(frozen=True, slots=True)
class Pick:
    """One device for one slot."""

    slot: int
    want: int
    device: int


class OutOfBudget(Exception):  # noqa: N818 - control flow inside the search
    """The steps are used up."""


class Order(Protocol):
    """In which order a strategy tries devices."""

    def order(self, search: "Search", option: Option, mask: int) -> Sequence[int]:
        """Return the devices of the mask, the one to try first first."""
        ...


class Search:
    """One search on one node. `run` may be called once."""

    def __init__(
        self,
        view: NodeView,
        shape: Shape,
        options: list[list[Option]],
        order: Order,
        *,
        steps: int = STEPS,
        prefer: Mapping[int, int] | None = None,
    ) -> None:
        self.view = view
        self.shape = shape
        self.options = options
        self.prefer = prefer or {}
        self._order = order
        self._left = steps
        self.states = [group.state for group in view.groups]
        self._payers: list[bool] = []
        self._before: list[GroupState] = []
        self.fit = view.fit
        self.taken = 0
        """Devices chosen as a whole, by any claim of the demand."""
        self.taken_by: dict[int, int] = {}
        self.paid = 0
        """Shareable devices that were charged their counters in this search."""
        self.shares: dict[int, dict[str, int]] = {}
        self.rules = [RuleState(rule, view) for rule in shape.rules]
        self.picks: list[Pick] = []
        self._counts: dict[int, int] = {}
        self._likeness: Likeness | None = None
        self._dead: set[object] = set()
        # Where an error may end the search, only upstream's order says whether it is met before a solution.
        self.exact_order = any(
            option.errors or (option.everything is not None and option.want.rules)
            for row in options
            for option in row
        )

    def run(self) -> tuple[Pick, ...] | None:
        """Return the picks, or None if there is no solution; raises Fault and OutOfBudget."""
        if not self.exact_order and not self._hopeful(0, narrow=True):
            return None
        return tuple(self.picks) if self._slot(0) else None

    def open(self, option: Option, claim: int) -> int:
        """Return the devices that the option may take next."""
        mask = self.before_rules(option, claim)
        for number in option.want.rules:
            mask &= self.rules[number].mask
        return mask

    def before_rules(self, option: Option, claim: int) -> int:
        """Return the devices that are free and have the counters, whatever the constraints say."""
        if option.want.admin:
            # Looking at a device takes nothing from its counters (kubernetes/kubernetes #140729).
            return option.mask & ~self.taken_by.get(claim, 0)
        return option.mask & ~self.taken & self.fit

    def _slot(self, number: int) -> bool:
        if number == len(self.options):
            return True
        mark = self._mark(number)
        if mark is not None and mark in self._dead:
            return False
        claim = self.shape.slots[number].claim
        for option in self.options[number]:
            if self._counts.get(claim, 0) + option.count > MOST_RESULTS:
                continue
            if option.everything is not None:
                done = self._all(number, option, claim)
            else:
                done = self._pick(number, option, claim, option.count, -1)
            if done:
                return True
        mark = self._mark(number)
        if mark is not None:
            self._dead.add(mark)
        return False

    def _pick(self, number: int, option: Option, claim: int, left: int, allowed: int) -> bool:
        """Choose `left` more devices out of `allowed` for the slot, then go on with the next one."""
        if left == 0:
            return self._slot(number + 1)
        mask = self.open(option, claim) & allowed
        if self.exact_order:
            return self._pick_exactly(number, option, claim, left, (mask, allowed))
        if mask.bit_count() < left:
            return False
        failed: set[object] = set()
        for index in self._order.order(self, option, mask):
            if failed and self._like(index) in failed:
                allowed &= ~(1 << index)
                continue
            if not self._take(number, option, claim, index):
                continue
            allowed &= ~(1 << index)
            hopeful = self._likeness is None or self._hopeful(number, (option, left - 1, allowed))
            if hopeful and self._pick(number, option, claim, left - 1, allowed):
                return True
            self._give_back(option, claim, index)
            failed.add(self._like(index))
        return False

    def _pick_exactly(
        self, number: int, option: Option, claim: int, left: int, masks: tuple[int, int]
    ) -> bool:
        """Do the same in upstream's order, without short cuts, so that an error is met exactly when upstream meets it."""
        mask, allowed = masks
        busy = self.taken_by.get(claim, 0) if option.want.admin else self.taken | self.view.exclusive
        flawed = sum(1 << index for index in option.errors) & allowed & ~busy
        for index in bits(mask | flawed):
            if flawed >> index & 1:
                raise Fault(number, option.number, option.errors[index])
            if not self._take(number, option, claim, index):
                continue
            above = allowed & -(2 << index)
            if self._pick(number, option, claim, left - 1, above):
                return True
            self._give_back(option, claim, index)
        return False

    def _all(self, number: int, option: Option, claim: int) -> bool:
        """Take every device of mode All, then go on with the next slot."""
        devices = option.everything or ()
        done: list[int] = []
        for index in devices:
            if not self.before_rules(option, claim) >> index & 1:
                break
            if not all(self.rules[rule].mask >> index & 1 for rule in option.want.rules):
                where = self.view.devices[index].id
                reason = f"cannot add device {where} because a claim constraint would not be satisfied"
                raise Fault(number, option.number, Flaw("request", reason))
            if not self._take(number, option, claim, index):
                break
            done.append(index)
        if devices and len(done) == len(devices) and self._slot(number + 1):
            return True
        for index in reversed(done):
            self._give_back(option, claim, index)
        return False

    def _take(self, number: int, option: Option, claim: int, index: int) -> bool:
        """Choose a device; False if its capacity does not suffice beside the shares chosen so far."""
        self._left -= 1
        if self._left < 0:
            raise OutOfBudget
        bit = 1 << index
        view = self.view
        if view.shareable & bit:
            if not self._share(option, index):
                return False
        else:
            self.taken |= bit
            self.taken_by[claim] = self.taken_by.get(claim, 0) | bit
            if not option.want.admin:
                self._count(index)
        for rule in option.want.rules:
            self.rules[rule].add(index)
        self._counts[claim] = self._counts.get(claim, 0) + 1
        self.picks.append(Pick(number, option.number, index))
        return True

    def _give_back(self, option: Option, claim: int, index: int) -> None:
        bit = 1 << index
        self.picks.pop()
        self._counts[claim] -= 1
        for rule in option.want.rules:
            self.rules[rule].remove()
        if self.view.shareable & bit:
            self._unshare(option, index)
            return
        self.taken_by[claim] &= ~bit
        # An administrator's look and an owner's hold may meet on one device; it is free when both are gone.
        if not any(mask & bit for mask in self.taken_by.values()):
            self.taken &= ~bit
        if not option.want.admin:
            self._uncount(index)

    def _share(self, option: Option, index: int) -> bool:
        taken = self.view.charge(index, option.want)
        if taken is None or isinstance(taken, Flaw):
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
        pays = not option.want.admin and not (self.view.charged | self.paid) & bit
        self._payers.append(pays)
        if pays:
            self.paid |= bit
            self._count(index)
        return True

    def _unshare(self, option: Option, index: int) -> None:
        used = self.shares[index]
        if self._payers.pop():
            self.paid &= ~(1 << index)
            self._uncount(index)
        if used[""] > 1:
            taken = self.view.charge(index, option.want)
            for name, amount in taken.items() if isinstance(taken, dict) else ():
                used[name] -= amount.nano
            used[""] -= 1
            return
        del self.shares[index]

    def _count(self, index: int) -> None:
        """Charge a device's counters."""
        place = self.view.group_of.get(index)
        if place is not None:
            before = self.states[place[0]]
            self._before.append(before)
            self._enter(place[0], before.after(place[1]))

    def _uncount(self, index: int) -> None:
        # Devices are given back in the reverse order, so the last state kept is this one's.
        place = self.view.group_of.get(index)
        if place is not None:
            self._enter(place[0], self._before.pop())

    def _enter(self, number: int, state: GroupState) -> None:
        group = self.view.groups[number]
        self.states[number] = state
        self.fit = self.fit & ~group.mask | group.spread(state.fits) | self.view.charged | self.paid

    def _like(self, index: int) -> object:
        if self._likeness is None:
            self._likeness = Likeness(self)
        return self._likeness.of(index)

    def _mark(self, number: int) -> object:
        """Return what the rest of the search depends on; None before the first dead end, when nobody asks."""
        if self._likeness is None or self.exact_order:
            return None
        return number, tuple(sorted(self._counts.items())), self._likeness.state()

    def _hopeful(
        self, number: int, current: tuple[Option, int, int] | None = None, *, narrow: bool = False
    ) -> bool:
        """Compare counts: False only if the slots from `number` on cannot be served."""
        asks = []
        first = number
        if current is not None:
            option, left, allowed = current
            claim = self.shape.slots[number].claim
            if left:
                asks.append(Ask.of(self.open(option, claim) & allowed, left, (option,), self.view))
            first = number + 1
        for later in range(first, len(self.options)):
            row = self.options[later]
            if any(option.everything is not None for option in row):
                continue
            claim = self.shape.slots[later].claim
            masks = [(self.open(option, claim), option) for option in row]
            able = [(mask, option) for mask, option in masks if mask.bit_count() >= option.count]
            if not able:
                return False
            union = 0
            for mask, _ in able:
                union |= mask
            asks.append(
                Ask.of(
                    union, min(option.count for _, option in able), [option for _, option in able], self.view
                )
            )
        return possible(asks, self.rules, self.view, self.states, narrow=narrow)
