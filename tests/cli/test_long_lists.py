"""What commands read of a large cluster: in parts, and all of it."""

import asyncio
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
from aiohttp import web
from typer.testing import CliRunner, Result

from apportion.__main__ import app
from apportion.cluster.kinds import CLAIMS, PODS, ResourceKind
from tests.cli.test_release_in_use import OURS, claim
from tests.cluster.apiserver import ApiServer, failed
from tests.cluster.userconfig import config

COUNT = 1_200


async def run(server: ApiServer, folder: Path, *words: str) -> Result:
    arguments = [*words, "--kubeconfig", str(config(folder, server))]
    return await asyncio.to_thread(CliRunner().invoke, app, arguments)


def pods(server: ApiServer) -> set[str]:
    names = {f"p{number}" for number in range(COUNT)}
    for name in names:
        metadata = {"name": name, "namespace": "team"}
        server.put(PODS, {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}})
    return names


def version(request: web.Request) -> web.Response | None:
    return (
        web.json_response({"major": "1", "minor": "37", "gitVersion": "v1.37.0"})
        if request.path == "/version"
        else None
    )


def lists(server: ApiServer, kind: ResourceKind) -> list[list[str]]:
    """Return how many objects of a kind each list asked for."""
    paths = [urlsplit(path) for method, path in server.requests if method == "GET"]
    return [parse_qs(found.query).get("limit", []) for found in paths if found.path == kind.path()]


def read_pods(done: Result) -> list[str]:
    items = orjson.loads(done.stdout)["items"]
    return [each["metadata"]["name"] for each in items if each["kind"] == "Pod"]


async def test_pods_are_read_in_parts(tmp_path: Path) -> None:
    """Each answer is of a size that a server gives in time, and that either side can hold."""
    async with ApiServer().serving() as server:
        names, server.fault = pods(server), version
        done = await run(server, tmp_path, "snapshot")
        assert done.exit_code == 0, done.output
        assert sorted(read_pods(done)) == sorted(names)
        assert lists(server, PODS) == [["500"]] * 3


async def test_a_list_that_the_server_has_given_up_is_begun_anew(tmp_path: Path) -> None:
    """No object comes twice, and none is missing."""
    async with ApiServer().serving() as server:
        names = pods(server)

        def fault(request: web.Request) -> web.Response | None:
            given_up = request.path == PODS.path() and request.query.get("continue") == "1000"
            return failed(410, "the continue token has expired") if given_up else version(request)

        server.fault = fault
        done = await run(server, tmp_path, "snapshot")
        assert done.exit_code == 0, done.output
        assert sorted(read_pods(done)) == sorted(names)


@pytest.mark.parametrize("kind", [PODS, CLAIMS])
async def test_a_list_without_items_is_an_empty_one(tmp_path: Path, kind: ResourceKind) -> None:
    """Go writes one as null."""

    def fault(request: web.Request) -> web.Response | None:
        empty = {"metadata": {"resourceVersion": "1"}, "items": None}
        return web.json_response(empty) if request.path == kind.path() else version(request)

    async with ApiServer().serving() as server:
        server.fault = fault
        for command in ("snapshot", "release"):
            done = await run(server, tmp_path, command)
            assert done.exit_code == 0, done.output


async def test_finalizers_of_all_claims_are_dropped(tmp_path: Path) -> None:
    """Those of the last part, too."""
    async with ApiServer().serving() as server:
        for number in range(COUNT):
            server.put(CLAIMS, claim(f"c{number}", [OURS], allocated=False))
        done = await run(server, tmp_path, "release")
        assert f"{COUNT} finalizers dropped" in done.output
        asked = lists(server, CLAIMS)
        assert len(asked) > 2
        assert asked == [["500"]] * len(asked)
