"""What decides in one pass, for tests that look into the middle of it."""

from apportion.cluster.client import Client
from apportion.scheduling.backgroundwrites import BackgroundWrites
from apportion.scheduling.candidates import Candidates, capacity_of
from apportion.scheduling.decider import Decider
from apportion.scheduling.exclusions import Exclusions
from apportion.scheduling.planner import Planner
from apportion.scheduling.refusals import Refusals
from apportion.scheduling.stillprepared import StillPrepared
from apportion.scheduling.waiting import WaitingDemand, waiting_demands
from apportion.scheduling.writer import Writer
from testbed import acting
from tests.world import World


class Deciding:
    """The deciding half of a cycle, by the world's clock."""

    def __init__(self, world: World, client: Client) -> None:
        snapshot, recorder = world.snapshot, world.recorder(client)
        self._world = world
        self.exclusions = Exclusions(world.clock)
        still_prepared = StillPrepared(snapshot, world.clock)
        self.candidates = Candidates(snapshot, self.exclusions, still_prepared)
        self.planner = Planner(snapshot, self.candidates)
        writer = Writer(client, fence=lambda: None, now=acting.now)
        self.decider = Decider(
            snapshot,
            BackgroundWrites(snapshot, writer, recorder, clock=world.clock, wake=lambda: None),
            recorder,
            self.candidates,
            Refusals(snapshot, self.exclusions, still_prepared),
            self.planner,
            clock=world.clock,
            manager=acting.MANAGER,
        )

    def decide(self, meanwhile: float = 0.0) -> dict[str, int]:
        """Make a pass in which so many seconds go by between plan and decisions; return what each claim was granted."""
        snapshot = self._world.snapshot
        demands: list[WaitingDemand] = waiting_demands(snapshot)[0]
        capacity = capacity_of(snapshot)
        self.candidates.begin(1)
        self.planner.begin()
        self.decider.begin(frozenset(demand.key for demand in demands))
        self.planner.plan(demands, capacity, self.decider.rests)
        self._world.clock.now += meanwhile
        return {demand.claims[0].name: self.decider.decide(demand, capacity) for demand in demands}
