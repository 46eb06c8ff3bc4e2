"""Scenarios: what kubelet, operator, scheduler and users do to the devices of one node.

In: a node, what its cards offer. Out: coroutines that retry until they succeed, however often the agent is killed. A scenario
reserves its device, so several run at once without interfering.
"""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from random import Random
from typing import Any, Final

from testbed.api import Json
from testbed.chaos import railscenarios
from testbed.chaos.devicesinuse import FOREIGN_CARD, WHOLE_CARD, DevicesInUse
from testbed.chaos.fakehardware import Placement
from testbed.chaos.invariants import DOUBLED, KILLED, Container, Violation
from testbed.chaos.node import ChaosNode
from testbed.chaos.railscenarios import RailScenarios
from testbed.chaos.trackeddevice import TrackedDevice

Scenario = Coroutine[Any, Any, None]
MPS: Final = "MPS"
TIME_SLICE: Final = "TimeSlicing"
END_MPS: Final = "end_mps"
_NAMES: Final = (
    *("start", "start", "finish", "remove", "repeat_prepare", "force_delete"),
    *("lose_objects", "next_claim", "replace", "whole_card", "warm", "share", MPS, TIME_SLICE),
)
_MOST_DEVICES: Final = 6
_GIBIBYTES: Final = 19
"""Four shares fit on the card, five do not."""
_P_OPENED: Final = 0.3
_WAIT_SECONDS: Final = 0.15
"""How long a scenario waits for something that must not happen."""


