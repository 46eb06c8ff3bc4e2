"""BranchAndBound: the closest set of devices on one node.

In: one alternative per slot (a ladder does not change which), and known sets. Out: the best set, or the best one found
within the steps. Only one of interchangeable devices in interchangeable cells is tried; a branch ends if its lower bound
is no better than the best set.
"""

from collections.abc import Generator, Sequence
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
from apportion.allocator.search.search import Call, OutOfBudget, Pick, Search

COMPARED = 128
"""Comparisons that cost a step more: a branch compares each device that it may choose with all that are chosen."""
LOOKS_TO_COMPARE = 32
"""What it takes to find the devices of a request for a lower bound, in looks at a mask."""
LEARNT = 64
"""Devices of a known set that are compared with each other without a pause."""


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
        """`search`: the search that found a solution; `candidate_rows`: one alternative per slot."""
        view, query = search.view, search.query
        super().__init__(view, query, candidate_rows, strategy, steps=steps, prefer=search.prefer)
        self._rows = [row[0] for row in candidate_rows]
        self._strategy = strategy
        self._distances = distances
        self._eligible = [
            self.before_constraints(row, query.slots[n].claim) for n, row in enumerate(self._rows)
        ]
        self._cost = ClosenessCost(distances, ladder)
        self._best: tuple[Cost, Score] | None = None
        self._best_picks: tuple[Pick, ...] = ()
        self._bonus = 0
        self._even = any(rung.even for rung in ladder.rungs)
        self._interchange = Interchangeability(self, shared_apart=True)
        relevant = 0
        for row in self._rows:
            relevant |= row.mask
        self._relevant = relevant
        self._cells = tuple(number for number, devices in enumerate(distances.cells) if devices & relevant)
        self._number_of_cell = {cell: number for number, cell in enumerate(self._cells)}
        self._colouring = CellColouring(distances, self._cells)
        self._groups_of_cell = [
            [n for n, group in enumerate(view.groups) if group.mask & distances.cells[cell] & relevant]
            for cell in self._cells
        ]
        self._visited: set[object] = set()

    def learn(self, picks: Sequence[Pick]) -> Generator[None, None, None]:
        """Rate a known solution; keep it if it is the best. Yields after each `LEARNT` devices."""
        # It is tried no more, so it takes no steps, of which there may be fewer.
        self._left += len(picks)
        for number, pick in enumerate(picks, 1):
            self._choose(pick.slot, pick.device)
            if number % LEARNT == 0:
                yield
        self._rate()
        for _ in picks:
            self._undo()

    def slices_of_better(self) -> Generator[None, None, None]:
        """Look for better sets than the known ones; yields as `slices` does."""
        # When the steps are used up, the best set so far is the result; it depends only on the node.
        with suppress(OutOfBudget):
            yield from self._called(self._next(0))

    @property
    def best_set(self) -> tuple[tuple[Pick, ...], Cost, Score]:
        """The best known set with its closeness and score. Call `learn` before."""
        if self._best is None:
            raise TypeError("no known solution")
        return (self._best_picks, *self._best)

    @property
    def worst(self) -> int:
        """The worst level of the best set."""
        return self._best[0][0] if self._best is not None else self._distances.far

    # Each of these yields the calls that it makes.

    def _next(self, number: int) -> Call:
        if number == len(self._rows):
            self._rate()
            return
        row = self._rows[number]
        if row.everything is None:
            yield self._choose_more(number, row.count, -1)
            return
        claim = self.query.slots[number].claim
        done = 0
        for index in row.everything:
            if not (self.open(row, claim) >> index & 1 and self._choose(number, index)):
                break
            done += 1
        if done == len(row.everything):
            yield self._next(number + 1)
        for _ in range(done):
            self._undo()

    def _choose_more(self, number: int, left: int, allowed: int) -> Call:
        """Choose `left` more devices of `allowed` for the slot, then search the next slot."""
        if left == 0:
            yield self._next(number + 1)
            return
        row = self._rows[number]
        mask = self.open(row, self.query.slots[number].claim) & allowed
        self._left -= 1 + mask.bit_count() * (1 + len(self._cost.devices)) // COMPARED
        if mask.bit_count() < left or not self._promising(number, left, mask):
            return
        colours = self._colours(mask)
        branch = self._branch_key(number, left, colours)
        if branch in self._visited:
            return
        self._visited.add(branch)
        tried: set[object] = set()
        for index in self._order_by_closeness(row, mask):
            key = self._key(index, colours)
            if key in tried:
                allowed &= ~(1 << index)
                continue
            tried.add(key)
            # A device with admin access is not in the set, however far it is.
            if not (row.alternative.admin or self._better(*self._cost.with_device(index))):
                continue
            if not self._choose(number, index):
                continue
            allowed &= ~(1 << index)
            yield self._choose_more(number, left - 1, allowed)
            self._undo()

    def _order_by_closeness(self, row: Candidates, mask: int) -> list[int]:
        """Return the devices, the nearest first; equally near ones in the strategy's order."""
        ordered = self._in_order(row, mask)
        if row.alternative.admin or not self._cost.devices:
            return list(ordered)
        return sorted(ordered, key=self._cost.with_device)

    def _choose(self, number: int, index: int) -> bool:
        row = self._rows[number]
        if not self.take(number, row, self.query.slots[number].claim, index):
            return False
        if not row.alternative.admin:
            self._cost.add(index, self._eligible[number])
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
        cost = self._cost.cost()
        if self._best is not None and cost > self._best[0]:
            return
        found = cost, (-self._bonus, *self._strategy.score(self))
        if self._best is None or found < self._best:
            self._best, self._best_picks = found, tuple(self.picks)

    def _better(self, worst: int, total: int) -> bool:
        """Say whether a set with at least this cost could be better than the best."""
        if self._best is None:
            return True
        best = self._best[0]
        if worst != best[0]:
            return worst < best[0]
        # A set with a greater sum can be more even.
        return total <= best[2] or (self._even and best[1] > 0)

    def _promising(self, number: int, left: int, mask: int) -> bool:
        """Say whether the remaining slots could lead to a better set."""
        self._uncounted += LOOKS_TO_COMPARE * (len(self._rows) - number)
        requests = [(mask, left)] if not self._rows[number].alternative.admin else []
        for later in range(number + 1, len(self._rows)):
            row = self._rows[later]
            if row.everything is None:
                open_ = self.open(row, self.query.slots[later].claim)
                if open_.bit_count() < row.count:
                    return False
                if not row.alternative.admin:
                    requests.append((open_, row.count))
        if self._best is None:
            return True
        worst, more = least(requests, self._cost.devices, self._distances, self._capacity)
        return self._better(max(worst, self._cost.worst), self._cost.total + more)

    def _capacity(self, cell: int, mask: int) -> int:
        """Return an upper bound of how many devices of a cell can be taken together."""
        here = self._distances.cells[cell] & mask
        if here & self.view.shareable:
            return len(self.query.slots) * here.bit_count()
        room = (here & self.view.plain).bit_count()
        for group in self._groups_of_cell[self._number_of_cell[cell]]:
            room += self.states[group].most(self.view.groups[group].gather(here))
        return room

    # Interchangeable devices and states. --------------------------------------------------------------------------

    def _colours(self, allowed: int) -> tuple[int, ...]:
        chosen: dict[int, int] = {}
        for index in self._cost.devices:
            cell = self._distances.cell_of[index]
            chosen[cell] = chosen.get(cell, 0) + 1
        return self._colouring.colours(
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
            key = self._interchange.traits_of(index), allowed >> index & 1, self.prefer.get(index, 0)
            counts[key] = counts.get(key, 0) + 1
        groups: list[tuple[object, ...]] = []
        for group_number in self._groups_of_cell[number]:
            group = self.view.groups[group_number]
            if group.mask & self._relevant & ~devices:
                groups.append(
                    (
                        -1 - group_number,
                        id(self.states[group_number]),
                        self.taken & group.mask,
                        allowed & group.mask,
                    )
                )
                continue
            preferred = tuple((i, self.prefer[m]) for i, m in enumerate(group.members) if m in self.prefer)
            groups.append((*self._interchange.group(group_number), group.gather(allowed), preferred))
        return chosen, tuple(sorted(counts.items())), tuple(sorted(groups))

    def _key(self, index: int, colours: tuple[int, ...]) -> object:
        """Key of a device; devices with equal keys are interchangeable now."""
        colour = colours[self._number_of_cell[self._distances.cell_of[index]]]
        member = self.view.group_of.get(index)
        preferred = self.prefer.get(index, 0)
        if member is None or index in self.shares or not self.fit >> index & 1:
            return colour, self._interchange.traits_of(index), preferred, self.taken >> index & 1
        group, local = member
        after = id(self.states[group].after(local))
        return colour, self._interchange.traits_of(index), preferred, self._interchange.group(group), after

    def _branch_key(self, number: int, left: int, colours: tuple[int, ...]) -> object:
        """Key of everything that the rest of the search depends on."""
        shares = tuple((index, tuple(sorted(used.items()))) for index, used in sorted(self.shares.items()))
        admin_devices = (
            tuple(sorted(self.taken_by.items())) if any(row.alternative.admin for row in self._rows) else ()
        )
        return (
            (number, left, self._cost.worst, self._cost.total, self._bonus),
            (tuple(sorted(colours)), shares, self._interchange.constraints(), admin_devices),
        )
