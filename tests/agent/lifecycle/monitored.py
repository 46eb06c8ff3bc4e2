"""The monitor of one card's hardware, with the recorder of its Events."""

import asyncio
from datetime import UTC, datetime

from apportion.agent.hardwaremonitor import HardwareMonitor
from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.claimstatus import ClaimStatusWriter
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.nodeevents import NodeEvents
from apportion.cluster.recorder import Recorder
from tests.agent.lifecycle.onecard import OneCard


def monitored(node: OneCard, files_interval: float = 1.0) -> tuple[HardwareMonitor, Recorder]:
    """Return both; neither runs. `files_interval`: seconds between two looks at files of claims."""
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
        files_interval=files_interval,
    )
    return monitor, recorder
