"""Errors that nobody expects while an interface goes to its pod: the runtime gets an answer, and other interfaces follow their pods."""

import asyncio
import struct
from collections.abc import Collection
from pathlib import Path

import pytest

from apportion.agent.network import netlink
from apportion.agent.network.interface import Interface
from apportion.agent.network.nri import NriPlugin, Sandbox
from apportion.agent.network.trunk import Trunk
from apportion.agent.rows import NetworkStep
from apportion.errors import NotReady
from testbed.runtimehand import RuntimeHand
from tests.agent.rdma.rails import Rails, rails_below


def defect(rails: Rails, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the first interface's driver say what nobody can read."""
    read = netlink.read

    def found(namespace: Path, name: str) -> Interface | None:
        if name == rails.network.name:
            raise KeyError("IFLA_UNHEARD_OF")
        return read(namespace, name)

    monkeypatch.setattr(netlink, "read", found)


@pytest.mark.usefixtures("interfaces")
async def test_an_interface_that_nobody_can_read_keeps_no_other_from_its_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was missed before the runtime was connected is made up for in one walk."""
    async with rails_below(tmp_path) as rails:
        defect(rails, monkeypatch)
        first, namespace = rails.sandbox("first")
        await rails.networks.compare([first])
        assert rails.steps() == [NetworkStep.MOVED, NetworkStep.WAITING]
        assert rails.where(namespace) == 1


@pytest.mark.usefixtures("interfaces")
async def test_an_interface_that_cannot_be_given_back_does_not_end_each_start_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim can be unprepared as soon as the reason is gone."""
    async with rails_below(tmp_path) as rails:
        first, namespace = rails.sandbox("first")
        await rails.networks.began(first)
        rails.node.context.journal.drop_claim("c", "rdma.apportion.dev")
        marked = netlink.mark

        def mark(where: Path, index: int, alias: str) -> None:
            if alias == "rail 3":
                raise ValueError("out of all ranges")
            marked(where, index, alias)

        with monkeypatch.context() as patch:
            patch.setattr(netlink, "mark", mark)
            await rails.networks.recover()
        assert rails.steps() == [NetworkStep.RETURNING]
        assert rails.where(namespace) == 0
        await rails.networks.recover()
        assert rails.steps() == []


async def test_a_handler_that_fails_answers_the_runtime_which_hears_of_other_pods_by_the_same_connection(
    tmp_path: Path,
) -> None:
    """Without an answer it waits for two seconds, starts the sandbox all the same, and closes the connection."""
    heard: list[str] = []

    async def began(sandbox: Sandbox) -> None:
        heard.append(sandbox.pod)
        if sandbox.pod == "bad":
            raise KeyError("IFLA_UNHEARD_OF")

    async def creating(_sandbox: Sandbox, _mounts: Collection[str]) -> None:
        raise RuntimeError("no")

    async def nothing(*_about: object) -> None:
        pass

    runtime, path = RuntimeHand(), tmp_path / "nri.sock"
    plugin = NriPlugin(path, began=began, creating=creating, ending=nothing, running=nothing)
    async with runtime.serving(path):
        running = asyncio.create_task(plugin.run())
        try:
            await runtime.synchronized.wait()
            async with asyncio.timeout(60):
                assert await runtime.begin("bad", "/proc/self/ns/net") == (
                    "defect of the agent: KeyError('IFLA_UNHEARD_OF')"
                )
                assert await runtime.begin("good", "/proc/self/ns/net") == ""
                assert await runtime.create("good") == "defect of the agent: RuntimeError('no')"
            assert heard == ["bad", "good"]
            assert plugin.connected
        finally:
            running.cancel()


async def test_what_cannot_be_read_ends_the_connection_and_not_the_agent(tmp_path: Path) -> None:
    """The agent connects anew; what ends any other way ends all of it."""
    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        message = struct.pack(">IIBB", 2, 1, 1, 0) + b"\xff\xff"
        writer.write(struct.pack(">II", 1, len(message)) + message)
        await reader.read()
        writer.close()
        served.set()

    async def handler(_method: str, _message: bytes) -> bytes:
        return b""

    async with await asyncio.start_unix_server(serve, tmp_path / "socket"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "socket")
        with pytest.raises(NotReady, match="the runtime sent what is no message"):
            await Trunk(reader, writer, handler).run()
        await writer.wait_closed()
        await served.wait()
