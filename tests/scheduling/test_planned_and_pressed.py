"""A queue that is planned together is served by that plan, also where changes come all the time: it is not planned anew for each of its claims."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.debouncer import Debouncer
from apportion.settings import CycleSettings
from tests.clock import Clock
from tests.observedcluster import ObservedCluster
from tests.scheduling.queued import fleet
from tests.scheduling.sliced import between, until
from tests.steps import Steps

CLAIMS = 32
SLOW = 3e-6
"""Seconds that one call of a function takes on the machine of the test; planning then takes longer than 50 ms."""


class Working(Clock):
    """A clock that moves with the work that is done."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps

    def __call__(self) -> float:
        return self.now + SLOW * self._steps.count


def waiting(steps: Steps) -> ObservedCluster:
    """Return a cluster with a device for each of the claims that wait."""
    made = fleet({f"n{number}": ("a", 8) for number in range(CLAIMS // 8)})
    made.clock = Working(steps)
    for number in range(CLAIMS):
        made.wait_for(f"c{number}", {"name": "one", "exactly": {"deviceClassName": "gpu"}})
    return made


@pytest.mark.slow
async def test_a_queue_is_not_planned_anew_for_each_of_its_claims(silent: Client) -> None:
    """On a machine with other work a plan took longer than the walk waits before it lets in who came meanwhile: after one claim it was dropped."""
    waiting(Steps()).cycle(silent).once()  # what is done once in a process: parsers are made
    alone = Steps()
    undisturbed = waiting(alone).cycle(silent)
    with alone:
        undisturbed.once()

    pressed = Steps()
    world = waiting(pressed)
    debouncer = Debouncer(quiet=0, longest=0, clock=world.clock)
    cycle = world.cycle(silent, CycleSettings(writes=1), debouncer)
    with pressed:
        await between(cycle, until(lambda: len(world.places()) == CLAIMS, debouncer.wake))

    assert pressed.count < 4 * alone.count
