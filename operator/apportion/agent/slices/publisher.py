"""Keeps the node's slices as the inventory says, also when another client deletes or changes them.

In: an inventory on demand, a client, wake-ups. Out: writes. Kubelet deletes the slices of a node at its own start and when a
plugin was away for 30 s; its watch wakes the publisher then, and the slices are back within a second. Devices that kubelet cannot have
prepared yet, because the agent has just started, are withheld. Of two agents the younger one publishes, once it withholds nothing; one whose
first slices are refused gives its turn back, and tries again later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress

import structlog

from apportion.agent.slices.changes import Owner, slice_changes
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.slices.pool import DriverPool, pools
from apportion.agent.slices.publishedcards import formerly_ours
from apportion.agent.slices.succession import Succession
from apportion.agent.slices.withheld import withhold
from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import NODES, SLICES, ResourceKind
from apportion.errors import ApiError, Overtaken, Unreachable

_QUIET = 0.05
"""Seconds in which further changes join the same round."""
_LONGEST = 60.0
"""Seconds after which the slices are compared without a wake-up."""
_TURN = 5.0
"""Seconds between two looks whether the turn of the agent that came after this one has ended."""
_log = structlog.get_logger()


class Publisher:
    """One task per node; all drivers."""

    def __init__(
        self,
        client: Client,
        node: str,
        drivers: Mapping[str, str],
        inventory: Callable[[], Awaitable[NodeInventory]],
        succession: Succession,
        *,
        unknown: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`unknown` says whether the node may have cards that the inventory lacks."""
        self._client = client
        self._unknown = unknown
        self.kept: frozenset[str] = frozenset()
        """Drivers whose slices were left as they are, although none of their cards is known: a driver is not there yet."""
        self._node = node
        self._drivers = dict(drivers)
        self._inventory = inventory
        self._succession = succession
        self._sleep = sleep
        self._wakeup = asyncio.Event()
        self._newest: dict[str, int] = {}
        self._written: dict[str, str] = {}
        """resourceVersion of our own last write, by slice name: its own watch event is ignored."""
        self._withheld: set[str] = set()
        self._settled = False
        """Whether all slices were taken in a turn of this agent."""
        self.published = asyncio.Event()
        """Set once the slices were right for the first time, with nothing withheld."""

    def withhold(self, drivers: Iterable[str]) -> None:
        """Offer no device of these drivers anew before `offer`; what is to be taken from claims is published all the same."""
        self._withheld |= set(drivers)

    def offer(self, driver: str) -> None:
        """Offer a driver's devices from now on: kubelet can have them prepared."""
        self._withheld.discard(driver)
        self.wake()

    def wake(self) -> None:
        """Have the slices compared: a device, its health, a partition or a slice changed."""
        self._wakeup.set()

    def observe(self, _kind: ResourceKind, change: str, item: Object) -> None:
        """Take a watch event of a slice; those of other writers cause a comparison."""
        if item.get("spec", {}).get("driver") not in self._drivers.values() and change != "DELETED":
            return
        metadata = item["metadata"]
        if change == "DELETED" or self._written.get(metadata["name"]) != metadata["resourceVersion"]:
            self.wake()

    async def run(self) -> None:
        """Publish until cancelled. Refusals and lost connections are waited out."""
        try:
            await self._keep()
        finally:
            self._succession.close()

    async def _keep(self) -> None:
        pause = 0.0
        self.wake()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_TURN if self._succession.is_over() else _LONGEST):
                    await self._wakeup.wait()
            await self._sleep(pause or _QUIET)
            self._wakeup.clear()
            try:
                await self.publish()
                if not self._withheld:
                    self.published.set()
                pause = 0.0
            except ApiError as error:
                pause = min(pause * 2 or 0.2, _LONGEST if self._gives_back(error) else 5.0)
                _log.warning("slices.refused", error=str(error), retry_in=pause)
                self.wake()

    def _gives_back(self, error: ApiError) -> bool:
        """Give the turn back that began with a refusal, where the former agent lives: nobody else would publish what becomes of the node."""
        refused = not isinstance(error, Overtaken | Unreachable)
        return refused and not self._settled and self._succession.give_back()

    async def publish(self) -> int:
        """Compare once and write what differs; returns the number of writes, 0 while another agent of the node publishes. Raises ApiError."""
        if self._succession.is_over():
            return 0
        inventory = await self._inventory()
        node = await self._client.get(NODES, self._node)
        owner = Owner(self._node, node["metadata"]["uid"])
        listed = await self._client.list(SLICES, fieldSelector=f"spec.nodeName={self._node}")
        wanted = {pool.driver: pool for pool in pools(inventory, self._drivers)}
        there = {item["spec"]["driver"] for item in listed["items"]} if self._unknown() else set[str]()
        self.kept = frozenset(there.intersection(self._drivers.values()) - wanted.keys())
        if not self._succession.is_ours(ready=not self._withheld and not self.kept):
            return 0
        writes = 0
        refused: list[ApiError] = []
        for driver in self._drivers.values():
            live = [item for item in listed["items"] if item["spec"]["driver"] == driver]
            if driver in self.kept:
                continue
            try:
                pool = wanted.get(driver, DriverPool(driver, ()))
                writes += await self._apply(
                    withhold(pool, live) if driver in self._withheld else pool, live, owner
                )
            except Unreachable:
                raise
            except ApiError as error:
                # It is about this driver's slices; those of others are right all the same.
                refused.append(error)
        # A kind of which nothing is known may be that of a driver whose slices are here.
        for driver in (
            () if self._unknown() else formerly_ours(listed["items"], self._node, self._drivers.values())
        ):
            live = [item for item in listed["items"] if item["spec"]["driver"] == driver]
            writes += await self._apply(DriverPool(driver, ()), live, owner)
        if refused:
            raise refused[0]
        self._settled = True
        return writes

    async def _apply(self, pool: DriverPool, live: list[Object], owner: Owner) -> int:
        changes = slice_changes(pool, live, owner, newest=self._newest.get(pool.driver, 0))
        if not changes:
            return 0
        for item in changes.deletes:
            await self._client.delete(SLICES, item["metadata"]["name"], uid=item["metadata"]["uid"])
        for body in changes.updates:
            self._wrote(await self._client.replace(SLICES, body["metadata"]["name"], body))
        for body in changes.creates:
            # Overtaken: the other agent of a rolling update created it first; the next round compares with its slices.
            self._wrote(await self._client.create(SLICES, body))
        self._newest[pool.driver] = changes.generation
        count = len(changes.deletes) + len(changes.updates) + len(changes.creates)
        _log.info(
            "slices.published",
            driver=pool.driver,
            generation=changes.generation,
            slices=len(pool.contents),
            writes=count,
        )
        return count

    def _wrote(self, item: Object) -> None:
        self._written[item["metadata"]["name"]] = item["metadata"]["resourceVersion"]
