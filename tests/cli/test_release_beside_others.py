"""`apportion release` while others write: an operator that ends or has died, controllers, kubelets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import typer
from aiohttp import web
from typer.testing import CliRunner, Result

from apportion.cli.release import release
from apportion.cluster.kinds import CLAIMS, LAYOUTS, LEASES, PODS, ResourceKind
from testbed.beside import beside
from tests.cli.test_release_in_use import OURS, claim
from tests.cluster.apiserver import ApiServer, Json, failed
from tests.cluster.replica import hold
from tests.cluster.userconfig import config

GATE = {"name": "apportion.dev/allocation"}
app = typer.Typer()
app.command()(release)
Change = Callable[[Json], Json]


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """Serve a claim with our finalizer and a pod with our gate."""
    async with ApiServer().serving() as made:
        made.put(CLAIMS, claim("c", [OURS], allocated=False))
        gates = {"schedulingGates": [{"name": "example.com/other"}, GATE]}
        made.put(PODS, {"metadata": {"name": "p", "namespace": "team"}, "spec": gates})
        yield made


async def run(server: ApiServer, folder: Path, *options: str) -> Result:
    arguments = ["--kubeconfig", str(config(folder, server)), *options]
    return await asyncio.to_thread(CliRunner().invoke, app, arguments)


def finalizers(server: ApiServer) -> list[str]:
    found: list[str] = server.get(CLAIMS, "c", "team")["metadata"]["finalizers"]
    return found


async def renew(server: ApiServer, seconds: float) -> None:
    while True:
        hold(server, "somebody", 60)
        await asyncio.sleep(seconds)


async def test_an_operator_that_acts_would_make_anew_what_is_removed(
    server: ApiServer, tmp_path: Path
) -> None:
    """It renews its lease, and nothing is done."""
    async with beside(renew(server, 0.4)):
        done = await run(server, tmp_path)
    assert done.exit_code == 2
    assert "held by somebody: stop the operator first" in " ".join(done.output.split())
    assert finalizers(server) == [OURS]


async def test_an_operator_in_another_namespace_is_found(server: ApiServer, tmp_path: Path) -> None:
    """A chart may be installed anywhere, and a namespace be mistyped: it acted on, and its layouts, gates and finalizers were removed under it."""
    layout = {"metadata": {"name": "l"}, "spec": {"partitions": [{"profile": "3g.40gb", "count": 1}]}}
    server.put(LAYOUTS, layout)
    async with beside(renew(server, 0.4)):
        done = await run(server, tmp_path, "-n", "aportion-system")
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert "lease apportion-system/apportion-operator is held by somebody: stop the operator first" in said
    assert finalizers(server) == [OURS]
    assert [each["metadata"]["name"] for each in server.all(LAYOUTS)] == ["l"]
    server.drop(LEASES, "apportion-operator", "apportion-system")
    assert (await run(server, tmp_path, "-n", "aportion-system")).exit_code == 0


async def test_an_operator_that_died_keeps_nobody_from_it(server: ApiServer, tmp_path: Path) -> None:
    """Its Lease has its name for ever; nobody writes once its term is over."""
    hold(server, "killed", 2)
    began = asyncio.get_running_loop().time()
    done = await run(server, tmp_path)
    assert done.exit_code == 0, done.output
    assert asyncio.get_running_loop().time() - began > 2
    assert finalizers(server) == []


async def test_an_operator_that_is_about_to_end_is_waited_for(server: ApiServer, tmp_path: Path) -> None:
    """`kubectl scale` returns before its pods have ended."""

    async def end() -> None:
        await asyncio.sleep(0.7)
        hold(server, "ends", 30)
        await asyncio.sleep(0.7)
        hold(server, "")
        await asyncio.Event().wait()

    hold(server, "ends", 30)
    async with beside(end()):
        done = await run(server, tmp_path)
    assert done.exit_code == 0, done.output
    assert finalizers(server) == []


def labelled(raw: Json) -> Json:
    return {**raw, "metadata": {**raw["metadata"], "labels": {"a": "b"}}}


def without_the_other_gate(raw: Json) -> Json:
    return {**raw, "spec": {"schedulingGates": [GATE]}}


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        (CLAIMS, "c", labelled),
        (PODS, "p", labelled),
        (PODS, "p", without_the_other_gate),
    ],
)
async def test_who_was_first_to_write_an_object_does_not_end_it(
    server: ApiServer, tmp_path: Path, kind: ResourceKind, name: str, change: Change
) -> None:
    """The object is read once more."""

    def write_first(request: web.Request) -> web.Response | None:
        if request.method == "PATCH" and request.path.startswith(kind.path(name, namespace="team")):
            server.fault = lambda _: None
            server.put(kind, change(server.get(kind, name, "team")))
        return None

    server.fault = write_first
    done = await run(server, tmp_path)
    assert done.exit_code == 0, done.output
    assert "1 gates opened, 1 finalizers dropped" in " ".join(done.output.split())
    assert finalizers(server) == []
    assert GATE not in server.get(PODS, "p", "team")["spec"]["schedulingGates"]


async def test_a_server_that_does_not_answer_for_a_moment_does_not_end_it(
    server: ApiServer, tmp_path: Path
) -> None:
    """As with lists; one that goes on is the end of it."""
    faults = [failed(500, "etcdserver: leader changed")] * 2

    def fault(request: web.Request) -> web.Response | None:
        return faults.pop() if request.method == "PATCH" and faults else None

    server.fault = fault
    done = await run(server, tmp_path)
    assert done.exit_code == 0, done.output
    assert finalizers(server) == []
    server.put(CLAIMS, claim("c", [OURS], allocated=False))
    server.fault = lambda request: failed(500, "no leader") if request.method == "PATCH" else None
    done = await run(server, tmp_path)
    assert done.exit_code == 2
    assert "no leader" in done.output


@pytest.mark.parametrize("status", [400, 403, 422, 500])
async def test_what_a_webhook_of_others_refuses_is_named_and_keeps_nothing_else(
    server: ApiServer, tmp_path: Path, status: int
) -> None:
    """One pod and one claim whose writes are refused: the gates and finalizers of all others stayed, and all layouts and Partitions."""
    for number in range(3):
        server.put(CLAIMS, claim(f"b{number}", [OURS], allocated=False))
        gated = {"schedulingGates": [GATE]}
        server.put(PODS, {"metadata": {"name": f"o{number}", "namespace": "team"}, "spec": gated})
    layout = {"metadata": {"name": "l"}, "spec": {"partitions": [{"profile": "3g.40gb", "count": 1}]}}
    server.put(LAYOUTS, layout)

    def fault(request: web.Request) -> web.Response | None:
        own = request.path.endswith(("/pods/o1", "/resourceclaims/b1"))
        denied = failed(status, "admission webhook of others denied it")
        return denied if request.method == "PATCH" and own else None

    server.fault = fault
    done = await run(server, tmp_path)
    said = " ".join(done.output.split())
    assert done.exit_code == 1, said
    assert "3 gates opened, 3 finalizers dropped" in said
    assert f"left: pod team/o1, whose gate stays: PATCH /api/v1/namespaces/team/pods/o1: {status}" in said
    assert "left: claim team/b1, whose finalizer stays: PATCH" in said
    assert server.all(LAYOUTS) == []
    gates = {each["metadata"]["name"]: each["spec"]["schedulingGates"] for each in server.all(PODS)}
    assert [name for name, found in gates.items() if GATE in found] == ["o1"]
