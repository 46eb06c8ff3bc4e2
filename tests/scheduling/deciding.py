"""What decides in one pass, for tests that look into the middle of it."""

from collections.abc import Iterator

from apportion.allocator.finished import finished
from apportion.cluster.client import Client
from apportion.dra.node import Resources
from apportion.scheduling.candidates.exclusions import Exclusions
from apportion.scheduling.candidates.stillprepared import StillPrepared
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.deciding.groupdecider import GroupDecider
from apportion.scheduling.demands.groups import WaitingGroup
from apportion.scheduling.demands.waitingqueue import waiting_demands
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.writing.backgroundwrites import BackgroundWrites
from apportion.scheduling.writing.writer import Writer
from testbed.cycle import MANAGER, now
from tests.observedcluster import ObservedCluster
from tests.scheduling.podgroups import queue
from tests.steps import Steps


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
        self._group_decider = GroupDecider(self._decider, world.clock)
        self.looks = 0
        """How often the free room of a node was looked up for a group."""

    def decide_groups(self) -> int:
        """Make a pass over the groups that wait; return how many claims were granted."""
        return sum(granted for granted in self.steps() if granted)

    def pieces(self) -> list[int]:
        """Make a pass over the groups that wait; return how many functions each step of it called."""
        steps, found, ended = self.steps(), list[int](), False
        while not ended:
            with Steps() as counted:
                ended = next(steps, -1) == -1
            found.append(counted.count)
        return found

    def begin_groups(self) -> None:
        """Give each group that waits some turns, by a clock that ticks, so that decisions are under way."""
        for number, granted in enumerate(self.steps(turns=10)):
            assert not granted, number

    def abandon(self) -> None:
        """Act no longer."""
        self._group_decider.abandon()

    def steps(self, turns: int = 1) -> Iterator[int]:
        """Decide about each group; yields 0 between steps, and how many claims were granted at its end."""
        snapshot = self._world.snapshot
        demands, _ = waiting_demands(snapshot)
        groups = [each for each in queue(snapshot) if isinstance(each, WaitingGroup)]
        self._decider.begin(1, (), demands)
        self._group_decider.begin(groups)
        capacity = HostCapacity(snapshot.nodes.values(), self._load)
        yield 0
        for group in groups * turns:
            for _ in self._group_decider.advance(group, capacity):
                yield 0
            yield self._group_decider.granted

    def _load(self, node: str) -> Resources:
        self.looks += 1
        return self._world.snapshot.pod_index.load(node)

    def decide(self, meanwhile: float = 0.0) -> dict[str, int]:
        """Make a pass in which so many seconds go by between plan and decisions; return what each claim was granted."""
        demands, _ = waiting_demands(self._world.snapshot)
        capacity = self._decider.candidates.capacity()
        self._decider.begin(1, (), demands)
        finished(self._decider.planner.plan(demands, capacity, self._decider.rests))
        self._world.clock.now += meanwhile
        return {demand.claims[0].name: finished(self._decider.decide(demand, capacity)) for demand in demands}
