"""CP-SAT: whether a goal is reached with fewer pods restarted than a number, written down as equations, without the planner's search.

In: a drawn world, a number of pods. Out: yes or no. One thing moves at a time and nothing moves twice; while it moves it has both places.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ortools.sat.python import cp_model

from apportion.allocator.defrag.moves import FreeCards, RoomFor
from apportion.dra.device import DeviceId
from tests.defrag.defragworlds import World

_KIND = "gpu.example.com/kind"


def is_reached(world: World, most: int, cost: int | None = None) -> bool:
    """Say whether moves that restart at most so many pods in all, and cost no more, lead to the goal."""
    return _Model(world, most, cost).solves()


class _Model:
    def __init__(self, world: World, most: int, cost: int | None) -> None:
        self.world, self.model = world, cp_model.CpModel()
        self.node: dict[DeviceId, str] = {}
        self.kind: dict[DeviceId, Any] = {}
        self.needs: dict[DeviceId, dict[object, int]] = {}
        self.totals: dict[object, int] = {}
        self.cards: dict[object, list[DeviceId]] = {}
        self._read()
        steps = min(most, len(world.movables))
        keys = [each.key for each in world.movables]
        self.has_begun = [{key: self._bool() for key in keys} for _ in range(steps)]
        before: Mapping[str, Any] = dict.fromkeys(keys, 0)
        for row in self.has_begun:
            for key in keys:
                self.model.add(row[key] >= before[key])
            self.model.add(sum(row.values()) - sum(before.values()) <= 1)
            before = row
        self.end = before
        pods = sum(each.pods * before[each.key] for each in world.movables)
        self.model.add(pods <= most)
        if cost is not None:
            self.model.add(sum(each.cost * before[each.key] for each in world.movables) <= cost)
        self.new = {
            each.key: self._choice(each.key, before[each.key], each.demand.nodes) for each in world.movables
        }
        before = dict.fromkeys(keys, 0)
        for row in self.has_begun:
            self._check(before, row, moving=True)
            before = row
        self._reach()

    def _bool(self) -> Any:
        return self.model.new_bool_var("")

    def _read(self) -> None:
        state = self.world.state
        for name in state.names():
            view = state.view(name)
            for index, found in enumerate(view.devices):
                device = view.id_of(index)
                self.node[device], self.kind[device] = name, found.attribute(_KIND)
                self.needs[device] = {device: 1}
                self.totals[device] = 1
            for number, group in enumerate(view.groups):
                self.cards[name, number] = [view.id_of(member) for member in group.members]
                for counter, total in enumerate(group.totals):
                    self.totals[name, number, counter] = total
                for local, member in enumerate(group.members):
                    for counter, amount in group.group_type.needs[local]:
                        self.needs[view.id_of(member)][name, number, counter] = amount

    def _choice(self, key: str, does: Any, nodes: frozenset[str] | None) -> dict[Any, Any]:
        """Return which node and which devices are chosen: as many as it needs, of one node."""
        kind, count = self.world.counts[key]
        here = {name: self._bool() for name in {*self.node.values()} if nodes is None or name in nodes}
        self.model.add(sum(here.values()) == does)
        found: dict[Any, Any] = {}
        for device, name in self.node.items():
            if self.kind[device] == kind and name in here:
                found[device] = self._bool()
                self.model.add(found[device] <= here[name])
        self.model.add(sum(found.values()) == count * does)
        return found | here

    def _check(
        self,
        before: Mapping[str, Any],
        row: Mapping[str, Any],
        *,
        moving: bool,
        more: Mapping[Any, Any] = MappingProxyType({}),
    ) -> None:
        """Nothing is beyond its size, while those in `row` have begun and those in `before` have ended."""
        used: dict[object, list[Any]] = {what: [] for what in self.totals}
        cpu: dict[str, list[Any]] = {name: [] for name in {*self.node.values()}}
        for result in self.world.others:
            self._use(used, result.device, 1)
        for each in self.world.movables:
            cores = each.requests["cpu"]
            for device in each.devices:
                self._use(used, device, 1 - before[each.key])
            cpu[each.node].append(-cores * before[each.key])
            for what, chosen in self.new[each.key].items():
                # On its own node its pods ask for what they asked before.
                state = before if moving and what == each.node else row
                now = self._bool()
                self.model.add(now >= chosen + state[each.key] - 1)
                if isinstance(what, str):
                    cpu[what].append(cores * now)
                else:
                    self._use(used, what, now)
        goal = self.world.goal
        for what, chosen in more.items():
            if not isinstance(what, str):
                self._use(used, what, chosen)
            elif isinstance(goal, RoomFor):
                cpu[what].append(goal.requests["cpu"] * chosen)
        for what, users in used.items():
            self.model.add(sum(users) <= self.totals[what])
        for name, room in self.world.room.items():
            if cpu.get(name):
                self.model.add(sum(cpu[name]) <= room["cpu"])

    def _use(self, used: dict[object, list[Any]], device: DeviceId, by: Any) -> None:
        for what, amount in self.needs[device].items():
            used[what].append(amount * by)

    def _reach(self) -> None:
        goal = self.world.goal
        if isinstance(goal, RoomFor):
            chosen = self._choice("goal", 1, goal.demand.nodes)
            self._check(self.end, self.end, moving=False, more=chosen)
            return
        self._check(self.end, self.end, moving=False)
        held = {result.device for result in self.world.others}
        old = {device for each in self.world.movables for device in each.devices} | held
        free = sum(not old & {*devices} for devices in self.cards.values())
        empty = []
        for devices in self.cards.values():
            is_empty = self._bool()
            empty.append(is_empty)
            for device in devices:
                if device in held:
                    self.model.add(is_empty == 0)
                for each in self.world.movables:
                    if device in each.devices:
                        self.model.add(is_empty <= self.end[each.key])
                    if device in self.new[each.key]:
                        self.model.add(is_empty + self.new[each.key][device] <= 1)
        assert isinstance(goal, FreeCards)
        self.model.add(sum(empty) >= free + goal.count)

    def solves(self) -> bool:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        status = solver.solve(self.model)
        assert status in {cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE}
        return bool(status != cp_model.INFEASIBLE)
