"""A replica acts only on what is true now, and does not keep the lease when it cannot act."""

import asyncio
import time
from datetime import UTC, datetime

import pytest
from aiohttp import web
from prometheus_client import REGISTRY

from apportion.app import App
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, LAYOUTS, PARTITIONS, SLICES, ResourceKind
from apportion.cluster.lease import Lease
from apportion.settings import CycleSettings, LeaseSettings, OperatorSettings
from testbed.beside import beside
from testbed.eventually import eventually
from tests.cluster.apiserver import ApiServer, failed
from tests.cluster.replica import (
    LEASE,
    NAMESPACE,
    claim,
    devices,
    elsewhere,
    hold,
    holder,
    replica,
    two_devices,
)
from tests.observedcluster import ObservedCluster


async def allocated(server: ApiServer) -> dict[str, str]:
    return devices(server)


@pytest.mark.slow
@pytest.mark.parametrize(("given", "left"), [("gpu-0", "gpu-1"), ("gpu-1", "gpu-0")])
async def test_a_stand_by_whose_watch_hangs_does_not_give_away_what_its_predecessor_gave(
    server: ApiServer, given: str, left: str
) -> None:
    """Every claim was observed, one of them in a version before its allocation."""
    hold(server, "predecessor")
    first, _ = claim(server, "first"), claim(server, "second")
    async with replica(server) as app:
        await eventually(lambda: known(app.snapshot.claims), lambda found: found == 2)
        await server.hang(CLAIMS)
        ObservedCluster().allocate(first, "n1", given)
        server.put(CLAIMS, first)
        hold(server, "")
        await eventually(lambda: allocated(server), lambda found: len(found) == 2)
        assert devices(server) == {"first": given, "second": left}


@pytest.mark.slow
async def test_a_stand_by_whose_slices_are_old_does_not_give_away_what_is_gone(server: ApiServer) -> None:
    """Not only claims decide what is free."""
    hold(server, "predecessor")
    claim(server, "only")
    async with replica(server) as app:
        await eventually(lambda: known(app.snapshot.slices), lambda found: found == 1)
        await server.hang(SLICES)
        server.put(SLICES, ObservedCluster().slice("n1", "s", {"devices": [{"name": "gpu-1"}]}, 1))
        hold(server, "")
        await eventually(lambda: allocated(server))
        assert devices(server) == {"only": "gpu-1"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PARTITIONS, LAYOUTS], ids=lambda kind: kind.plural)
async def test_a_replica_that_misses_a_kind_leaves_the_lease_to_others(
    server: ApiServer, kind: ResourceKind
) -> None:
    """It is not ready and says which kind it waits for; when the kind is served, it acts, and watches it."""
    server.unserved.add(kind)
    claim(server, "only")
    async with replica(server) as app:
        await eventually(lambda: known(app.snapshot.claims))
        await asyncio.sleep(1.0)
        assert holder(server) == ""
        assert kind.plural in str(app.fitness.unready())
        server.unserved.clear()
        await eventually(lambda: allocated(server))
        assert app.fitness.unready() is None
        server.put(kind, {"metadata": {"name": "late"}, "spec": {}})
        await eventually(lambda: known(app.snapshot.broken))


@pytest.mark.slow
async def test_a_leader_that_cannot_act_gives_the_lease_back(server: ApiServer) -> None:
    """Another replica may reach a better server; the process lives, and acts as soon as it can."""
    claim(server, "only")
    server.fault = lambda request: failed(503, "later") if request.query.get("limit") == "1" else None
    term = LeaseSettings(duration=4.0, renew=0.2, reserve=0.5, acting=3.0)
    async with replica(server, term) as app:
        await eventually(lambda: holds(server), lambda found: found == "replica")
        await eventually(lambda: holds(server), lambda found: found == "")
        assert not app.lease.gained.is_set()
        server.fault = lambda _: None
        await eventually(lambda: allocated(server), within=40)


@pytest.mark.slow
async def test_a_stand_by_looks_at_the_lease_twice_a_second(server: ApiServer) -> None:
    """The term of a dead leader counts from when its last renewal was seen."""
    hold(server, "predecessor")
    slept: list[float] = []

    async def note(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0.01)

    stand_by = Lease(
        namespace=NAMESPACE,
        name=LEASE,
        identity="stand-by",
        clock=time.monotonic,
        now=lambda: datetime.now(UTC),
        sleep=note,
    )

    async def looks() -> int:
        return len(slept)

    async with server.client() as client, beside(stand_by.run(client)):
        await eventually(looks, lambda found: found > 10)
    assert max(slept) <= 0.5


