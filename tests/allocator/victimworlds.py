"""Small clusters that are full of victims, drawn at random, and a demand that may need some of them to go."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from apportion.allocator.bits import bits
from apportion.allocator.demand import Demand
from apportion.allocator.preemption.victims import LEAVING, NodeVictims, Victim, VictimGroup
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from tests.allocator.builders import (
    FOUR_ENGINES,
    GPU,
    SEVEN_ENGINES,
    Raw,
    claim,
    cluster,
    device,
    device_request,
    device_slice,
    partitionable_slices,
)

MOST_LOST = 100
"""Seconds that the pods of one victim lose at most."""
CHIP = f"{GPU}/chip"
QUOTAS = ("q", "r")
"""What victims count in, of which only a part may go."""


@dataclass
class World:
    """A state, the victims of its nodes, and a demand."""

    state: State
    nodes: list[NodeVictims]
    demand: Demand
    wanted: dict[str, int]
    counts: dict[str, int]
    """Devices that the demand asks for, by kind."""
    same_chip: bool
    """Whether all of its devices have to be of one chip."""
    others: dict[str, list[DeviceResult]] = field(default_factory=dict)
    """What is held on each node by what is no victim."""


def drawn(seed: int) -> World:
    """Draw a world: one or two nodes with partitions or whole devices, at most nine victims each."""
    rng = random.Random(seed)  # noqa: S311 - a test that can be repeated
    names = ["n1", "n2"][: rng.choice([1, 1, 2])]
    kind = rng.choice(["seven", "four", "whole"])
    slices = []
    for name in names:
        if kind == "whole":
            rows = [
                device(f"gpu-{n}", attributes={"kind": {"string": "gpu"}, CHIP: {"int": n // 2}})
                for n in range(rng.randint(2, 6))
            ]
            slices.append(device_slice(name, name, rows))
        else:
            profiles = SEVEN_ENGINES if kind == "seven" else FOUR_ENGINES
            slices += partitionable_slices(name, rng.randint(1, 2), profiles)
    state = cluster(*slices, nodes=names)
    world = World(state, [], Demand(()), {}, {}, same_chip=False)
    for name in names:
        world.nodes.append(_victims(rng, world, name))
    _ask(rng, world, kind)
    return world


def _victims(rng: random.Random, world: World, node: str) -> NodeVictims:
    state = world.state
    victims: list[Victim] = []
    for number in range(rng.randint(2, 9)):
        holds: dict[str, tuple[DeviceResult, ...]] = {}
        for part in range(rng.choice([1, 1, 1, 2])):
            free = list(bits(state.view(node).open))
            if free:
                # Small partitions mostly: a whole card leaves nothing for others.
                index = max(rng.sample(free, min(len(free), 2)), key=lambda i: -_size(state, node, i))
                key = f"{node}-{number}-{part}"
                holds[key] = (DeviceResult("r", state.view(node).id_of(index)),)
                state.hold(key, holds[key])
        if not holds:
            break
        if rng.random() < 0.15:
            world.others.setdefault(node, []).extend(r for results in holds.values() for r in results)
            continue
        leaving = rng.random() < 0.1
        pods = 0 if leaving else rng.choice([1, 1, 1, 2, 3])
        victims.append(
            Victim(
                key=f"{node}-{number}",
                priority=LEAVING if leaving else rng.choice([0, 0, 0, 3, 7]),
                pods=pods,
                lost=0 if leaving else rng.randint(0, MOST_LOST),
                holds=holds,
                freed={"cpu": rng.randint(1, 4), "pods": max(pods, 1)},
                group=rng.choice(["", "", "g", "h"]) if pods else "",
                counted=_counted(rng, len(holds)) if pods else {},
            )
        )
    groups = {}
    for name in ("g", "h"):
        members = [each for each in victims if each.group == name]
        if members:
            elsewhere = rng.choice([0, 0, 2])
            groups[name] = VictimGroup(
                spare=rng.choice([0, 1, 2, 4]),
                pods=sum(each.pods for each in members) + elsewhere,
                lost=sum(each.lost for each in members) + 10 * elsewhere,
                counted=sum((Counter(each.counted) for each in members), Counter({"q": elsewhere})),
            )
    left = {"cpu": rng.choice([8, 8, 2, 0]), "pods": rng.choice([10, 10, 1, 0])}
    allowance = {key: rng.randint(0, 4) for key in QUOTAS}
    return NodeVictims(node, tuple(victims), groups, left, allowance)


def _counted(rng: random.Random, amount: int) -> dict[str, int]:
    """Return what a victim counts in the quotas: in most worlds' victims in none, so that some sets may go."""
    return {key: amount for key in QUOTAS if rng.random() < 0.4}


def _size(state: State, node: str, index: int) -> int:
    view = state.view(node)
    if index not in view.group_of:
        return 1
    group, local = view.group_of[index]
    return len(view.groups[group].group_type.needs[local])


def _ask(rng: random.Random, world: World, kind: str) -> None:
    kinds: Mapping[str, int] = {
        "seven": {"one": 4, "two": 3, "three": 2, "four": 1, "seven": 2},
        "four": {"one": 5, "two": 3, "four": 2},
        "whole": {"gpu": 5},
    }[kind]
    for name in rng.sample(sorted(kinds), rng.choice([1, 1, min(2, len(kinds))])):
        world.counts[name] = rng.randint(1, kinds[name])
    requests = [device_request(name, kind=name, count=count) for name, count in world.counts.items()]
    world.same_chip = kind == "whole" and rng.random() < 0.4
    constraints: list[Raw] = [{"matchAttribute": CHIP}] if world.same_chip else []
    world.demand = Demand((claim("asks", *requests, constraints=constraints),))
    world.wanted = {"cpu": rng.choice([1, 1, 4, 6]), "pods": 1}
