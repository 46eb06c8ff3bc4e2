"""Writes that a webhook refuses with 409, as if somebody else had changed the claim: nobody has, and no later version ever comes."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.allocation import Allocation
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.preemption.evictor import Evictor
from tests.cluster.apiserver import ApiServer, Json, failed
from tests.observedcluster import ObservedCluster
from tests.scheduling.test_gate_and_clearing import writing

DEVICE = {"request": "gpu", "driver": "d", "pool": "n1", "device": "gpu-0"}
ANSWER = Allocation.from_json({"devices": {"results": [DEVICE]}})


def refused_by_a_webhook(_request: web.Request) -> web.Response:
    return failed(409, 'admission webhook "claims.example.com" denied the request')


@dataclass
class Deciding:
    """One claim that is decided about, and written to a server."""

    server: ApiServer
    client: Client
    world: ObservedCluster = field(default_factory=ObservedCluster)

    def __post_init__(self) -> None:
        """Make the claim and the operator's side of it."""
        self.raw = self.server.put(CLAIMS, self.world.claim("c"))
        self.world.snapshot.observe(CLAIMS, "MODIFIED", self.raw)
        self.writes = writing(self.world, self.client)

    async def write(self) -> None:
        """Decide, and write until the answer is there."""
        value = self.world.claim_value(self.raw)
        self.world.snapshot.assume(value, ANSWER)
        self.writes.write(WaitingDemand((value,)), [(value, ANSWER)], since=None)
        await self.writes.answered()

    async def settle(self) -> None:
        """Let a pass go on with what is unknown, when it is due."""
        self.world.clock.now += 60
        self.writes.settle()
        await self.writes.answered()

    def see(self) -> Json:
        """Let the watch show the claim as it is now."""
        self.raw = self.server.get(CLAIMS, "c", "team")
        self.world.snapshot.observe(CLAIMS, "MODIFIED", self.raw)
        return self.raw

    @property
    def charged(self) -> bool:
        """Whether the device counts as taken."""
        return bool(self.world.snapshot.state.holders(ANSWER.results[0].device))


@pytest.fixture
async def deciding() -> AsyncIterator[Deciding]:
    async with ApiServer().serving() as server, server.client() as client:
        yield Deciding(server, client)


def at(
    part: str, answer: Callable[[web.Request], web.Response]
) -> Callable[[web.Request], web.Response | None]:
    """Answer patches whose path has this part."""
    return lambda request: answer(request) if request.method == "PATCH" and part in request.path else None


async def test_devices_of_an_allocation_that_admission_refuses_are_free(deciding: Deciding) -> None:
    """They stayed taken for as long as the operator ran; the claim is served as soon as the webhook lets it."""
    deciding.server.fault = at("/status", refused_by_a_webhook)
    await deciding.write()
    deciding.see()
    await deciding.settle()
    deciding.see()
    assert not deciding.charged
    assert not deciding.writes.open
    deciding.server.fault = lambda _: None
    await deciding.write()
    assert deciding.see()["status"]["allocation"]
    assert deciding.charged


async def test_devices_of_a_conflict_are_kept_until_the_watch_shows_the_other_version(
    deciding: Deciding,
) -> None:
    """The conflict may be with the same request, which was sent twice."""

    def carried_out(_request: web.Request) -> web.Response:
        raw = deciding.server.get(CLAIMS, "c", "team")
        deciding.server.put(CLAIMS, {**raw, "status": {"allocation": ANSWER.to_json()}})
        return failed(409, "the object has been modified")

    deciding.server.fault = at("/status", carried_out)
    await deciding.write()
    await deciding.settle()
    assert deciding.charged
    assert deciding.see()["status"]["allocation"]
    assert deciding.charged
    assert deciding.writes.unknown == 0


async def test_a_claim_that_was_made_anew_does_not_keep_devices(deciding: Deciding) -> None:
    """The conflict is with the UID; what was deleted nobody allocates any more."""
    deciding.server.fault = at("/status", refused_by_a_webhook)
    await deciding.write()
    deciding.server.drop(CLAIMS, "c", "team")
    deciding.server.put(CLAIMS, deciding.world.claim("c", uid="another"))
    await deciding.settle()
    deciding.world.snapshot.observe(CLAIMS, "DELETED", deciding.raw)
    deciding.see()
    assert not deciding.charged


@pytest.mark.parametrize(
    ("metadata", "stays"),
    [
        ({"uid": "uid-team-pods-p"}, True),
        ({"uid": "another"}, False),
        ({"uid": "uid-team-pods-p", "deletionTimestamp": "now"}, False),
    ],
)
async def test_a_pod_whose_eviction_admission_refuses_stays(
    deciding: Deciding, metadata: Json, *, stays: bool
) -> None:
    """Its devices were held for the demand as if it went; a pod of another UID, or one that goes, is no reason to wait."""
    pod = deciding.world.pod_value(deciding.world.pod("p"))
    deciding.server.put(PODS, {"metadata": {"name": "p", "namespace": "team", **metadata}})
    deciding.server.fault = lambda request: (
        refused_by_a_webhook(request) if "eviction" in request.path else None
    )
    refused = await Evictor(deciding.client, fence=lambda: None).evict(pod)
    assert (refused is not None) == stays
    assert refused is None or "claims.example.com" in refused.reason


async def test_a_withdrawal_that_admission_refuses_is_repeated(deciding: Deciding) -> None:
    """The allocation was not answered and may come, as long as the claim has the version on which it depends."""
    deciding.server.fault = at("/status", lambda _: web.Response(status=504))
    await deciding.write()
    deciding.see()
    deciding.server.fault = at("", refused_by_a_webhook)
    await deciding.settle()
    assert deciding.writes.unknown == 1
    assert deciding.charged
    deciding.server.fault = lambda _: None
    await deciding.settle()
    deciding.see()
    assert deciding.writes.unknown == 0
    assert not deciding.charged
