"""Whatever comes and ends, in whatever order: what always holds of reservations."""

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from apportion.api.hold import HoldPurpose, hold_key, hold_name
from apportion.cluster.client import Client
from apportion.scheduling.backfill.heads import members_of
from apportion.scheduling.backfill.reservation import STARTED
from tests.scheduling.reserving import Reserving

pytestmark = pytest.mark.slow

STEP = 10.0
"""Seconds between two passes."""
NODES = {"n1": 4, "n2": 4}


@dataclass(frozen=True)
class Coming:
    """A pod that comes."""

    devices: int
    declared: int | None
    """Seconds; None: it declares nothing."""
    runs: float
    """How long it really runs, as a part of what it declares, or of a minute."""
    priority: int = 0

    @property
    def seconds(self) -> float:
        """How long it really runs."""
        return (self.declared or 60) * self.runs


HONEST = st.builds(
    Coming, st.integers(1, 4), st.sampled_from([30, 60, 120, 300, 600]), st.sampled_from([0.1, 0.5, 1.0])
)
ANY = st.builds(
    Coming,
    st.integers(1, 4),
    st.sampled_from([None, 30, 60, 300]),
    st.sampled_from([0.5, 1.0, 3.0]),
    st.integers(0, 1),
)
"""Some declare nothing, some run longer than they say."""


class History:
    """Pods come as drawn, run, and end; a pass is made every STEP seconds."""

    def __init__(self, client: Client, most: int) -> None:
        self.made = Reserving(client, NODES, mostReserved=most)
        self.coming: dict[str, Coming] = {}
        self.ends: dict[str, float] = {}
        """When each that runs ends."""
        self.promised: dict[str, float] = {}
        """When each was expected to start when devices were first reserved for it, if that was known."""
        self.started: dict[str, float] = {}
        self.overtaken = 0
        """How often a pod got devices that are reserved for another."""

    def step(self, coming: list[Coming]) -> None:
        """Let pods come and end, make a pass, and look at what it did."""
        now = self.made.world.seconds()
        for name in [name for name, end in self.ends.items() if end <= now]:
            self.made.ends(name)
            del self.ends[name]
        for each in coming:
            name = f"p{len(self.coming):03}"
            self.coming[name] = each
            runtime = f"{each.declared}s" if each.declared is not None else ""
            self.made.comes(name, each.devices, runtime=runtime, priority=each.priority)
        before = [each.plan for each in self.made.reservations()]
        served = self.made.passes(STEP)
        exceeding = self.made.cycle.decider.reservations._exceeding
        for name in served:
            self.started[name], self.ends[name] = now, now + self.coming[name].seconds
        # Those that were there all through the pass, as they are.
        for each in self.made.reservations():
            if any(each.plan is plan for plan in before):
                reserved = {f"{result.device.pool}/{result.device.name}" for result in each.plan.results}
                for name in served:
                    if reserved.intersection(self._devices(name)):
                        declared, start = self.coming[name].declared, each.plan.start
                        in_time = (
                            start is not None
                            and declared is not None
                            and not exceeding
                            and now + declared + STARTED <= start
                        )
                        assert in_time or self.coming[name].priority > members_of(each.head)[0].priority
                        self.overtaken += 1
        self._holds()

    def _holds(self) -> None:
        devices = [device for each in self.made.held().values() for device in each]
        assert len(devices) == len(set(devices))
        waiting = self.coming.keys() - self.started.keys()
        keys = {
            hold_key(hold_name(HoldPurpose.RESERVATION, f"uid-team-resourceclaims-{name}"))
            for name in waiting
        }
        assert self.made.held().keys() <= keys
        for each in self.made.reservations():
            if each.plan.start is not None:
                self.promised.setdefault(members_of(each.head)[0].claims[0].name, each.plan.start)

    def _devices(self, name: str) -> list[str]:
        claim = self.made.world.snapshot.claim("team", name)
        assert claim is not None
        assert claim.allocation is not None
        return [f"{result.device.pool}/{result.device.name}" for result in claim.allocation.results]


PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""To make such histories smaller takes minutes."""
RUN = settings(
    max_examples=20, deadline=None, phases=PHASES, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(st.lists(st.lists(ANY, max_size=3), max_size=30), st.integers(1, 3))
@RUN
async def test_who_takes_reserved_devices_ends_before_and_no_two_have_the_same_reserved(
    unanswered: Client, history: list[list[Coming]], most: int
) -> None:
    """Unless it has a higher priority; and no reservation outlives the wait for which it was made."""
    run = History(unanswered, most)
    for coming in history:
        run.step(coming)


@given(st.lists(st.lists(HONEST, max_size=3), min_size=5, max_size=20), st.integers(1, 3))
@RUN
async def test_the_first_of_the_queue_starts_at_the_latest_when_it_was_first_expected(
    unanswered: Client, history: list[list[Coming]], most: int
) -> None:
    """Where all end by what they declare: overtaking delays nobody for whom devices are reserved."""
    run = History(unanswered, most)
    for coming in history:
        run.step(coming)
    while run.coming.keys() - run.started.keys():
        run.step([])
        assert run.made.world.clock.now < 100_000
    for name, expected in run.promised.items():
        # A pass that sees the ends, after the moment itself.
        assert run.started[name] <= expected + STEP
