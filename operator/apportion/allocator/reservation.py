"""plan_reservation(): where demands that do not fit now will fit first, if nobody else takes what becomes free.

In: a state, what becomes free on each node and when, members with a demand each. Out: a node and devices for as many of them
as are needed, and when all of these are free; or nothing. Nodes are looked at in the order of the moment at which counting says that
enough may be free: the first that fits is the earliest; where nobody knows when, the fewest have to become free. The state stays as it is.
A plan may be given up and begun anew by what was found out about nodes until then (`NodeAnswers`), so that others run in between.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Protocol, TypeAlias

from apportion.allocator.allocate import catching_up, decide
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.devicecount import freed, least_devices, matching
from apportion.allocator.future import Ending, Future
from apportion.allocator.gang.members import Member
from apportion.allocator.nodeanswers import COUNTED, NodeAnswers
from apportion.allocator.rules.query import Query
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId

MOST_ASKED = 1024
"""Questions to the allocator about one node each, in one plan, after which it goes by what it has found: nodes of which it knows when something fits."""


class NodeDemands(Protocol):
    """The demands of the members on single nodes."""

    def of(self, member: int, node: str) -> Demand:
        """Return what to ask about the devices of a node."""

    def has_room(self, member: int, node: str, ended: int, placed: Sequence[int]) -> bool:
        """Say whether a node has room for the member's pods after the first `ended` of its endings, beside the members `placed` there."""

    def nodes(self, member: int) -> Sequence[str]:
        """Return the nodes that could take a member's pods if nothing else ran there."""

    def suiting(self, member: int, placed: Mapping[str, Sequence[int]]) -> Collection[str] | None:
        """Return the nodes that suit a member's pods beside those of the members `placed` on these nodes and on others; None: all, as far as these are concerned."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one member will fit."""

    member: int
    decision: Decision
    at: float | None
    """When; None: nobody knows."""
    awaited: tuple[str, ...]
    """Keys that hold devices of this node until then."""


@dataclass(frozen=True, slots=True)
class ReservationPlan:
    """Where enough members will fit together."""

    places: tuple[Place, ...]
    start: float | None
    """When all of them fit; None: nobody knows."""
    nodes: frozenset[str] = field(init=False, compare=False, repr=False)
    """The nodes of the devices."""

    def __post_init__(self) -> None:
        """Collect once what every pass reads."""
        object.__setattr__(self, "nodes", frozenset(place.decision.node for place in self.places))

    @property
    def results(self) -> tuple[DeviceResult, ...]:
        """All devices that it takes: what is only looked at (admin access) others have, and keep."""
        return tuple(
            result
            for place in self.places
            for allocation in place.decision.allocations
            for result in allocation.results
            if not result.admin_access
        )


def plan_reservation(
    state: State,
    endings: Mapping[str, Sequence[Ending]],
    members: Sequence[Member],
    demands: NodeDemands,
    *,
    enough: int,
    now: float,
    prefer: Mapping[DeviceId, int] | None = None,
    known: Decision | None = None,
    wide: bool = False,
    answers: NodeAnswers | None = None,
) -> ReservationPlan | None:
    """Return where members with `enough` pods together will fit; None where they never will, or not within MOST_ASKED questions.

    `endings`: by node, in the order in which they come, those of which nobody knows when at the end. A node that is not
    named has none. `known`: what the first member was to get before, if the same holds of its claims and of the node's devices,
    which may be held by others: where all devices that may be free are needed nothing is asked. `wide`: keys may end on several nodes.
    `answers`: what was found out by a plan that was given up.

    Raises BrokenInput if a member's claims cannot be served by any state as they are written, and Unfinished where `answers` says so.
    """
    with Future(state, endings) as future:
        if answers is None or (wide and len(members) > 1):
            # What one member gets changes what others may have on any node.
            answers = NodeAnswers(keeps=False)
        plan = _Planning(state, future, members, demands, now, prefer or {}, known, wide, answers)
        missing = enough
        for number, member in enumerate(members):
            if missing <= 0:
                break
            if plan.place(number):
                missing -= member.pods
        if missing > 0:
            return None
        latest = max(math.inf if place.at is None else place.at for place in plan.places)
        return ReservationPlan(tuple(plan.places), latest if latest < math.inf else None)


_Row: TypeAlias = tuple[float, int, str, int, bool]
"""When (infinite: nobody knows), how many devices have to become free, the node, after how many of its endings, and whether something fits then, but for what was placed since."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is counted of a member's demand, on whatever node."""

    query: Query
    least: int
    """Devices that it needs at least."""


