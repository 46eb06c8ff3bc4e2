"""The faulty proxy before a real API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from testbed.api import Api, Json
from testbed.beside import beside
from testbed.controlplane import ControlPlane
from testbed.errors import ApiError
from testbed.eventually import eventually
from testbed.faultyproxy import Fault, FaultyProxy, Rule

OWN = "metadata.name!=kube-root-ca.crt"
"""Selects the maps of the test: controller-manager makes one in every namespace."""


@pytest.fixture
async def proxy(control_plane: ControlPlane) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(control_plane.kubeconfig) as made:
        yield made


@pytest.fixture
async def api(proxy: FaultyProxy, tmp_path: Path) -> AsyncIterator[Api]:
    async with Api.of(proxy.kubeconfig(tmp_path / "kubeconfig")) as made:
        yield made


@pytest.fixture
def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def a_map(name: str = "m") -> Json:
    return {"metadata": {"name": name}, "data": {"a": "0"}}


async def test_what_no_rule_names_passes(api: Api, maps: str) -> None:
    """With the certificate of the kubeconfig, and the server's own refusals."""
    await api.create(maps, a_map())
    with pytest.raises(ApiError, match="already exists"):
        await api.create(maps, a_map())
    assert (await api.get(f"{maps}/m"))["data"] == {"a": "0"}


async def test_a_long_answer_passes(api: Api, maps: str) -> None:
    """The server compresses answers from 128 KiB on."""
    text = "0" * 300_000
    await api.create(maps, {"metadata": {"name": "m"}, "data": {"a": text}})
    found, _ = await api.items(maps, fieldSelector="metadata.name=m")
    assert found[0]["data"] == {"a": text}


async def test_a_token_is_handed_on(control_plane: ControlPlane, tmp_path: Path) -> None:
    """A user of the proxy keeps the rights of its own account."""
    account = await control_plane.service_account_kubeconfig("default", "default")
    async with (
        FaultyProxy(account) as proxy,
        Api.of(proxy.kubeconfig(tmp_path / "kubeconfig")) as api,
    ):
        with pytest.raises(ApiError, match="system:serviceaccount:default:default"):
            await api.get("/api/v1/nodes")


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.FAIL, Fault.GARBLE])
async def test_an_answer_is_lost_after_the_commit(
    proxy: FaultyProxy, api: Api, maps: str, fault: Fault
) -> None:
    """The server has carried out what the client believes to have failed."""
    proxy.rules = [Rule(fault, "POST", times=1)]
    said: Json = {}
    with suppress(ApiError, aiohttp.ClientError, ValueError):
        said = await api.create(maps, a_map())
    assert "metadata" not in said
    assert (await api.get(f"{maps}/m"))["metadata"]["name"] == "m"
    assert proxy.faults == {fault: 1}


@pytest.mark.parametrize(("fault", "status"), [(Fault.THROTTLE, 429), (Fault.EXPIRE, 410)])
async def test_a_refusal_of_the_proxy_is_not_handed_on(
    proxy: FaultyProxy, api: Api, maps: str, fault: Fault, status: int
) -> None:
    """The server never hears of it."""
    proxy.rules = [Rule(fault, "POST")]
    with pytest.raises(ApiError) as refusal:
        await api.create(maps, a_map())
    assert refusal.value.status == status
    assert await api.find(f"{maps}/m") is None


async def test_a_held_request_is_carried_out_after_its_client_has_gone(
    proxy: FaultyProxy, api: Api, maps: str
) -> None:
    """As one that waits in a buffer on the way."""
    proxy.rules = [Rule(Fault.HOLD_REQUEST, "POST", seconds=60)]
    async with beside(create(api, maps, "m")):
        await eventually(lambda: happened(proxy, Fault.HOLD_REQUEST))
    assert await api.find(f"{maps}/m") is None
    proxy.let_go()
    await eventually(lambda: api.find(f"{maps}/m"))


async def create(api: Api, maps: str, name: str) -> None:
    await api.create(maps, a_map(name))


async def happened(proxy: FaultyProxy, fault: Fault) -> int:
    return proxy.faults[fault]


async def test_nothing_comes_through_while_it_is_parted(proxy: FaultyProxy, api: Api, maps: str) -> None:
    """As behind a network that drops packets: requests are lost for good, a watch is silent, and nobody is told."""
    _, version = await api.items(maps, fieldSelector=OWN)
    watch = api.watch(maps, version, fieldSelector=OWN)
    await api.create(maps, a_map("before"))
    assert (await anext(watch))[1]["metadata"]["name"] == "before"
    proxy.part()
    async with beside(create(api, maps, "lost")):
        await asyncio.sleep(0.3)
    proxy.heal()
    await api.create(maps, a_map("after"))
    assert await api.find(f"{maps}/lost") is None
    assert proxy.requests.count(f"POST {maps}") == 2
    assert (await anext(watch))[1]["metadata"]["name"] == "after"


