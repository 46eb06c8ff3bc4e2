"""The longest step of a pass: what is done between two of its yields, counted."""

from collections.abc import Callable

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.scheduling.cycle import Cycle
from tests.observedcluster import ObservedCluster
from tests.steps import Steps


def served_before(world: ObservedCluster, client: Client) -> Cycle:
    """Return a cycle that has decided something: what is found out once counts for no step."""
    world.claim("before")
    world.pod("before", "before", gates=(GATE,))
    cycle = world.cycle(client)
    cycle.once()
    return cycle


def longest_step(cycle: Cycle, only: Callable[..., object] | None = None) -> int:
    """Make a pass, and return how many functions were called between two of its yields at most; `only`: count the calls of this one alone."""
    steps, longest, more = cycle._pass(longest=1e9, evaluates=False), 0, True
    while more:
        with Steps(only) as counted:
            work = next(steps, steps)
            more = work is not steps
        longest = max(longest, counted.count)
    return longest
