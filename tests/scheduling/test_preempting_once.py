"""Who was served by a preemption is not decided anew while that is being written: the devices of the first decision would be nobody's."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from apportion.cluster.client import Client
from apportion.dra.device import DeviceId
from apportion.dra.pod import Pod
from apportion.scheduling.preemption.evictor import Refused
from tests.observedcluster import GPU
from tests.scheduling.evicting import SteeredEvictor, Trial, ends, holds, joins, mark_ending, trial, waits


@pytest.mark.parametrize("group", [False, True], ids=["one pod", "group"])
async def test_devices_that_come_free_while_a_decision_is_written_change_nothing(
    unanswered: Client, *, group: bool
) -> None:
    """Another pod got what was being written for the first, and both claims had it."""
    made = trial(unanswered, 4)
    holds(made.world, "low", 0, 1)
    holds(made.world, "other", 2, 3, priority=9)
    if group:
        joins(made.world, "high", "second")
    else:
        waits(made.world, "high", 2, priority=5)
    await made.passes()
    assert made.evicted == ["low"]
    ends(made.world, "low")
    made.cycle.once()
    written = {key for key in made.world.snapshot.state.held() if key.startswith("uid-")}
    state = made.world.snapshot.state
    devices = [DeviceId(GPU, "n1", f"gpu-{number}") for number in range(4)]
    before = [written & {*state.holders(device)} for device in devices]
    ends(made.world, "other")
    waits(made.world, "next", 2)
    made.cycle.once()
    assert [written & {*state.holders(device)} for device in devices[:2]] == before[:2]
    assert all(
        len({*state.holders(device)} & {*written, "uid-team-resourceclaims-next"}) == 1 for device in devices
    )


@dataclass
class Slow(SteeredEvictor):
    """Answers to the dry run when the test says so."""

    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def refusal(self, pods: Sequence[Pod]) -> Refused | None:
        await self.answers.wait()
        return await super().refusal(pods)


@pytest.mark.parametrize("meanwhile", ["served", "deleted", "nothing"])
async def test_nobody_goes_for_a_pod_that_is_gone_or_is_being_given_what_came_free(
    unanswered: Client, meanwhile: str
) -> None:
    """The server took long to say that the other one may go; what was decided since is not shown yet, and no pass has begun since the pod went."""
    made = trial(unanswered, 2)
    evictor = Slow(made.world)
    made = Trial(made.world, made.world.cycle(unanswered, evictor=evictor), evictor)
    holds(made.world, "low", 0)
    holds(made.world, "ends", 1, priority=9)
    waits(made.world, "high", 1, priority=5)
    await made.passes(1)
    if meanwhile == "served":
        ends(made.world, "ends")
        made.cycle.once()
        assert made.world.places()["high"] == "n1"
    elif meanwhile == "deleted":
        mark_ending(made.world, "high")
    evictor.answers.set()
    await made.cycle.preemptions._evictions.answered()
    assert made.evicted == (["low"] if meanwhile == "nothing" else [])