@pytest.mark.slow
async def test_a_replica_that_ends_gives_the_lease_back(server: ApiServer) -> None:
    """Another one leads at once: nothing that this one wrote is unknown."""
    claim(server, "only")
    async with replica(server):
        await eventually(lambda: allocated(server))
        assert holder(server) == "replica"
    assert holder(server) == ""


@pytest.mark.slow
async def test_a_replica_that_ends_is_not_taken_for_one_that_cannot_act(server: ApiServer) -> None:
    """It has led for longer than a replica may lead without acting, and the thread of its lease looks at it as it ends."""

    async def busy_when_it_no_longer_acts() -> None:
        await eventually(leads, lambda leads: leads == 1)
        while await leads():  # noqa: ASYNC110 - it has to see each turn of the loop
            await asyncio.sleep(0)
        time.sleep(0.5)  # noqa: ASYNC251 - a loop that is busy for as long

    async with replica(server, LeaseSettings(renew=0.1, acting=3.0)):
        busy = asyncio.ensure_future(busy_when_it_no_longer_acts())
        await eventually(leads, lambda leads: leads == 1)
        await asyncio.sleep(3.5)
    await busy
    assert holder(server) == ""


@pytest.mark.slow
async def test_a_replica_that_cannot_withdraw_a_write_lets_the_lease_run_out(server: ApiServer) -> None:
    """The write may be carried out later: a replica that led at once would give its devices to another claim."""
    claim(server, "only")
    patched: list[str] = []

    def lost(request: web.Request) -> web.Response | None:
        if request.method != "PATCH" or "/resourceclaims/" not in request.path:
            return None
        patched.append(request.path)
        finalizer = len(patched) == 1
        return None if finalizer else failed(500, "lost")

    async def sent() -> bool:
        return any(path.endswith("/status") for path in patched)

    server.fault = lost
    # It does not renew, so that it may soon write no more.
    async with replica(server, LeaseSettings(duration=6.0, renew=60.0, reserve=1.0)):
        await eventually(sent)
    assert not devices(server)
    assert holder(server) == "replica"


QUICK = LeaseSettings(duration=3.0, renew=0.2, reserve=0.5)


@pytest.mark.slow
async def test_a_stand_by_that_waited_long_keeps_the_lease(server: ApiServer) -> None:
    """It has made no pass for longer than a leader may: nobody asked it to."""
    hold(server, "predecessor")
    passes = CycleSettings(stuck=4.5, quiet=1.5, longest=1.5, idle=0.5)
    async with replica(server, LeaseSettings(renew=0.2, reserve=0.5), passes) as app:
        await asyncio.sleep(5.0)
        hold(server, "")
        async with asyncio.timeout(60):
            await app.lease.gained.wait()
        await asyncio.sleep(2.0)
        assert app.lease.held() > 1.5


@pytest.mark.slow
async def test_a_leader_that_is_stuck_gives_the_lease_back() -> None:
    """Its thread would renew for ever what the replica cannot use."""
    async with elsewhere(ApiServer()) as server:
        two_devices(server)
        claim(server, "only")
        async with replica(server, QUICK, CycleSettings(stuck=2.0, idle=0.3)) as app:
            await eventually(lambda: allocated(server))
            # The answer to the write has to be read too: with an open write the lease would run out instead.
            await eventually(lambda: settled(app))
            end = time.monotonic() + 60.0
            while holder(server):
                sum(range(1000))
                assert time.monotonic() < end, "it has the lease for ever"
            async with asyncio.timeout(60):
                await app.lease.lost.wait()


@pytest.mark.slow
async def test_a_part_that_fails_ends_the_operator_and_says_why(server: ApiServer) -> None:
    """Not as one of several exceptions without a name, and nothing is left behind that would kill the thread later, as kopf does."""

    async def refuse() -> Client:
        raise ValueError("no certificate")

    async with server.client() as client:
        app = App(OperatorSettings(health_port=0), client, (1, 37), asyncio.Event(), connect=refuse)
        with pytest.raises(ExceptionGroup) as failure:
            await app.run()
    assert [str(error) for error in failure.value.exceptions] == ["lease failed: ValueError no certificate"]
    # Should the end itself not come to an end, kubelet ends the process.
    assert app.fitness.unhealthy() == "lease failed: ValueError no certificate"
    timers: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined] # asyncio tells its timers nowhere else
    assert not [each for each in timers if "pthread_kill" in repr(each) and not each.cancelled()]


async def settled(app: App) -> bool:
    return not app._writes.open


async def leads() -> float:
    return REGISTRY.get_sample_value("apportion_leading") or 0.0


async def holds(server: ApiServer) -> str:
    return holder(server)


async def known(objects: object) -> int:
    return len(objects)  # type: ignore[arg-type]