async def test_what_the_server_says_while_it_is_parted_is_lost(
    control_plane: ControlPlane, proxy: FaultyProxy, api: Api, maps: str
) -> None:
    """A watch breaks with its first event after that, and the client lists again."""
    _, version = await api.items(maps, fieldSelector=OWN)
    watch = api.watch(maps, version, fieldSelector=OWN)
    await api.create(maps, a_map("before"))
    await anext(watch)
    proxy.part()
    await control_plane.api.create(maps, a_map("unseen"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await anext(watch)
    proxy.heal()
    assert await api.find(f"{maps}/unseen") is not None


async def test_a_stale_read_is_the_one_before(proxy: FaultyProxy, api: Api, maps: str) -> None:
    """As from a server that lags behind."""
    await api.create(maps, a_map())
    before = await api.get(f"{maps}/m")
    await api.patch(f"{maps}/m", {"data": {"a": "1"}})
    proxy.rules = [Rule(Fault.STALE, "GET", times=1)]
    assert await api.get(f"{maps}/m") == before
    assert (await api.get(f"{maps}/m"))["data"] == {"a": "1"}


async def test_a_watch_breaks_and_begins_with_what_it_has_shown(
    proxy: FaultyProxy, api: Api, maps: str
) -> None:
    """After the restart the client sees old events once more."""
    _, version = await api.items(maps, fieldSelector=OWN)
    made = [await api.create(maps, a_map(name)) for name in ("a", "b", "c")]
    proxy.rules = [Rule(Fault.CUT)]
    with suppress(aiohttp.ClientError):
        async for _ in api.watch(maps, version, fieldSelector=OWN):
            pass
    assert proxy.faults == {Fault.CUT: 1}
    # A client that is slow to read finds the connection broken before the event.
    version = made[0]["metadata"]["resourceVersion"]
    proxy.rules = [Rule(Fault.REPLAY)]
    await api.get(maps, limit="1", fieldSelector=OWN)  # asks for the present version only
    seen = []
    async for _, found in api.watch(maps, version, fieldSelector=OWN):
        seen.append(found["metadata"]["name"])
        if "c" in seen:
            break
    assert seen == ["a", "b", "c"]


async def test_a_watch_that_cannot_go_on_ends_with_an_event(proxy: FaultyProxy, api: Api, maps: str) -> None:
    """As kube-apiserver ends one whose next events etcd has no longer; what came before has come."""
    _, version = await api.items(maps, fieldSelector=OWN)
    await api.create(maps, a_map())
    proxy.rules = [Rule(Fault.END)]
    watch = api.watch(maps, version, fieldSelector=OWN)
    assert (await anext(watch))[0] == "ADDED"
    with pytest.raises(ApiError) as ended:
        await anext(watch)
    assert ended.value.status == 410


async def test_a_fault_that_does_not_happen_does_not_count(proxy: FaultyProxy, api: Api, maps: str) -> None:
    """Nothing is shown again that was never shown, and a request that never arrives has no answer that could be late."""
    _, version = await api.items(maps, fieldSelector=OWN)
    await api.create(maps, a_map())
    proxy.rules = [
        Rule(Fault.REPLAY),
        Rule(Fault.STALE, path="/m$"),
        Rule(Fault.DROP_REQUEST, "PATCH"),
        Rule(Fault.LOSE_ANSWER, "PATCH"),
    ]
    await anext(api.watch(maps, version, fieldSelector=OWN))
    await api.get(f"{maps}/m")
    with pytest.raises(aiohttp.ClientError):
        await api.patch(f"{maps}/m", {"data": {"a": "1"}})
    assert proxy.faults == {Fault.DROP_REQUEST: 1}


async def test_a_watch_is_not_shown_what_another_one_asked_for(
    proxy: FaultyProxy, api: Api, maps: str
) -> None:
    """Two clients follow one path by different selectors, as two agents follow their nodes' Partitions."""
    _, version = await api.items(maps, fieldSelector=OWN)
    for name in ("a", "b"):
        await api.create(maps, a_map(name))
    proxy.rules = [Rule(Fault.REPLAY)]
    for name in ("a", "b"):
        async for _, found in api.watch(maps, version, fieldSelector=f"metadata.name={name}"):
            assert found["metadata"]["name"] == name
            break


async def test_the_seed_draws_the_faults(control_plane: ControlPlane, tmp_path: Path) -> None:
    """The same requests meet the same faults."""

    async def outcomes(seed: int) -> list[bool]:
        rule = Rule(Fault.THROTTLE, "GET", chance=0.5)
        async with (
            FaultyProxy(control_plane.kubeconfig, [rule], seed=seed) as proxy,
            Api.of(proxy.kubeconfig(tmp_path / "kubeconfig")) as api,
        ):
            found = []
            for _ in range(20):
                try:
                    await api.get("/version")
                except ApiError:
                    found.append(False)
                else:
                    found.append(True)
            return found

    first = await outcomes(1)
    assert await outcomes(1) == first
    assert await outcomes(2) != first
