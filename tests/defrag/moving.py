"""A small cluster whose pods have controllers, a leader that carries out a plan there and may be killed at any act, and what happens around it."""

import asyncio
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from apportion.allocator.finished import finished
from apportion.api.defrag import Campaign, DefragPolicy
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, DEFRAGS, NODES, PODS
from apportion.dra.device import DeviceId
from apportion.dra.pod import Pod
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.defrag.campaigns import Campaigns
from apportion.scheduling.defrag.movables import MovableReader, Movables, Scope
from apportion.scheduling.defrag.places import KEY
from apportion.scheduling.defrag.planning import Picture, Planned
from apportion.scheduling.defrag.records import campaign_of, devices_of
from apportion.scheduling.preemption.evictor import Refused
from tests.cli.worlds import Cluster, allocate_what_is_assumed
from tests.defrag.planned import cards, makes, runs, starts

Json = dict[str, Any]
POLICY = "tidy"


class Killed(BaseException):
    """The leader was killed; nobody in it can do anything about that."""


def ends(cluster: Cluster, name: str) -> None:
    """Show that a pod is gone and its claim with it."""
    for kind, key in ((PODS, ("Pod", "team", name)), (CLAIMS, ("ResourceClaim", "team", f"{name}-claim"))):
        raw = cluster.objects.pop(key)
        cluster.gone(kind, raw)


def policy(cluster: Cluster, **spec: Any) -> DefragPolicy:
    """Make a policy that frees a whole card and evicts."""
    raw = {
        "metadata": {"name": POLICY, "generation": 1},
        "spec": {
            "free": {"wholeCards": {"deviceClass": "gpu"}},
            "schedule": "* * * * *",
            "mode": "Evict",
            "cooldown": "0s",
            **spec,
        },
    }
    cluster.see(DEFRAGS, raw)
    return present(cluster)


def present(cluster: Cluster) -> DefragPolicy:
    """Return the policy as it is observed."""
    [found] = cluster.snapshot.defrags.values()
    return found


