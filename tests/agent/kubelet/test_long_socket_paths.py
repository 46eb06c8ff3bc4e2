"""Sockets whose path would be too long for a unix socket have short names: those of the dead go all the same."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from apportion.agent.kubelet.health import HealthFeed
from apportion.agent.kubelet.plugin import LONGEST_PATH, Plugin
from apportion.agent.wakeup import Wakeup
from tests.agent.kubelet.filesbelow import preparer
from tests.agent.kubelet.test_sockets import leave_behind
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.places import GPU, H100, MakeBackend

PODS = [name * 12 for name in ("killed", "lives", "begins")]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Give a folder with a short name: the short names have to fit."""
    with tempfile.TemporaryDirectory(prefix="apportion-") as folder:
        yield Path(folder)


def plugin(folder: Path, node: OneCard, instance: str) -> Plugin:
    """Return what serves the sockets of one agent."""
    health = HealthFeed("n", tuple, last_read=lambda: 0.0, changed=Wakeup())
    served = preparer(folder, node, "gpu-0")
    return Plugin(served, health, plugins=folder, registry=folder / "registry", instance=instance)


async def test_short_names_of_agents_that_were_killed_are_removed(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Kubelet would try each of them for ever; that of an agent that lives, and of another driver, stays."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        killed, lives, begins = (plugin(tmp_path, node, instance) for instance in PODS)
        assert len(str(tmp_path / "registry" / f"{GPU}-{PODS[0]}-reg.sock")) > LONGEST_PATH
        other = tmp_path / "registry" / "0123456789abcdef-reg.sock"
        for dead in (killed.registration, killed.socket, other):
            leave_behind(dead)
        try:
            await lives.start()
            await begins.start()
            registered = {path.name for path in (tmp_path / "registry").iterdir()}
            assert registered == {lives.registration.name, begins.registration.name, other.name}
            assert set((tmp_path / GPU).glob("*.sock")) == {lives.socket, begins.socket}
        finally:
            await asyncio.gather(lives.stop(0), begins.stop(0))
