"""Scenarios of a rail: a pod that has a NIC's interface begins, and ends.

In: a node with a rail. Out: coroutines as those of `scenarios.py`: they retry until they succeed, however often the agent is killed.
"""

import json
from collections.abc import Coroutine
from itertools import count
from random import Random
from typing import Any, Final
from uuid import uuid4

from testbed.chaos.node import ChaosNode
from testbed.chaos.objects import RDMA_DRIVER
from testbed.chaos.rail import NIC, Rail
from testbed.kubelet.plugin import PluginError

JOIN: Final = "join_network"
LEAVE: Final = "leave_network"


class RailScenarios:
    """Those of one node; without a rail there are none."""

    def __init__(self, node: ChaosNode) -> None:
        self._node = node
        self._numbers = count(1)
        self._busy = False

    @property
    def names(self) -> tuple[str, ...]:
        """What may be chosen at random."""
        return () if self._node.rail is None else (JOIN, LEAVE)

    def scenario(self, name: str, random: Random) -> Coroutine[Any, Any, None] | None:
        """Return the scenario of this name, None if it is not possible now."""
        rail = self._node.rail
        if rail is None or self._busy or (rail.claim is None) != (name == JOIN):
            return None
        self._busy = True
        return self._join(rail, random) if name == JOIN else self._leave(rail)

    async def prepare_for(self, name: str, random: Random) -> None:
        """Make it possible. No agent is killed."""
        rail = self._node.rail
        if name not in self.names or rail is None:
            return
        if name == JOIN and rail.claim is not None:
            await self._leave(rail)
        elif name == LEAVE and rail.claim is None:
            await self._join(rail, random)

    def interrupted(self) -> list[Coroutine[Any, Any, None]]:
        """Return the scenarios by which kubelet starts a pod once more after a reboot."""
        rail = self._node.rail
        return [] if rail is None or rail.claim is None or rail.running else [self._run(rail)]

    async def _join(self, rail: Rail, random: Random) -> None:
        rail.pod = str(uuid4())
        name = f"n{next(self._numbers)}"
        rail.claim = await self._node.create_network_claim(name, NIC, rail.pod, rail.parameters(random))
        await self._run(rail)

    async def _run(self, rail: Rail) -> None:
        """Prepare the claim, begin the pod's sandbox, and start its container, each until it succeeds."""
        node, claim, prepared = self._node, rail.claim, 0
        if claim is None:
            return

        async def ask() -> bool | None:
            nonlocal prepared
            boot = node.boot_number
            if prepared != boot:
                why = await node.prepare_error(claim, RDMA_DRIVER)
                prepared = boot if not why else 0
            else:
                why = await rail.begin_sandbox()
            if why:
                raise PluginError(why)
            if boot == node.boot_number and prepared:
                file = node.cdi / f"{RDMA_DRIVER}_{claim['metadata']['uid']}.json"
                why = await rail.start_container(json.loads(file.read_text()))
                if why:
                    raise PluginError(why)
            return rail.running or None

        await node.retry(ask, f"start of a pod with the interface for claim {claim['metadata']['name']}")
        self._busy = False

    async def _leave(self, rail: Rail) -> None:
        """The pod ends."""
        claim = rail.claim
        await rail.end_sandbox()
        if claim is not None:
            await self._node.unprepare(claim, RDMA_DRIVER)
            await self._node.delete_claim(claim)
        rail.claim = None
        self._busy = False
