"""Allocations that are written through a faulty proxy to a real API server, and what a snapshot knows of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from apportion.cluster.client import Client, connect
from apportion.cluster.kinds import CLAIMS
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.selection import NodeSelector
from apportion.errors import NotLeading
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.writing.backgroundwrites import BackgroundWrites
from apportion.scheduling.writing.writer import Writer
from testbed.cycle import now
from testbed.eventually import eventually
from testbed.faultyproxy import Fault, FaultyProxy, Rule
from tests.observedcluster import ObservedCluster
from tests.scheduling import written

DEVICE = DeviceId("d.example.com", "n1", "dev")
STATUS = "/resourceclaims/c/status"
HELD = 60.0
"""Seconds for which requests and answers are held at most: longer than all that a test does until it lets them go."""


@dataclass
class Allocating:
    """One claim on the server, and the operator's side of it: snapshot and writes."""

    server: Client
    """As administrator, past the proxy."""
    proxy: FaultyProxy
    namespace: str
    claim: Claim
    proxied: Client
    world: ObservedCluster = field(default_factory=ObservedCluster)
    leads: bool = True

    def __post_init__(self) -> None:
        """Make the operator's side."""
        writer = Writer(self.proxied, fence=self._fence, now=now)
        recorder = self.world.recorder(self.proxied)
        self.writes = BackgroundWrites(
            self.world.snapshot, writer, recorder, clock=self.world.clock, wake=lambda: None
        )

    def _fence(self) -> None:
        if not self.leads:
            raise NotLeading("no")

    def begin(self) -> None:
        """Decide for the claim, and begin to write."""
        answer = Allocation((DeviceResult("r", DEVICE),), node_selector=NodeSelector.of_name("n1"))
        claim = self.world.snapshot.claims[self.claim.uid]
        self.world.snapshot.assume(claim, answer)
        self.writes.write(WaitingDemand((claim,)), [(claim, answer)], since=None)

    async def write(self, *faults: Fault) -> None:
        """Decide and write, while these faults happen to the write of the status; return when all is finished."""
        self._fault(*faults)
        self.begin()
        await self.writes.finished()

    async def write_unanswered(self, fault: Fault) -> None:
        """Decide and write, while this fault happens to the write of the status; return when the client has given up."""
        self._fault(fault)
        self.begin()

        async def unknown() -> int:
            return self.writes.unknown

        await eventually(unknown)
        self.proxy.rules.clear()

    async def withdraw(self) -> None:
        """Let a pass go on with what is unknown, when it is due."""
        self.world.clock.now += 60
        self.writes.settle()
        await self.writes.answered()

    async def holds_request(self) -> bool:
        """Say whether a request of the status has come that is held."""
        return self.proxy.faults[Fault.HOLD_REQUEST] > 0

    async def held_request_ended(self) -> bool:
        """Say whether the request of the status that was held has been handed on and answered."""
        return any(STATUS in request for request in self.proxy.answered)

    def _fault(self, *faults: Fault) -> None:
        self.proxy.rules[:] = [Rule(fault, "PATCH", STATUS, seconds=HELD) for fault in faults]

    async def see(self) -> Claim:
        """Let the watch show the claim as it is now."""
        raw = await self.server.get(CLAIMS, "c", namespace=self.namespace)
        self.world.snapshot.observe(CLAIMS, "MODIFIED", raw)
        return Claim.from_json(raw)

    async def take_back(self) -> None:
        """Clear the allocation as kube-scheduler does."""
        body = {"status": {"allocation": None}}
        await self.server.patch(CLAIMS, "c", body, namespace=self.namespace, sub="status")

    @property
    def charged(self) -> bool:
        """Whether the device counts as taken."""
        return bool(self.world.snapshot.state.holders(DEVICE))


@asynccontextmanager
async def made_on(
    server: Client, kubeconfig: Path, namespace: str, folder: Path, *, patience: float
) -> AsyncIterator[Allocating]:
    """Make a claim, and let the operator's side know it; its client gives up after `patience` seconds."""
    claim = await written.claim(server, namespace)
    async with (
        FaultyProxy(kubeconfig) as proxy,
        await connect(
            proxy.kubeconfig(folder / "proxied"), patience=patience, manager="apportion-operator"
        ) as proxied,
    ):
        made = Allocating(server, proxy, namespace, claim, proxied)
        await made.see()
        yield made
