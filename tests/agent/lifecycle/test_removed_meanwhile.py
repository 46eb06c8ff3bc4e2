"""A partition that is removed while the cards are looked at is in no answer: not in slices, and not as a person's."""

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.devices.values import LivePartition
from apportion.agent.hardwaremonitor import HardwareMonitor
from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.claimstatus import ClaimStatusWriter
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.nodeevents import NodeEvents
from apportion.cluster.client import Object
from apportion.cluster.recorder import Recorder
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.lifecycle.onecard import LAYOUT, OneCard, one_card
from tests.agent.places import H100, MakeBackend, partition_place


def removed_during_a_look(patch: pytest.MonkeyPatch, backend: SimulatedBackend, node: OneCard) -> None:
    """Have what is on the card removed, as a worker does it, between a look and what is made of it: another card was slow."""
    look = backend.partitions

    def partitions(cards: Collection[str] | None = None) -> tuple[LivePartition, ...]:
        found = look(cards)
        for live in found:
            backend.destroy(live)
        for uid in node.context.journal.partitions():
            node.context.journal.drop_partition(uid)
        return found

    patch.setattr(backend, "partitions", partitions)


@pytest.mark.parametrize("layout", [False, True])
async def test_it_is_not_published(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch, *, layout: bool
) -> None:
    """A static device would be allocated that is gone; with `--foreign quarantine` the card would be shut."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        spec: dict[str, Any] = {"origin": "Layout", "holder": LAYOUT} if layout else {}
        node.partition("p1", **spec)
        await node.work()
        held = HeldClaims(node.context)
        await held.check()
        inventory = InventoryBuilder(node.context, held, quarantine=True)
        assert len((await inventory.build()).static) == layout
        removed_during_a_look(monkeypatch, backend, node)
        made = await inventory.build()
        assert (made.occupied, made.static, made.taints) == ((), (), {})


async def test_no_event_calls_it_a_persons(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People would look for who made it."""
    backend = make_backend(cards=[H100])
    written: list[Object] = []
    async with one_card(tmp_path, backend) as node:

        async def get(*_: object, **__: str) -> Object:
            return {"metadata": {"name": "n", "uid": "n"}}

        async def create(_: object, body: Object, **__: str) -> Object:
            written.append(body)
            return body

        monkeypatch.setattr(node.api, "get", get)
        monkeypatch.setattr(node.api, "create", create)
        node.partition("p1")
        await node.work()
        recorder = Recorder(
            node.api, component="apportion-agent", clock=lambda: 0.0, now=lambda: datetime.now(UTC)
        )
        monitor = HardwareMonitor(
            node.context,
            InventoryBuilder(node.context, HeldClaims(node.context)),
            NodeEvents(node.api, recorder, "n"),
            ClaimStatusWriter(node.api, node.context.now),
            changed=lambda: None,
            rediscover=lambda: asyncio.sleep(0),
            misconfigured=tuple,
            interval=1.0,
            files_interval=1.0,
        )
        async with beside(recorder.run()):
            with pytest.MonkeyPatch.context() as patch:
                removed_during_a_look(patch, backend, node)
                await monitor.check(partitions=True)
            backend.create(partition_place(backend, "gpu-0", "1g.10gb", 0))
            await monitor.check(partitions=True)
            await eventually(lambda: asyncio.sleep(0, len(written)), bool)
    assert [(event["reason"], "1g.10gb at 0" in event["message"]) for event in written] == [
        ("ForeignPartition", True)
    ]
