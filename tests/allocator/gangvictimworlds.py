"""Small clusters of several nodes that are full of victims, drawn at random, and a gang that may need some of them to go."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from apportion.allocator.bits import bits
from apportion.allocator.demand import Demand
from apportion.allocator.gang.domains import GroupLadder, GroupRung
from apportion.allocator.gang.members import Member
from apportion.allocator.preemption.gangroom import GangMember
from apportion.allocator.preemption.victims import LEAVING, NodeVictims, Victim, VictimGroup
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from tests.allocator.builders import (
    claim,
    cluster,
    device_request,
    drawn_slices,
)

RACK = "rack"
KINDS = {
    "seven": {"one": 3, "three": 2, "seven": 1},
    "four": {"one": 3, "two": 2, "four": 1},
    "whole": {"gpu": 3},
}
"""How many devices of a kind a member asks for at most."""


@dataclass
class GangWorld:
    """A state, the victims of its nodes, and a gang."""

    state: State
    nodes: list[NodeVictims]
    members: list[GangMember]
    counts: list[tuple[str, int]]
    """What each member asks for: a kind of device, and how many."""
    ladder: GroupLadder
    others: dict[str, list[DeviceResult]]
    """What is held on each node by what is no victim."""

    @property
    def racks(self) -> dict[str, str]:
        """The rack of each node."""
        return {node.node: self.state.names()[node.node].labels[RACK] for node in self.nodes}


def drawn(seed: int, *, alike: bool) -> GangWorld:
    """Draw a world of one to three nodes, at most five victims each; `alike`: the members ask for the same."""
    rng = random.Random(f"gang/{seed}")  # noqa: S311 - a test that can be repeated
    names = ["n1", "n2", "n3"][: rng.choice([1, 2, 2, 3])]
    kind = rng.choice(["seven", "four", "whole", "whole"])
    state = cluster(*drawn_slices(rng, names, kind), nodes=names)
    for number, name in enumerate(names):
        state.put_node(name, {RACK: f"rack-{min(number, 1)}"})
    ladder = rng.choice([GroupLadder(), GroupLadder(), GroupLadder((GroupRung(RACK, required=True),))])
    world = GangWorld(state, [], [], [], ladder, {})
    rows = {name: _victims(rng, world, name) for name in names}
    groups = _groups(rng, [each for own in rows.values() for each in own])
    for name, own in rows.items():
        mine = {each.group: groups[each.group] for each in own if each.group}
        left = {"cpu": rng.choice([8, 8, 2, 0]), "pods": rng.choice([10, 10, 1, 0])}
        world.nodes.append(NodeVictims(name, tuple(own), mine, left))
    _ask(rng, world, KINDS[kind], alike=alike)
    return world


def _victims(rng: random.Random, world: GangWorld, node: str) -> list[Victim]:
    state, found = world.state, list[Victim]()
    for number in range(rng.randint(0, 5)):
        free = list(bits(state.view(node).open))
        if not free:
            break
        # Small partitions mostly: a whole card leaves nothing for others.
        index = max(rng.sample(free, min(len(free), 2)))
        key = f"{node}-{number}"
        results = (DeviceResult("r", state.view(node).id_of(index)),)
        state.hold(key, results)
        if rng.random() < 0.1:
            world.others.setdefault(node, []).extend(results)
            continue
        leaving = rng.random() < 0.1
        found.append(
            Victim(
                key,
                LEAVING if leaving else rng.choice([0, 0, 0, 3]),
                0 if leaving else 1,
                0 if leaving else rng.randint(0, 100),
                {key: results},
                {"cpu": rng.randint(1, 4), "pods": 1},
                "" if leaving else rng.choice(["", "", "g", "h"]),
            )
        )
    return found


def _groups(rng: random.Random, victims: Sequence[Victim]) -> dict[str, VictimGroup]:
    found = {}
    for name in ("g", "h"):
        members = [each for each in victims if each.group == name]
        if members:
            elsewhere = rng.choice([0, 0, 1])
            lost = sum(each.lost for each in members) + 10 * elsewhere
            found[name] = VictimGroup(rng.choice([0, 0, 1]), len(members) + elsewhere, lost)
    return found


def _ask(rng: random.Random, world: GangWorld, kinds: dict[str, int], *, alike: bool) -> None:
    names = frozenset(node.node for node in world.nodes)
    first = rng.choice(sorted(kinds))
    each = first, rng.randint(1, kinds[first])
    wanted = {"cpu": rng.choice([1, 1, 3]), "pods": 1}
    for number in range(rng.randint(2, 4)):
        if not alike:
            kind = rng.choice(sorted(kinds))
            each = kind, rng.randint(1, kinds[kind])
        demand = Demand((claim(f"c{number}", device_request(kind=each[0], count=each[1])),), names)
        world.counts.append(each)
        world.members.append(GangMember(demand, wanted, Member(kind=each)))