@dataclass(slots=True)
class _Planning:
    """One plan in the making."""

    state: State
    future: Future
    members: Sequence[Member]
    demands: NodeDemands
    now: float
    prefer: Mapping[DeviceId, int]
    known: Decision | None
    wide: bool
    answers: NodeAnswers
    places: list[Place] = field(default_factory=list)
    asked: int = 0
    rows: dict[object, list[_Row]] = field(default_factory=dict)
    """By kind of member, a heap of what is to be asked about next."""
    on_node: dict[str, list[int]] = field(default_factory=dict)
    """Members placed so far, by node."""
    wanted: dict[int, _Wanted] = field(default_factory=dict)
    """By member."""

    def place(self, number: int) -> bool:
        """Place a member where it fits first; says whether it fits anywhere."""
        self.future.hold_others()
        kind = self.members[number].kind
        key: object = number if kind is None else (kind,)
        if key not in self.rows:
            self.rows[key] = [
                row for node in self.demands.nodes(number) for row in self._row(number, node, 0)
            ]
            heapify(self.rows[key])
        rows = self.rows[key]
        suiting = self.demands.suiting(number, self.on_node)
        if suiting is None:
            return self._place(number, rows)
        # Those that do not suit now may suit once others are placed.
        aside = [row for row in rows if row[2] not in suiting]
        left = [row for row in rows if row[2] in suiting]
        heapify(left)
        fits = self._place(number, left)
        rows[:] = [*left, *aside]
        heapify(rows)
        return fits

    def _place(self, number: int, rows: list[_Row]) -> bool:
        while rows and self.asked < 2 * MOST_ASKED:
            row = heappop(rows)
            _, _, node, ended, fits = row
            if not fits and self.asked >= MOST_ASKED:
                continue
            decision = self._decide(number, node, ended)
            if decision is None:
                for later in self._later(number, node, ended):
                    heappush(rows, later)
                continue
            # Another member of this kind may fit beside it.
            heappush(rows, row)
            self.future.put(number, decision)
            self.on_node.setdefault(node, []).append(number)
            over = self.future.of(node)[:ended]
            at = max([each.at for each in over if each.at is not None], default=self.now)
            keys = tuple(key for each in over for key, _ in each.held)
            self.places.append(
                Place(number, decision, None if any(each.at is None for each in over) else at, keys)
            )
            return True
        return False

    def _decide(self, number: int, node: str, ended: int) -> Decision | None:
        placed = tuple(self.on_node.get(node, ()))
        if not self._has_room(number, node, ended, placed):
            return None
        if self.known is not None and not number and self._leaves_no_choice(self.known, node, ended):
            return self.known
        self.asked += 1
        return self.answers.of(node, (number, ended, placed), lambda: self._ask(number, node, ended))

    def _has_room(self, number: int, node: str, ended: int, placed: tuple[int, ...] = ()) -> bool:
        return self.answers.of(
            node,
            ("room", number, ended, placed),
            lambda: self.demands.has_room(number, node, ended, placed),
            lambda _: COUNTED,
        )

    def _ask(self, number: int, node: str, ended: int) -> Decision | None:
        self.future.move(node, ended)
        demand, terms = self.demands.of(number, node), self.members[number].terms
        self.answers.search(catching_up(self.state, demand, terms, prefer=self.prefer, supposed=True))
        found = decide(self.state, demand, terms, prefer=self.prefer)
        if found is None and self.wide and node not in self.on_node:
            self.future.move(node, 0)  # on others nothing of it has ended
        return found

    def _later(self, number: int, node: str, ended: int) -> list[_Row]:
        """Return after how many endings of a node, more than `ended`, a member fits there first; nothing if it never does.

        What fits once some have come fits once more have: the steps grow until it does, and are halved then.
        """
        step, most = 1, len(self.future.of(node))
        fits = ended
        while ended < most:
            fits = min(ended + step, most)
            if self._decide(number, node, fits) is not None:
                break
            ended, step = fits, 2 * step
        else:
            return []
        while fits - ended > 1:
            middle = (ended + fits) // 2
            ended, fits = (ended, middle) if self._decide(number, node, middle) else (middle, fits)
        if self.wide and node not in self.on_node:
            self.future.move(node, 0)  # as above
        return self._row(number, node, fits, fits=True)

    def _leaves_no_choice(self, known: Decision, node: str, ended: int) -> bool:
        """Say whether the devices of a known decision are free after so many endings of a node, and no others that would serve."""
        query, view = self._counted(0, node).query, self.state.view(node)
        matched = matching(self.state, query, view)
        if known.node != node or matched is None or matched & ~view.plain or len(query.alternatives) > 1:
            return False
        devices = [result for allocation in known.allocations for result in allocation.results]
        held = dict(row for ending in self.future.of(node)[:ended] for row in ending.held)
        possible = view.open | freed(view, (result for results in held.values() for result in results))
        return matched & possible == freed(view, devices) and all(
            held.keys() >= {*self.state.holders(each.device)} for each in devices
        )

    def _row(self, number: int, node: str, ended: int, *, fits: bool = False) -> list[_Row]:
        """Return after how many endings of a node, `ended` at least, enough devices may be free; nothing if they never are."""
        return self.answers.of(
            node,
            ("row", number, ended, fits),
            lambda: self._count(number, node, ended, fits=fits),
            lambda _: COUNTED * len(self.future.of(node)),
        )

    def _count(self, number: int, node: str, ended: int, *, fits: bool) -> list[_Row]:
        endings = self.future.of(node)
        if ended > len(endings) or not self._has_room(number, node, len(endings)):
            return []
        wanted, view = self._counted(number, node), self.state.view(node)
        matched, possible = matching(self.state, wanted.query, view), view.open
        at, devices = self.now, 0
        for count in range(len(endings) + 1):
            if count:
                ending = endings[count - 1]
                at = math.inf if ending.at is None else max(at, ending.at)
                devices += ending.devices
                if matched is not None:
                    possible |= freed(view, (result for _, results in ending.held for result in results))
            if count >= ended and (matched is None or (matched & possible).bit_count() >= wanted.least):
                return [(at, devices, node, count, fits)]
        return []

    def _counted(self, number: int, node: str) -> _Wanted:
        found = self.wanted.get(number)
        if found is None:
            state, demand = self.state, self.demands.of(number, node)
            query = state.queries.of(demand.claims, state.classes, state.features, demand.tolerations)
            state.settle(query)
            found = self.wanted[number] = _Wanted(query, least_devices(state, demand))
        return found