@dataclass
class Moving:
    """A leader, and the cluster around it."""

    cluster: Cluster
    client: Client
    protected: Sequence[str] = ()
    """Pods that a PodDisruptionBudget protects."""
    dies_at: int = -1
    """The act (write or eviction) at which the leader is killed, counted from 0; -1: never."""
    dies_after: bool = False
    """It is killed when the server has done the act, not before."""
    successors: bool = True
    """Controllers make pods anew."""
    linger: int = 1
    """Rounds that an evicted pod takes to end."""
    acts: int = 0
    evicted: list[str] = field(default_factory=list)
    """UIDs of evicted pods, in order."""
    cycle: Cycle = field(init=False)
    campaigns: Campaigns = field(init=False)
    _ending: dict[str, int] = field(default_factory=dict)
    _number: int = 0

    def __post_init__(self) -> None:
        self.lead()

    def lead(self) -> None:
        """Let a process lead that remembers nothing."""
        objects, clock = self.cluster.objects, self.cluster.clock
        policies = [objects.pop(key) for key in tuple(objects) if key[0] == DEFRAGS.name]
        anew = self.cluster.anew()
        anew.clock = clock
        for each in policies:
            anew.see(DEFRAGS, copy.deepcopy(each))
        self.cluster = anew
        self.cycle = anew.cycle(self.client, evictor=self)
        self.campaigns = Campaigns(
            anew.snapshot,
            self.cycle.places,
            self,
            anew.recorder(self.client),
            read=lambda _, pod, target: self._reader().of_pod(pod, target),
            write=self._write,
            now=self.now,
            clock=clock,
            wake=lambda: None,
        )
        self.campaigns.resume()

    def now(self) -> datetime:
        """Return the cluster's time."""
        return datetime.fromtimestamp(self.cluster.seconds(), UTC)

    @property
    def campaign(self) -> Campaign | None:
        """Return what is written down."""
        return present(self.cluster).status.campaign

    @property
    def held(self) -> set[DeviceId]:
        """Return the devices that are held for moves."""
        found = self.cluster.snapshot.state.held().get(KEY, ())
        return {each.device for each in found}

    def running(self) -> dict[str, str]:
        """Return node and device of each pod that runs, by its name."""
        found: dict[str, str] = {}
        for pod in self.cluster.snapshot.pods.values():
            [claim] = self.cluster.snapshot.named_claims(pod)
            if pod.phase == "Running" and not pod.deleting and claim is not None and claim.allocation:
                found[pod.name] = f"{pod.node}/{claim.allocation.results[0].device.name}"
        return found

    def plan(self) -> tuple[Planned, Movables]:
        """Plan as the leader does."""
        found = finished(self._reader().gather())
        names = frozenset(node.name for node in self.cluster.snapshot.nodes.values())
        spec = present(self.cluster).spec
        picture = Picture.of(spec, self.cluster.snapshot, names, found.movables, found.room)
        return picture.plan(), found

    async def start(
        self,
        window: timedelta = timedelta(hours=1),
        meanwhile: Callable[[], None] = lambda: None,
        while_planned: Callable[[], None] = lambda: None,
    ) -> None:
        """Plan, and begin to carry it out, in a window that is open for so long.

        `meanwhile`: called when the server has not answered yet. `while_planned`: called when the plan is made, and nothing is held yet.
        """
        planned, found = self.plan()
        assert planned.plan is not None, planned
        while_planned()
        campaign = campaign_of(planned.plan, found, self.now(), self.now() + window, present(self.cluster))

        async def write() -> DefragPolicy | None:
            await self.campaigns.act()
            meanwhile()
            written = await self._write(present(self.cluster), campaign)
            return present(self.cluster) if written else None

        await self._living(self.campaigns.start(campaign, write))

    async def round(self, seconds: float = 11.0) -> None:
        """Let the leader act, make a pass, and let everybody else do what they do."""
        self.cluster.clock.now += seconds
        await self._living(self.campaigns.act())
        self.cycle.once()
        allocate_what_is_assumed(self.cluster)
        self._around()
        for _ in range(3):
            await asyncio.sleep(0)

    async def rounds(self, most: int = 80, until: Callable[[], bool] | None = None) -> None:
        """Go on until what is written down has ended, or something else is so."""
        for _ in range(most):
            if until() if until is not None else self.campaign is not None and self.campaign.ended:
                return
            await self.round()

    def _around(self) -> None:
        """Bind pods that have their devices, end those that were evicted, and make others instead."""
        snapshot = self.cluster.snapshot
        for pod in tuple(snapshot.pods.values()):
            left = self._ending.get(pod.uid)
            if left is not None:
                self._ending[pod.uid] = left - 1
                if left <= 0:
                    del self._ending[pod.uid]
                    ends(self.cluster, pod.name)
            elif pod.node is None and not pod.deleting:
                [claim] = snapshot.named_claims(pod)
                if claim is not None and claim.allocation is not None and claim.allocation.node is not None:
                    starts(self.cluster, pod.name, claim.allocation.node)

    async def _living(self, acting: Any) -> None:
        """Await an act of the leader; where that kills it another one takes over."""
        try:
            await acting
        except Killed:
            self.dies_at = -1
            self.lead()

    def _reader(self) -> MovableReader:
        return MovableReader(
            self.cluster.snapshot,
            self.cycle.decider.candidates,
            self.cluster.seconds(),
            Scope(unattended=True),
        )

    def _act(self) -> tuple[bool, bool]:
        """Count an act; says whether the leader dies before it, and after it."""
        dies = self.acts == self.dies_at
        self.acts += 1
        return dies and not self.dies_after, dies and self.dies_after

    async def _write(self, found: DefragPolicy, campaign: Campaign) -> bool:
        before, after = self._act()
        if before:
            raise Killed
        raw = copy.deepcopy(self.cluster.objects["DefragPolicy", "", found.metadata.name])
        raw["status"] = {"campaign": campaign.to_json()}
        self.cluster.see(DEFRAGS, raw)
        if after:
            raise Killed
        return True

    # What evicts. -----------------------------------------------------------------------------------------------

    async def refusal(self, pods: Sequence[Pod]) -> Refused | None:
        found = [pod for pod in pods if pod.name in self.protected]
        return Refused(found[0], "PodDisruptionBudget keep needs it") if found else None

    async def evict(self, pod: Pod) -> Refused | None:
        before, after = self._act()
        if before:
            raise Killed
        self._check(pod)
        if pod.uid not in self.evicted:
            self.evicted.append(pod.uid)
        raw = copy.deepcopy(self.cluster.objects["Pod", "team", pod.name])
        raw["metadata"]["deletionTimestamp"] = self.cluster.time()
        self.cluster.see(PODS, raw)
        self._ending[pod.uid] = self.linger
        if self.successors:
            self._number += 1
            owner = raw["metadata"]["ownerReferences"][0]
            profile = raw["metadata"]["labels"]["profile"]
            makes(self.cluster, f"anew-{self._number}", profile, owner=owner["name"])
        if after:
            raise Killed
        return None

    def _check(self, pod: Pod) -> None:
        """Check what must hold whenever a pod is evicted: it is written down, and both of its places are held."""
        assert pod.uid not in self.evicted or not self._ending, "evicted twice"
        campaign = self.campaign
        assert campaign is not None
        assert campaign.ended is None
        [move] = [each for each in campaign.moves if each.uid == pod.uid]
        assert move.phase == "Evicting"
        assert {*devices_of(move.target.devices), *devices_of(move.source.devices)} <= self.held
        state = self.cluster.snapshot.state
        assert all(state.holders(device) == (KEY,) for device in devices_of(move.target.devices))


def scattered(client: Client, **more: Any) -> Moving:
    """Return two cards with a small partition on each, and a policy that wants a whole card."""
    cluster = cards()
    runs(cluster, "a", "n1", "1g.10gb", 3)
    runs(cluster, "b", "n2", "1g.10gb", 0)
    policy(cluster)
    return Moving(cluster, client, **more)


def crowded(client: Client, **more: Any) -> Moving:
    """Return three cards, of which two pods have to move so that one is free."""
    cluster = cards(3)
    for number, start in enumerate((0, 1)):
        runs(cluster, f"a{number}", "n1", "1g.10gb", start)
    for node in ("n2", "n3"):
        for number, start in enumerate((0, 1, 2)):
            runs(cluster, f"{node}-{number}", node, "1g.10gb", start, owner=node)
    policy(cluster)
    return Moving(cluster, client, **more)


def cordon(trial: Moving, node: str) -> None:
    """Let nobody be put on a node any more."""
    raw = trial.cluster.objects["Node", "", node]
    raw["spec"] = {"unschedulable": True}
    trial.cluster.see(NODES, raw)
