"""CP-SAT: whether all members of a gang can be served in a small world when some victims go, written down as equations."""

from collections.abc import Collection
from typing import Any

from ortools.sat.python import cp_model

from apportion.allocator.preemption.victims import NodeVictims, VictimCost
from tests.allocator.gangvictimworlds import GangWorld

_POD = 100_000
"""Weight of a pod: more than all the seconds of a world."""


def least_cost(world: GangWorld) -> VictimCost | None:
    """Return the cost of the cheapest victims with which all members are served; None if none are enough, or none are needed."""
    victims = [each for node in world.nodes for each in node.victims]
    if _solved(world, ()) is not None:
        return None
    for priority in sorted({each.priority for each in victims}):
        weight = _solved(world, {each.key for each in victims if each.priority <= priority})
        if weight is not None:
            return VictimCost(priority, weight // _POD, weight % _POD)
    return None


def part_suffices(world: GangWorld, victims: Collection[str]) -> bool:
    """Say whether some of these victims (keys), but not all of them, are enough; groups go as they have to."""
    return _solved(world, victims, but_one=True) is not None


def suffice(world: GangWorld, victims: Collection[str]) -> bool:
    """Say whether all members are served once some of these victims (keys) are gone."""
    return _solved(world, victims) is not None


def _solved(world: GangWorld, may_go: Collection[str], *, but_one: bool = False) -> int | None:
    """Return the least weight of victims among these with which all members are served; `but_one`: not all of them."""
    model = cp_model.CpModel()
    gone = {each.key: model.new_bool_var(each.key) for node in world.nodes for each in node.victims}
    for key, var in gone.items():
        if key not in may_go:
            model.add(var == 0)
    if but_one:
        model.add(sum(gone[key] for key in may_go) <= len(may_go) - 1)
    at = {
        (member, node.node): model.new_bool_var(f"{member}-{node.node}")
        for member in range(len(world.members))
        for node in world.nodes
    }
    for member in range(len(world.members)):
        model.add(sum(at[member, node.node] for node in world.nodes) == 1)
    for node in world.nodes:
        _keep_devices(model, world, node, gone, at)
        for resource, left in node.left.items():
            freed = sum(each.freed.get(resource, 0) * gone[each.key] for each in node.victims)
            asked = [
                each.wanted[resource] * at[member, node.node] for member, each in enumerate(world.members)
            ]
            # A node that is too full already keeps nobody off who wants nothing of it.
            model.add(sum(asked) <= freed + left).only_enforce_if(_any(model, world, node, at))
    if world.ladder.required:
        racks = world.racks
        for one, first in at.items():
            for other, second in at.items():
                if racks[one[1]] != racks[other[1]]:
                    model.add(first + second <= 1)
    model.minimize(_weight(model, world, gone))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return round(solver.objective_value) if solver.solve(model) == cp_model.OPTIMAL else None


def _any(model: cp_model.CpModel, world: GangWorld, node: NodeVictims, at: dict[tuple[int, str], Any]) -> Any:
    used = model.new_bool_var(f"used-{node.node}")
    model.add_max_equality(used, [at[member, node.node] for member in range(len(world.members))])
    return used


def _keep_devices(
    model: cp_model.CpModel,
    world: GangWorld,
    node: NodeVictims,
    gone: dict[str, Any],
    at: dict[tuple[int, str], Any],
) -> None:
    """No device has two users, no counter more than there is."""
    view = world.state.view(node.node)
    users: list[list[Any]] = [[] for _ in view.devices]

    def index_of(result: Any) -> int:
        index = view.find(result.device)
        assert index is not None
        return index

    for result in world.others.get(node.node, ()):
        users[index_of(result)].append(1)
    for each in node.victims:
        for results in each.holds.values():
            for result in results:
                users[index_of(result)].append(1 - gone[each.key])
    for member, (kind, count) in enumerate(world.counts):
        picks = []
        for index, found in enumerate(view.devices):
            if found.attribute("gpu.example.com/kind") == kind:
                picks.append(model.new_bool_var(f"{member}-{node.node}-{index}"))
                users[index].append(picks[-1])
        model.add(sum(picks) == count * at[member, node.node])
    for own in users:
        model.add(sum(own) <= 1)
    for group in view.groups:
        for counter, total in enumerate(group.totals):
            taken = []
            for local, device in enumerate(group.members):
                amount = dict(group.group_type.needs[local]).get(counter, 0)
                taken += [amount * user for user in users[device]]
            model.add(sum(taken) <= total)


def _weight(model: cp_model.CpModel, world: GangWorld, gone: dict[str, Any]) -> Any:
    """Return the weight of those who go; a group that is left with too few pods goes on all nodes, and all of it counts."""
    victims = [each for node in world.nodes for each in node.victims]
    groups = {name: group for node in world.nodes for name, group in node.groups.items()}
    total = sum((each.pods * _POD + each.lost) * gone[each.key] for each in victims if not each.group)
    for name, group in groups.items():
        own = [each for each in victims if each.group == name]
        broken = model.new_bool_var(f"broken-{name}")
        model.add(sum(each.pods * gone[each.key] for each in own) <= group.spare + 99 * broken)
        for each in own:
            model.add(gone[each.key] == 1).only_enforce_if(broken)
        elsewhere = group.pods - sum(each.pods for each in own), group.lost - sum(each.lost for each in own)
        total += sum((each.pods * _POD + each.lost) * gone[each.key] for each in own)
        total += (elsewhere[0] * _POD + elsewhere[1]) * broken
    return total
