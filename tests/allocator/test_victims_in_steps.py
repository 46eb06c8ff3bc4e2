"""Victims are searched in steps: others change the state in between, and nothing of theirs is lost, doubled or kept for nobody."""

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pytest

from apportion.allocator.allocate import decide
from apportion.allocator.demand import Demand
from apportion.allocator.preemption.findgangvictims import GangVictims, find_gang_victims, gang_victim_steps
from apportion.allocator.preemption.findvictims import victim_steps
from apportion.allocator.preemption.victims import NodeVictims, Victim, VictimSet
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from tests.allocator import gangvictimworlds, victimworlds
from tests.allocator.hardsearches import distinct_claim
from tests.allocator.test_search_slices import MOST_CALLS, hard_cluster
from tests.steps import Steps

WORLDS = 100
Found: TypeAlias = VictimSet | GangVictims | None


@dataclass
class Others:
    """Pods that end and come on the nodes of a world while victims are searched."""

    state: State
    nodes: Sequence[NodeVictims]
    seed: int
    often: float
    """How likely something changes at a pause."""
    changes: int = 0
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)  # noqa: S311 - a test that can be repeated

    def read(self, name: str) -> NodeVictims:
        """Return the victims of a node that still have their devices."""
        node = next(each for each in self.nodes if each.node == name)
        held = self.state.held().keys()
        return replace(node, victims=tuple(each for each in node.victims if each.holds.keys() <= held))

    def change(self) -> None:
        """Let a victim end, and most often another pod have one of its devices at once."""
        victims = [each for node in self.nodes for each in self.read(node.node).victims]
        if victims:
            self.changes += 1
            gone = self.rng.choice(victims)
            for key in gone.holds:
                self.state.release(key)
            if self.rng.random() < 2 / 3:
                self.state.hold(f"new-{self.changes}", next(iter(gone.holds.values())))

    def run(self, steps: Generator[None, None, Found]) -> Found:
        """Do the steps, with changes in between; at each pause and at the end is held what others hold."""
        held = self.state.held()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                assert self.state.held() == held
                found: Found = end.value
                return found
            assert self.state.held() == held
            if self.rng.random() < self.often:
                self.change()
                held = self.state.held()


def for_one(seed: int, often: float) -> tuple[Others, Generator[None, None, Found]]:
    """Return a world, and a search for one demand."""
    world = victimworlds.drawn(seed)
    others = Others(world.state, world.nodes, seed, often)
    names = [each.node for each in world.nodes]
    return others, victim_steps(world.state, world.demand, names, others.read, wanted=world.wanted)


def for_gang(seed: int, often: float) -> tuple[Others, Generator[None, None, Found]]:
    """Return a world, and a search for a gang that pauses wherever it may."""
    world = gangvictimworlds.drawn(seed, alike=bool(seed % 2))
    others = Others(world.state, world.nodes, seed, often)
    names = [each.node for each in world.nodes]
    return others, gang_victim_steps(
        world.state, world.members, names, others.read, ladder=world.ladder, pauses=lambda: True
    )


@pytest.mark.slow
@pytest.mark.parametrize("made", [for_one, for_gang])
@pytest.mark.parametrize("often", [0.05, 0.5])
def test_others_hold_what_they_held_at_every_pause_and_at_the_end(
    made: Callable[[int, float], tuple[Others, Generator[None, None, Found]]], often: float
) -> None:
    """Pods end and come between the steps; those who are found have their devices then, and these serve once they are gone."""
    served = changed = 0
    for seed in range(WORLDS):
        others, steps = made(seed, often)
        found = others.run(steps)
        changed += others.changes > 0
        if found is not None:
            served += 1
            assert suits(others.state, found), seed
    assert changed > WORLDS / 10
    assert served


@pytest.mark.slow
def test_a_gang_for_which_a_search_pauses_gets_the_same_victims() -> None:
    """What is given back for a pause and taken once more changes no answer."""
    found = 0
    for seed in range(WORLDS):
        others, steps = for_gang(seed, 0.0)
        world = gangvictimworlds.drawn(seed, alike=bool(seed % 2))
        victims = others.run(steps)
        assert victims == find_gang_victims(world.state, world.members, world.nodes, ladder=world.ladder), (
            seed
        )
        found += victims is not None
    assert found > WORLDS / 10


@pytest.mark.slow
def test_no_step_takes_long_though_the_search_of_a_node_does() -> None:
    """Each question of the allocator was searched to its end in one step: 0.3 s, in which nobody was served."""
    state, name = hard_cluster(), "n1"
    decide(state, Demand((distinct_claim(1),)))
    victims = []
    for device in [each.id for each in state.view(name).devices]:
        holds = {device.name: (DeviceResult("r", device),)}
        state.hold_all(holds.items())
        victims.append(Victim(device.name, priority=0, pods=1, lost=1, holds=holds))
    node = NodeVictims(name, tuple(victims))
    search = victim_steps(state, Demand((distinct_claim(24),)), [name], {name: node}.__getitem__)
    counted, more = [], True
    while more:
        with Steps() as step:
            more = next(search, search) is not search
        counted.append(step.count)
        assert state.held().keys() == {each.key for each in victims}
    assert len(counted) > 20
    assert max(counted) < MOST_CALLS


def suits(state: State, found: VictimSet | GangVictims) -> bool:
    """Say whether victims have their devices, and those that were chosen are free without them."""
    held = state.held()
    if any(held.get(key) != results for each in found.victims for key, results in each.holds.items()):
        return False
    for victim in found.victims:
        state.release_all(victim.holds)
    for number, decision in enumerate(
        found.decisions if isinstance(found, GangVictims) else (found.decision,)
    ):
        for result in [each for one in decision.allocations for each in one.results]:
            index = state.view(decision.node).find(result.device)
            if index is None or not state.view(decision.node).open >> index & 1:
                return False
            state.hold(f"got-{number}-{result.device}", [result])
    return True
