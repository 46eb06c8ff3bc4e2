"""Of two agents of a node one publishes: as in a rolling update of two releases, of which the new one says what the old one does not."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from aiohttp import web
from kubernetes_asyncio.client import Configuration

from apportion.agent.devices.values import Card
from apportion.agent.slices import publisher
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.slices.publisher import Publisher
from apportion.agent.slices.succession import Succession
from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES, SLICES
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.places import DRIVERS, GPU, H100, MakeBackend
from tests.cluster.apiserver import ApiServer, failed


@dataclass(frozen=True, slots=True)
class Update:
    """Two agents, of which the new one knows one attribute more, and the attributes that are published."""

    old: Publisher
    new: Publisher
    server: ApiServer

    @property
    def published(self) -> set[bool]:
        """Whether devices have the new attribute."""
        slices = (each["spec"].get("devices") or () for each in self.server.all(SLICES))
        return {"new" in device["attributes"] for devices in slices for device in devices}


def says(cards: Sequence[Card]) -> Callable[[], Awaitable[NodeInventory]]:
    """Return what an agent knows of the node."""

    async def inventory() -> NodeInventory:
        return NodeInventory(tuple(cards))

    return inventory


def newer(server: ApiServer) -> Client:
    """Return the client of the new agent."""
    return Client(Configuration(host=f"http://127.0.0.1:{server.port}"), patience=5.0, manager="new")


@asynccontextmanager
async def update(folder: Path, make_backend: MakeBackend, *, known: bool = True) -> AsyncIterator[Update]:
    """Give two agents; the new one may not know yet which cards there are."""
    before = make_backend(cards=[H100 | {"count": 8}]).devices()
    after = [replace(card, attributes={**card.attributes, "new": True}) for card in before]
    async with ApiServer().serving() as server, server.client() as client, newer(server) as new_client:
        server.put(NODES, {"metadata": {"name": "n"}})
        with closing(Succession(folder)) as first, closing(Succession(folder)) as second:
            yield Update(
                Publisher(client, "n", DRIVERS, says(before), first),
                Publisher(
                    new_client,
                    "n",
                    DRIVERS,
                    says(after if known else ()),
                    second,
                    unknown=lambda: not known,
                    sleep=lambda seconds: asyncio.sleep(min(seconds, 0.1)),
                ),
                server,
            )


async def test_two_agents_do_not_write_over_each_other(tmp_path: Path, make_backend: MakeBackend) -> None:
    """They wrote new generations of all slices in turns, as long as both were there."""
    async with update(tmp_path, make_backend) as agents:
        assert await agents.old.publish() > 0
        assert await agents.new.publish() > 0
        assert [await each.publish() for each in (agents.old, agents.new) * 2] == [0] * 4
        assert agents.published == {True}


async def test_the_old_one_publishes_until_kubelet_can_call_the_new_one(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """And again where the new one has ended."""
    async with update(tmp_path, make_backend) as agents:
        await agents.old.publish()
        agents.new.withhold([GPU])
        async with beside(agents.new.run()):
            assert await agents.new.publish() == 0
            assert not agents.new.published.is_set()
            assert await agents.old.publish() == 0
            agents.new.offer(GPU)
            await agents.new.published.wait()
            assert agents.published == {True}
            assert await agents.old.publish() == 0
        assert await agents.old.publish() > 0
        assert agents.published == {False}


async def test_the_old_one_goes_on_where_the_new_ones_slices_are_refused(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update that an admission policy does not let through: nobody published the node any more, whose pool was left half written."""
    monkeypatch.setattr(publisher, "_TURN", 0.01)
    taken: list[str] = []

    def fault(request: web.Request) -> web.Response | None:
        if request.method not in ("POST", "PUT") or request.query.get("fieldManager") != "new":
            return None
        taken.append(request.path)
        if len(taken) > 2:
            return failed(422, "it is invalid")
        agents.old.wake()  # the watch tells it
        return None

    async with update(tmp_path, make_backend) as agents:
        agents.server.fault = fault

        async def generations() -> set[int]:
            return {each["spec"]["pool"]["generation"] for each in agents.server.all(SLICES)}

        async with beside(agents.old.run()):
            await agents.old.published.wait()
            async with beside(agents.new.run()):
                await eventually(lambda: asyncio.sleep(0, len(taken)), lambda count: count > 3)
                assert not agents.new.published.is_set()
                await eventually(generations, lambda found: len(found) == 1 and agents.published == {False})
                agents.server.fault = lambda _: None
                await agents.new.published.wait()
                assert agents.published == {True}


async def test_the_old_one_sees_by_itself_that_the_new_one_was_killed(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No watch tells it, and it compares its slices once a minute."""
    monkeypatch.setattr(publisher, "_TURN", 0.01)
    async with update(tmp_path, make_backend) as agents, beside(agents.old.run()):
        await agents.old.published.wait()
        with closing(Succession(tmp_path)) as killed:
            assert killed.is_ours(ready=True)
            agents.server.drop(SLICES, agents.server.all(SLICES)[0]["metadata"]["name"])
            agents.old.wake()
            await asyncio.sleep(0.3)
            left = len(agents.server.all(SLICES))
        await eventually(lambda: asyncio.sleep(0, len(agents.server.all(SLICES))), lambda count: count > left)


async def test_an_agent_that_does_not_know_its_cards_takes_nothing_over(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """It is not ready, and what happens to the cards would be said by nobody."""
    async with update(tmp_path, make_backend, known=False) as agents:
        await agents.old.publish()
        assert await agents.new.publish() == 0
        assert agents.new.kept == {GPU}
        agents.server.drop(SLICES, agents.server.all(SLICES)[0]["metadata"]["name"])
        assert await agents.old.publish() > 0


def test_the_turn_of_a_killed_agent_ends(tmp_path: Path) -> None:
    """Its mark is left, and nobody has it locked."""
    code = (
        "import sys, time; from pathlib import Path; from apportion.agent.slices.succession import Succession\n"
        f"younger = Succession(Path({str(tmp_path)!r})); print(younger.is_ours(ready=True), flush=True)\n"
        "time.sleep(600)"
    )
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with closing(Succession(tmp_path)) as old:
        assert old.is_ours(ready=True)
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as younger:
            assert younger.stdout is not None
            assert younger.stdout.readline() == b"True\n"
            assert old.is_over()
            assert not old.is_ours(ready=True)
            younger.kill()
        assert not old.is_over()
        assert old.is_ours(ready=True)
        assert len([*tmp_path.iterdir()]) == 1


def test_an_agent_alone_has_its_turn_where_no_mark_can_be_written(tmp_path: Path) -> None:
    """Its node would have no devices."""
    (tmp_path / "file").touch()
    assert Succession(tmp_path / "file" / "marks").is_ours(ready=False)
