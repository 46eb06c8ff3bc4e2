"""What decides in one pass, for tests that look into the middle of it."""

from apportion.cluster.client import Client
from apportion.scheduling.backgroundwrites import BackgroundWrites
from apportion.scheduling.decider import Decider
from apportion.scheduling.exclusions import Exclusions
from apportion.scheduling.stillprepared import StillPrepared
from apportion.scheduling.waiting import waiting_demands
from apportion.scheduling.writer import Writer
from testbed.cycle import MANAGER, now
from tests.observedcluster import ObservedCluster


class Deciding:
    """The deciding half of a cycle, by the world's clock."""

    def __init__(self, world: ObservedCluster, client: Client) -> None:
        snapshot, recorder = world.snapshot, world.recorder(client)
        self._world = world
        self.exclusions = Exclusions(world.clock)
        writer = Writer(client, fence=lambda: None, now=now)
        writes = BackgroundWrites(snapshot, writer, recorder, clock=world.clock, wake=lambda: None)
        self._decider = Decider(
            snapshot,
            writes,
            recorder,
            self.exclusions,
            StillPrepared(snapshot, world.clock),
            clock=world.clock,
            manager=MANAGER,
        )

    def decide(self, meanwhile: float = 0.0) -> dict[str, int]:
        """Make a pass in which so many seconds go by between plan and decisions; return what each claim was granted."""
        demands, _ = waiting_demands(self._world.snapshot)
        capacity = self._decider.candidates.capacity()
        self._decider.begin(1, frozenset(demand.key for demand in demands))
        self._decider.planner.plan(demands, capacity, self._decider.rests)
        self._world.clock.now += meanwhile
        return {demand.claims[0].name: self._decider.decide(demand, capacity) for demand in demands}
