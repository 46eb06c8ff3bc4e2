"""Members of a gang whose pods must not share a node: what is placed in a search counts for nobody while others run."""

import pytest

from apportion.allocator.preemption.findgangvictims import GangVictims, gang_victim_steps
from tests.allocator.test_gang_victims import of_nodes


class Apart:
    """No two members on one node."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self.placed: dict[int, str] = {}

    def nodes(self, member: int) -> frozenset[str]:
        return self._names.difference(node for other, node in self.placed.items() if other != member)

    def awaits(self, _member: int) -> bool:
        return False

    def place(self, member: int, node: str | None) -> None:
        self.placed.pop(member, None)
        if node is not None:
            self.placed[member] = node


@pytest.mark.parametrize("changes", [False, True], ids=["as it was", "changed"])
def test_nobody_is_placed_between_two_steps(*, changes: bool) -> None:
    """Of the first node both could have the GPUs at the least cost; where a node changes, the search begins anew."""
    nodes, members, world = of_nodes((1, 1), (1, 1), (1, 1), size=2)
    apart = Apart(frozenset({"n0", "n1"}))
    read = {each.node: each for each in nodes}.__getitem__
    names = ["n0", "n1", "n2"]
    steps = gang_victim_steps(world.state, members, names, read, neighbours=apart, pauses=lambda: True)
    pauses, ended = 0, False
    chosen: GangVictims | None = None
    while not ended:
        try:
            next(steps)
        except StopIteration as end:
            chosen, ended = end.value, True
        assert apart.placed == {}
        pauses += 1
        if changes and pauses == 9:
            for key, results in nodes[2].victims[0].holds.items():
                world.state.release(key)
                world.state.hold("other", results)
    assert chosen is not None
    assert {decision.node for decision in chosen.decisions} == {"n0", "n1"}
    assert pauses > 9
