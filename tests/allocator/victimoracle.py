"""CP-SAT: the cheapest victims with which a node of a small world serves its demand.

In: a drawn world. Out: the least (highest priority, pods, lost seconds), written down as equations, without the allocator's search.
"""

from collections.abc import Sequence
from typing import Any

from ortools.sat.python import cp_model

from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.preemption.victims import NodeVictims, Victim, VictimCost, VictimGroup
from apportion.dra.allocation import DeviceResult
from tests.allocator.victimworlds import CHIP, World

_POD = 100_000
"""Weight of a pod: more than all the seconds of a world."""


def least_cost(world: World) -> VictimCost | None:
    """Return the cost of the cheapest victims of the world; None if none help, or if none are needed."""
    found = [cost for node in world.nodes if (cost := _of_node(world, node)) is not None]
    if not found or min(weight for _, weight in found) == -1:
        return None
    priority, weight = min(found)
    return VictimCost(priority, weight // _POD, weight % _POD)


def _of_node(world: World, node: NodeVictims) -> tuple[int, int] | None:
    """Return priority and weight of the cheapest victims; a weight of -1: none are needed."""
    if _solve(world, node, ()) is not None:
        return -(2**40), -1
    for priority in sorted({each.priority for each in node.victims}):
        allowed = [each for each in node.victims if each.priority <= priority]
        weight = _solve(world, node, allowed)
        if weight is not None:
            return priority, weight
    return None


def _solve(world: World, node: NodeVictims, allowed: Sequence[Victim]) -> int | None:
    model = cp_model.CpModel()
    view = world.state.view(node.node)
    gone = {each.key: model.new_bool_var(each.key) for each in node.victims}
    for each in node.victims:
        if each not in allowed:
            model.add(gone[each.key] == 0)
    picks: dict[tuple[str, int], Any] = {}
    for kind, count in world.counts.items():
        mine = [index for index, found in enumerate(view.devices) if _kind(found) == kind]
        for index in mine:
            picks[kind, index] = model.new_bool_var(f"{kind}-{index}")
        model.add(sum(picks[kind, index] for index in mine) == count)
    users = _users(world, node, gone, view)
    for index in range(len(view.devices)):
        model.add(sum(users[index]) + sum(var for (_, at), var in picks.items() if at == index) <= 1)
    _keep_counters(model, view, users, picks)
    if world.same_chip:
        rows = list(picks.items())
        for (_, one), first in rows:
            for (_, other), second in rows:
                if _chip(view, one) != _chip(view, other):
                    model.add(first + second <= 1)
    for resource, amount in world.wanted.items():
        freed = sum(each.freed.get(resource, 0) * gone[each.key] for each in node.victims)
        model.add(freed + node.left.get(resource, 0) >= amount)
    broken = {name: model.new_bool_var(f"broken-{name}") for name in node.groups}
    _keep_allowance(model, node, gone, broken)
    model.minimize(_weight(model, node, gone, broken))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if solver.solve(model) != cp_model.OPTIMAL:
        return None
    return round(solver.objective_value)


def _keep_counters(
    model: cp_model.CpModel, view: NodeView, users: list[list[Any]], picks: dict[tuple[str, int], Any]
) -> None:
    for group in view.groups:
        for counter, total in enumerate(group.totals):
            taken = []
            for local, member in enumerate(group.members):
                amount = dict(group.group_type.needs[local]).get(counter, 0)
                taken += [amount * user for user in users[member]]
                taken += [amount * var for (_, at), var in picks.items() if at == member]
            model.add(sum(taken) <= total)


def _users(world: World, node: NodeVictims, gone: dict[str, Any], view: NodeView) -> list[list[Any]]:
    """Return what holds each device: 1, or one less what says that the victim is gone."""
    users: list[list[Any]] = [[] for _ in view.devices]

    def use(result: DeviceResult, by: Any) -> None:
        index = view.find(result.device)
        assert index is not None
        users[index].append(by)

    for result in world.others.get(node.node, ()):
        use(result, 1)
    for each in node.victims:
        for results in each.holds.values():
            for result in results:
                use(result, 1 - gone[each.key])
    return users


def _keep_allowance(
    model: cp_model.CpModel, node: NodeVictims, gone: dict[str, Any], broken: dict[str, Any]
) -> None:
    """No more goes than may, the rest of broken groups included."""
    for key, most in node.allowance.items():
        total = sum(each.counted.get(key, 0) * gone[each.key] for each in node.victims if not each.group)
        for name, group in node.groups.items():
            members = [each for each in node.victims if each.group == name]
            amount = model.new_int_var(0, group.counted.get(key, 0), f"counted-{key}-{name}")
            model.add(amount >= sum(each.counted.get(key, 0) * gone[each.key] for each in members))
            model.add(amount >= group.counted.get(key, 0) * broken[name])
            total += amount
        model.add(total <= most)


def _weight(
    model: cp_model.CpModel, node: NodeVictims, gone: dict[str, Any], broken_groups: dict[str, Any]
) -> Any:
    def of(found: Victim | VictimGroup) -> int:
        return found.pods * _POD + found.lost

    total = sum(of(each) * gone[each.key] for each in node.victims if not each.group)
    for name, group in node.groups.items():
        members = [each for each in node.victims if each.group == name]
        broken = broken_groups[name]
        pods = sum(each.pods for each in members)
        model.add(sum(each.pods * gone[each.key] for each in members) <= group.spare + pods * broken)
        cost = model.new_int_var(0, of(group), f"cost-{name}")
        model.add(cost >= sum(of(each) * gone[each.key] for each in members))
        model.add(cost >= of(group) * broken)
        total += cost
    return total


def _kind(found: Any) -> Any:
    return found.attribute("gpu.example.com/kind")


def _chip(view: NodeView, index: int) -> Any:
    return view.devices[index].attribute(CHIP)