class Scenarios:
    """The scenarios of one node, and the devices that they use."""

    def __init__(self, node: ChaosNode) -> None:
        self._node = node
        self._numbers = count(1)
        self.used = DevicesInUse()
        self.violations: list[Violation] = []
        self._rail = RailScenarios(node)

    def choose(self, random: Random, first: str = "") -> list[tuple[str, Scenario]]:
        """Return a few scenarios with their names; the one called `first` comes first, if it is possible now."""
        names = [*_NAMES, *self._rail.names]
        if len(self.used.devices) > _MOST_DEVICES:
            names = ["finish", "remove", "remove", "force_delete", "lose_objects"]
        chosen = [first] if first else []
        chosen += random.choices(names, k=random.choice((1, 2, 2, 3, 4)))
        scenarios = ((name, self._scenario(name, random)) for name in chosen)
        return [(name, scenario) for name, scenario in scenarios if scenario is not None]

    async def prepare_for(self, name: str, random: Random) -> None:
        """Make a scenario possible: free room to cut, a container to end, or a warm partition to remove. No agent is killed."""
        await self._rail.prepare_for(name, random)
        ends_mps = name == END_MPS and not any(device.sharing == MPS for device in self.used.devices)
        if name in ("mode", MPS, TIME_SLICE) or ends_mps:
            for device in self.used.on_card(WHOLE_CARD):
                await self._clear(device)
        if ends_mps:
            await self._start_whole(sharing=MPS)
        while name in ("cut", "start") and self.used.free_placement(random) is None:
            await self._clear(random.choice(self.used.devices))
        if name in ("finish", "remove") and not any(
            device.placement is not None for device in self.used.devices
        ):
            # The first card is in use as a whole; the other one has room.
            placement = self.used.free_placement(random, card=FOREIGN_CARD)
            if placement is not None:
                await self._create(placement, warm=False, random=random)
        running = [
            device
            for device in self.used.devices
            if device.claim is not None and device.placement is not None
        ]
        warm = [device for device in self.used.devices if device.claim is None]
        if name == "finish" and not running:
            await self._start(random.choice(warm), existing=True)
        elif name == "remove" and not warm:
            await self._finish(random.choice(running))

    async def _clear(self, device: TrackedDevice) -> None:
        if device.claim is not None:
            await self._finish(device)
        if device in self.used.devices:
            await self._remove(device)

    def interrupted(self) -> list[Scenario]:
        """Return the scenarios by which kubelet starts containers again after a reboot."""
        lost = [
            device
            for device in self.used.devices
            if device.claim is not None and device.claim["metadata"]["uid"] not in self._node.containers
        ]
        return [*(self._run(device) for device in lost), *self._rail.interrupted()]

    def _scenario(self, name: str, random: Random) -> Scenario | None:
        """Choose and reserve the device now, so that no other scenario of this round takes it."""
        match name:
            case "cut" | "start" | "warm" | "mode":
                warm = [device for device in self.used.idle() if device.claim is None]
                if name == "start" and warm and random.random() < 0.4:
                    return self._start(random.choice(warm).reserve(), existing=True)
                placement = self.used.free_placement(random, card=WHOLE_CARD if name == "mode" else "")
                return (
                    None if placement is None else self._create(placement, warm=name == "warm", random=random)
                )
            case "whole_card" | "MPS" | "TimeSlicing":
                if self.used.on_card(WHOLE_CARD) or (name != "whole_card" and self._node.daemons is None):
                    return None
                self._node.hardware.rebind()  # under the running agent, while nobody has the card
                return self._start_whole(sharing="" if name == "whole_card" else name)
            case "end_mps":
                return self._on_any(random, self._finish, lambda device: device.sharing == MPS)
            case "share":
                return self._start_whole(gibibytes=_GIBIBYTES) if self.used.for_one_more_share else None
            case railscenarios.JOIN | railscenarios.LEAVE:
                return self._rail.scenario(name, random)
            case "remove":
                return self._on_any(random, self._remove, lambda device: device.claim is None)
            case "replace":
                return self._choose_replacement(random)
            case "finish" | "repeat_prepare":
                scenario = self._finish if name == "finish" else self._repeat_prepare
                return self._on_any(random, scenario, lambda device: device.claim is not None)
            case _:
                scenario = {
                    "force_delete": self._force_delete,
                    "lose_objects": self._lose_objects,
                    "next_claim": self._next_claim,
                }[name]
                return self._on_any(
                    random, scenario, lambda device: device.claim is not None and device.placement is not None
                )

    def _on_any(
        self,
        random: Random,
        scenario: Callable[[TrackedDevice], Scenario],
        fit: Callable[[TrackedDevice], bool],
    ) -> Scenario | None:
        found = [device for device in self.used.idle() if fit(device)]
        return scenario(random.choice(found).reserve()) if found else None

    def _create(self, placement: Placement, *, warm: bool, random: Random) -> Scenario:
        device = self.used.add(TrackedDevice(placement.card, placement, opened=random.random() < _P_OPENED))
        return self._warm(device) if warm else self._start(device, existing=False)

    def _choose_replacement(self, random: Random) -> Scenario | None:
        warm = [
            device for device in self.used.idle() if device.claim is None and device.placement is not None
        ]
        if not warm:
            return None
        old = random.choice(warm)
        placement = self.used.free_placement(random, without=old)
        return (
            None
            if placement is None
            else self._replace(old.reserve(), self.used.add(TrackedDevice(placement.card, placement)))
        )

    def _start_whole(self, **terms: Any) -> Scenario:
        return self._start(self.used.add(TrackedDevice(WHOLE_CARD, None, **terms)), existing=True)

    async def _start(self, device: TrackedDevice, *, existing: bool) -> None:
        name = f"c{next(self._numbers)}"
        claim = await self._node.create_claim(
            name, device.name, gibibytes=device.gibibytes, sharing=device.sharing
        )
        if device.placement is not None:
            await (self._node.set_holder if existing else self._node.create_partition)(
                device.placement, claim
            )
        device.claim = claim
        await self._run(device)

    async def _run(self, device: TrackedDevice) -> None:
        device.reserved = True
        if device.claim is not None:
            await self._prepare(device, device.claim)
        device.reserved = False

    async def _prepare(self, device: TrackedDevice, claim: Json) -> Container:
        return await self._node.prepare(
            claim, device.name, device.card, opened=device.opened, sharing=device.sharing
        )

    async def _warm(self, device: TrackedDevice) -> None:
        if device.placement is not None:
            await self._node.create_partition(device.placement, None)
        device.reserved = False

    async def _finish(self, device: TrackedDevice) -> None:
        """The pod ends normally; its partition stays warm."""
        claim, device.claim = device.claim, None
        if claim is not None:
            await self._node.unprepare(claim)
            await self._node.delete_claim(claim)
        if device.placement is None:
            self.used.devices.remove(device)
        else:
            await self._node.set_holder(device.placement, None)
        device.reserved = False

    async def _remove(self, device: TrackedDevice) -> None:
        """The warm partition is removed."""
        if device.placement is not None:
            await self._node.delete_partition(device.placement)
            await self._node.wait_removed(device.placement)
        self.used.devices.remove(device)

    async def _replace(self, old: TrackedDevice, new: TrackedDevice) -> None:
        """A warm partition is removed for a new one that overlaps it."""
        await asyncio.gather(self._remove(old), self._start(new, existing=False))

    async def _repeat_prepare(self, device: TrackedDevice) -> None:
        """Kubelet was restarted and prepares again, while the container still runs."""
        if device.claim is None:
            return
        boot, before = self._node.boot_number, self._node.containers.get(device.claim["metadata"]["uid"])
        after = await self._prepare(device, device.claim)
        if before is not None and boot == self._node.boot_number and after.uuid != before.uuid:
            self.violations.append(
                Violation(KILLED, f"claim {after.claim} had {before.uuid} and was given {after.uuid}")
            )
        device.reserved = False

    async def _force_delete(self, device: TrackedDevice) -> None:
        """The pod is deleted by force: claim and Partition are deleted while the container still runs."""
        claim, placement, device.claim = device.claim, device.placement, None
        if claim is None or placement is None:
            return
        await self._node.delete_claim(claim)
        await self._node.delete_partition(placement)
        await asyncio.sleep(_WAIT_SECONDS)
        await self._node.unprepare(claim)
        await self._node.wait_removed(placement)
        self.used.devices.remove(device)

    async def _lose_objects(self, device: TrackedDevice) -> None:
        """Claim and Partition are lost (etcd restored from an old copy) while the container still runs."""
        claim, placement, device.claim = device.claim, device.placement, None
        if claim is None or placement is None:
            return
        await self._node.lose_partition(placement)
        await self._node.delete_claim(claim)
        await asyncio.sleep(_WAIT_SECONDS)
        await self._node.unprepare(claim)
        await self._node.wait_removed(placement)
        self.used.devices.remove(device)

    async def _next_claim(self, device: TrackedDevice) -> None:
        """The next claim gets the device while the container of the last one still runs."""
        old, placement = device.claim, device.placement
        if old is None or placement is None:
            return
        new = await self._node.create_claim(f"c{next(self._numbers)}", device.name)
        await self._node.delete_claim(old)
        await self._node.set_holder(placement, new)
        device.claim = None
        given = not await self._node.prepare_error(new)
        # A reboot before the answer ends the old container: then the new claim may have the device.
        if given and old["metadata"]["uid"] in self._node.containers:
            uids = (old["metadata"]["uid"], new["metadata"]["uid"])
            self.violations.append(
                Violation(DOUBLED, f"{device.name} was given to claim {uids[1]}, and {uids[0]} ran")
            )
        await self._node.unprepare(old)
        device.claim = new
        await self._run(device)
