"""Evictions while the API server cannot be reached, as while it starts anew: what was begun goes on, and nothing was in vain."""

from dataclasses import dataclass

from apportion.cluster.client import Client
from apportion.dra.pod import Pod
from apportion.errors import Unreachable
from apportion.scheduling.preemption.evictor import Refused
from tests.scheduling.evicting import SteeredEvictor, Trial, ends, holds, trial, waits


@dataclass
class AwayEvictor(SteeredEvictor):
    """One whose API server is away after so many evictions, until somebody says otherwise."""

    left: int | None = 1
    """None: it is there."""

    async def evict(self, pod: Pod) -> Refused | None:
        if self.left == 0:
            raise Unreachable("POST eviction: connection refused")
        if self.left is not None:
            self.left -= 1
        return await super().evict(pod)


async def test_what_was_begun_goes_on_once_the_api_server_is_back(unanswered: Client) -> None:
    """The one pod went in vain: its GPU was anybody's, and nobody else went for the namespace for ten minutes."""
    made = trial(unanswered, 2, cooldown="10m")
    evictor = AwayEvictor(made.world)
    made = Trial(made.world, made.world.cycle(unanswered, evictor=evictor), evictor)
    holds(made.world, "one", 0)
    holds(made.world, "two", 1)
    waits(made.world, "high", 2, priority=5)
    waits(made.world, "patient", 1)
    await made.passes(2)
    assert made.evicted == ["one"]
    ends(made.world, "one")
    await made.passes(5)
    evictor.left = None
    await made.passes(10)
    assert ("high", "PreemptionInVain") not in made.world.warned
    assert made.evicted == ["one", "two"]
    ends(made.world, "two")
    await made.passes()
    assert made.world.places() == {"high": "n1"}
