"""The search for the closest set on one node: branch and bound over the devices of every slot.

In: one alternative per slot (the ladder never changes which), and the best set known. Out: the best set, or the best
found within the steps. Devices that are alike in places that are alike are tried once; a branch ends where even the
closest devices left could not make it better than the best set.
"""

from collections.abc import Sequence
from contextlib import suppress

from apportion.allocator.bits import bits
from apportion.allocator.closeness.colouring import CellColouring
from apportion.allocator.closeness.cost import ClosenessCost, Cost
from apportion.allocator.closeness.distances import NodeDistances
from apportion.allocator.closeness.ladder import Ladder
from apportion.allocator.closeness.lowerbound import least
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.interchangeable import Interchangeability
from apportion.allocator.search.outcome import Score
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.search.search import OutOfBudget, Pick, Search


class BranchAndBound(Search):
    """One search on one node."""

    def __init__(
        self,
        search: Search,
        candidate_rows: list[list[Candidates]],
        strategy: Scorer,
        ladder: Ladder,
        distances: NodeDistances,
        *,
        steps: int,
    ) -> None:
        """`search`: the one that succeeded; `options`: one alternative per slot."""
        view, query = search.view, search.query
        super().__init__(view, query, candidate_rows, strategy, steps=steps, prefer=search.prefer)
        self._rows = [row[0] for row in candidate_rows]
        self._strategy = strategy
        self._distances = distances
        self._instead = [self.before_rules(row, query.slots[n].claim) for n, row in enumerate(self._rows)]
        self._cost = ClosenessCost(distances, ladder)
        self._best: tuple[Cost, Score] | None = None
        self._best_picks: tuple[Pick, ...] = ()
        self._bonus = 0
        self._even = any(rung.even for rung in ladder.rungs)
        self._alike = Interchangeability(self)
        relevant = 0
        for row in self._rows:
            relevant |= row.mask
        self._relevant = relevant
        self._cells = tuple(number for number, devices in enumerate(distances.cells) if devices & relevant)
        self._place = {cell: number for number, cell in enumerate(self._cells)}
        self._symmetry = CellColouring(distances, self._cells)
        self._inside = [self._groups_in(distances.cells[cell] & relevant) for cell in self._cells]
        self._seen: set[object] = set()

    def learn(self, picks: Sequence[Pick]) -> None:
        """Rate a set that is known to serve; keep it if it is the best so far."""
        for pick in picks:
            self._choose(pick.slot, pick.device)
        self._rate()
        for _ in picks:
            self._undo()

    def climb(self) -> tuple[tuple[Pick, ...], Cost, Score]:
        """Return the best set with its closeness and its score; something must have been learnt before."""
        # Out of steps, the best so far serves; how far the search got depends on nothing but the node.
        with suppress(OutOfBudget):
            self._next(0)
        if self._best is None:
            raise TypeError("nothing was learnt")
        return (self._best_picks, *self._best)

    @property
    def worst(self) -> int:
        """The worst level of the best set."""
        return self._best[0][0] if self._best is not None else self._distances.far

    def _next(self, number: int) -> None:
        if number == len(self._rows):
            self._rate()
            return
        row = self._rows[number]
        if row.everything is None:
            self._some(number, row.count, -1)
            return
        claim = self.query.slots[number].claim
        done = 0
        for index in row.everything:
            if not (self.open(row, claim) >> index & 1 and self._choose(number, index)):
                break
            done += 1
        if done == len(row.everything):
            self._next(number + 1)
        for _ in range(done):
            self._undo()

    def _some(self, number: int, left: int, allowed: int) -> None:
        """Choose `left` more devices out of `allowed` for the slot, then go on with the next one."""
        if left == 0:
            self._next(number + 1)
            return
        self._left -= 1
        row = self._rows[number]
        mask = self.open(row, self.query.slots[number].claim) & allowed
        if mask.bit_count() < left or not self._hope(number, left, mask):
            return
        colours = self._colours(mask)
        mark = self._mark_of(number, left, colours)
        if mark in self._seen:
            return
        self._seen.add(mark)
        tried: set[object] = set()
        for index in self._order_by_closeness(row, mask):
            key = self._key(index, colours)
            if key in tried:
                allowed &= ~(1 << index)
                continue
            tried.add(key)
            if not self._better(*self._cost.joined(index)):
                continue
            if not self._choose(number, index):
                continue
            allowed &= ~(1 << index)
            self._some(number, left - 1, allowed)
            self._undo()

    def _order_by_closeness(self, row: Candidates, mask: int) -> list[int]:
        """Return the devices with the nearest first; among equally near ones, in the strategy's order."""
        ordered = self._strategy.order(self, row, mask)
        if row.alternative.admin or not self._cost.devices:
            return list(ordered)
        return sorted(ordered, key=self._cost.joined)

    def _choose(self, number: int, index: int) -> bool:
        row = self._rows[number]
        if not self.take(number, row, self.query.slots[number].claim, index):
            return False
        if not row.alternative.admin:
            self._cost.add(index, self._instead[number])
        self._bonus += self.prefer.get(index, 0)
        return True

    def _undo(self) -> None:
        pick = self.picks[-1]
        row = self._rows[pick.slot]
        self.give_back(row, self.query.slots[pick.slot].claim, pick.device)
        if not row.alternative.admin:
            self._cost.remove()
        self._bonus -= self.prefer.get(pick.device, 0)

    def _rate(self) -> None:
        close = self._cost.close()
        if self._best is not None and close > self._best[0]:
            return
        found = close, (-self._bonus, *self._strategy.score(self))
        if self._best is None or found < self._best:
            self._best, self._best_picks = found, tuple(self.picks)

    def _better(self, worst: int, total: int) -> bool:
        """Say whether a set that is at best so close could still be the best."""
        if self._best is None:
            return True
        best = self._best[0]
        if worst != best[0]:
            return worst < best[0]
        # A more even set may have a greater sum.
        return total <= best[2] or (self._even and best[1] > 0)

    def _hope(self, number: int, left: int, mask: int) -> bool:
        """Say whether the closest devices left could make a better set."""
        asks = [(mask, left)] if not self._rows[number].alternative.admin else []
        for later in range(number + 1, len(self._rows)):
            row = self._rows[later]
            if row.everything is None:
                open_ = self.open(row, self.query.slots[later].claim)
                if open_.bit_count() < row.count:
                    return False
                if not row.alternative.admin:
                    asks.append((open_, row.count))
        if self._best is None:
            return True
        worst, more = least(asks, self._cost.devices, self._distances, self._capacity)
        return self._better(max(worst, self._cost.worst), self._cost.total + more)

    def _capacity(self, cell: int, mask: int) -> int:
        """Return how many devices of a cell can be taken together at most."""
        here = self._distances.cells[cell] & mask
        if here & self.view.shareable:
            return len(self.query.slots) * here.bit_count()
        room = (here & self.view.plain).bit_count()
        for group in self._inside[self._place[cell]]:
            room += self.states[group].most(self.view.groups[group].gather(here))
        return room

    # What is interchangeable. -------------------------------------------------------------------------------------

    def _groups_in(self, devices: int) -> tuple[int, ...]:
        return tuple(number for number, group in enumerate(self.view.groups) if group.mask & devices)

    def _colours(self, allowed: int) -> tuple[int, ...]:
        chosen: dict[int, int] = {}
        for index in self._cost.devices:
            cell = self._distances.cell_of[index]
            chosen[cell] = chosen.get(cell, 0) + 1
        return self._symmetry.colours(
            [
                self._content(number, cell, chosen.get(cell, 0), allowed)
                for number, cell in enumerate(self._cells)
            ]
        )

    def _content(self, number: int, cell: int, chosen: int, allowed: int) -> object:
        devices = self._distances.cells[cell] & self._relevant
        free = devices & ~self.taken & self.fit & self.view.plain
        counts: dict[tuple[int, int, int], int] = {}
        for index in bits(free):
            key = self._alike.kind(index), allowed >> index & 1, self.prefer.get(index, 0)
            counts[key] = counts.get(key, 0) + 1
        groups: list[tuple[object, ...]] = []
        for one in self._inside[number]:
            group = self.view.groups[one]
            if group.mask & self._relevant & ~devices:
                groups.append((-1 - one, id(self.states[one]), self.taken & group.mask, allowed & group.mask))
                continue
            liked = tuple((i, self.prefer[m]) for i, m in enumerate(group.members) if m in self.prefer)
            groups.append((*self._alike.group(one), group.gather(allowed), liked))
        return chosen, tuple(sorted(counts.items())), tuple(sorted(groups))

    def _key(self, index: int, colours: tuple[int, ...]) -> object:
        """Return what devices have in common that may be swapped now."""
        colour = colours[self._place[self._distances.cell_of[index]]]
        place = self.view.group_of.get(index)
        liked = self.prefer.get(index, 0)
        if place is None or index in self.shares or not self.fit >> index & 1:
            return colour, self._alike.kind(index), liked
        group, local = place
        after = id(self.states[group].after(local))
        return colour, self._alike.kind(index), liked, self._alike.group(group), after

    def _mark_of(self, number: int, left: int, colours: tuple[int, ...]) -> object:
        """Return what the rest of the search depends on, as far as the best set is concerned."""
        shares = tuple((index, tuple(sorted(used.items()))) for index, used in sorted(self.shares.items()))
        constraints = tuple(constraint.mask for constraint in self.constraints)
        looked = (
            tuple(sorted(self.taken_by.items())) if any(row.alternative.admin for row in self._rows) else ()
        )
        return (
            (number, left, self._cost.worst, self._cost.total, self._bonus),
            (tuple(sorted(colours)), shares, constraints, looked),
        )
