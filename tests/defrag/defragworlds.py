"""Small clusters with claims that may move, drawn at random, and a goal that may need some of them to."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from apportion.allocator.bits import bits
from apportion.allocator.defrag.exactsearch import STEPS
from apportion.allocator.defrag.moves import FreeCards, Goal, Movable, RoomFor
from apportion.allocator.defrag.plan import Planning
from apportion.allocator.demand import Demand
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from tests.allocator.builders import (
    claim,
    cluster,
    device_request,
    drawn_slices,
)

KINDS: Mapping[str, Mapping[str, int]] = {
    "seven": {"one": 6, "two": 4, "three": 3, "four": 1},
    "four": {"one": 5, "two": 3},
    "whole": {"gpu": 1},
}
"""How often something that may move is of a kind of device."""


@dataclass
class World:
    """A state, what may move in it, and a goal."""

    state: State
    movables: list[Movable]
    goal: Goal
    room: dict[str, dict[str, int]]
    counts: dict[str, tuple[str, int]]
    """Kind and number of devices of each that may move, by its key; of the demand under `goal`."""
    others: list[DeviceResult] = field(default_factory=list)
    """What is held by what stays."""

    def planning(self, steps: int = STEPS) -> Planning:
        return Planning(self.state, self.movables, self.room, steps=steps)


def drawn(seed: int) -> World:
    """Draw a world: one to three nodes, two to four cards or a few whole devices a node."""
    rng = random.Random(seed)  # noqa: S311 - a test that can be repeated
    kind = rng.choice(["seven", "seven", "four", "four", "whole"])
    names = ["n1", "n2", "n3"][: rng.choice([1, 2, 2, 3])]
    state = cluster(*drawn_slices(rng, names, kind, fewest=2), nodes=names)
    world = World(state, [], FreeCards(1), {}, {})
    _fill(rng, world, names, kind)
    for name in names:
        if rng.random() < 0.3:
            world.room[name] = {"cpu": rng.choice([0, 1, 2, 4]), "pods": 10}
    if kind != "whole" and rng.random() < 0.4:
        world.goal = FreeCards(rng.choice([1, 1, 1, 2]))
    else:
        large = {"seven": ["three", "four", "seven"], "four": ["two", "four"], "whole": ["gpu"]}
        asked, count = rng.choice(large[kind]), rng.choice([2, 3, 4]) if kind == "whole" else 1
        world.counts["goal"] = asked, count
        demand = Demand((claim("goal", device_request(kind=asked, count=count)),))
        world.goal = RoomFor(demand, {"cpu": rng.choice([0, 1, 2])})
    return world


def _fill(rng: random.Random, world: World, names: list[str], kind: str) -> None:
    state, kinds = world.state, KINDS[kind]
    for number in range(rng.randint(3, 9)):
        node, key = rng.choice(names), f"m{number}"
        asked = rng.choices([*kinds], [*kinds.values()])[0]
        view = state.view(node)
        fitting = [
            index
            for index in bits(view.open)
            if view.devices[index].attribute("gpu.example.com/kind") == asked
        ]
        count = min(rng.choice([1, 1, 2]), len(fitting)) if kind == "whole" else 1
        if not fitting:
            continue
        results = tuple(DeviceResult("r", view.id_of(index)) for index in rng.sample(fitting, count))
        state.hold(key, results)
        if rng.random() < 0.07:
            world.others.extend(results)
            continue
        demand = Demand((claim(key, device_request(kind=asked, count=count)),))
        if rng.random() < 0.15:
            demand = Demand(demand.claims, frozenset(rng.sample(names, 1)))
        pods, cost = rng.choice([1, 1, 1, 2]), rng.randint(0, 9)
        requests = {"cpu": rng.choice([0, 1, 1])}
        world.movables.append(Movable(key, node, demand, {key: results}, pods, cost, requests))
        world.counts[key] = asked, count
