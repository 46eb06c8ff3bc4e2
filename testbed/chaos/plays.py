"""Plays: what kubelet, operator, scheduler and people do to one node, each as a short story that insists on its end.

In: a node, what its cards offer. Out: coroutines that survive any number of the agent's deaths. A play has its slot for
itself, so several run at once without contradicting each other.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any, Final

from testbed.api import Json
from testbed.chaos.ground import MODELS, Place, fits, places
from testbed.chaos.judge import DOUBLED, KILLED, Verdict
from testbed.chaos.node import Node

Play = Coroutine[Any, Any, None]
STRANGER: Final = "gpu-1"
"""The card on which a person has made a partition; it is never used whole."""
_MOST: Final = 6
_OPENED: Final = 0.3
_WHILE: Final = 0.15
"""Seconds for which something that must not happen is waited for."""


@dataclass(slots=True)
class Slot:
    """A device in use or kept warm: a place, or a whole card (no place)."""

    card: str
    place: Place | None
    claim: Json | None = None
    busy: bool = False
    opened: bool = False
    """Whether a program in the container has opened it, so that the driver knows of its use."""

    @property
    def device(self) -> str:
        """The device's name."""
        return self.place.device if self.place is not None else self.card


class Plays:
    """The stories of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._numbers = count(1)
        self.slots: list[Slot] = []
        self.offered = {f"gpu-{n}": places(f"gpu-{n}", model) for n, model in enumerate(MODELS)}
        self.taken_by_hand = next(p for p in self.offered[STRANGER] if p.profile == "1g.5gb" and p.start == 6)
        self.accusations: list[Verdict] = []

    def choose(self, random: Random, first: str = "") -> list[tuple[str, Play]]:
        """Return a few plays with their names; the one called `first` leads, if it can be played now."""
        names = [
            "start",
            "start",
            "finish",
            "remove",
            "again",
            "force",
            "vanish",
            "rival",
            "swap",
            "whole",
            "warm",
        ]
        if len(self.slots) > _MOST:
            names = ["finish", "remove", "remove", "force", "vanish"]
        chosen = [first] if first else []
        chosen += random.choices(names, k=random.choice((1, 2, 2, 3, 4)))
        plays = ((name, self._play(name, random)) for name in chosen)
        return [(name, play) for name, play in plays if play is not None]

    async def lead_to(self, name: str, random: Random) -> None:
        """Play in peace what makes a play possible: room to cut, a container to end, a warm partition to remove."""
        if name == "mode":
            for slot in [slot for slot in self.slots if slot.card == "gpu-0"]:
                await self._clear(slot)
        while name == "cut" and self._room(random) is None:
            await self._clear(random.choice(self.slots))
        if name in ("finish", "remove") and not any(slot.place is not None for slot in self.slots):
            # A card in use as a whole is no partition; the other card has room.
            place = self._room(random, card=STRANGER)
            if place is not None:
                await self._new(place, warm=False, random=random)
        running = [slot for slot in self.slots if slot.claim is not None and slot.place is not None]
        warm = [slot for slot in self.slots if slot.claim is None]
        if name == "finish" and not running:
            await self._start(random.choice(warm), made=True)
        elif name == "remove" and not warm:
            await self._finish(random.choice(running))

    async def _clear(self, slot: Slot) -> None:
        if slot.claim is not None:
            await self._finish(slot)
        if slot in self.slots:
            await self._remove(slot)

    def interrupted(self) -> list[Play]:
        """Return the plays by which kubelet brings containers back after a reboot."""
        lost = [
            slot
            for slot in self.slots
            if slot.claim is not None and slot.claim["metadata"]["uid"] not in self._node.containers
        ]
        return [self._run(slot) for slot in lost]

    def _play(self, name: str, random: Random) -> Play | None:
        """Choose the slot and mark it now, so that no other play of this round takes it."""
        match name:
            case "cut" | "start" | "warm" | "mode":
                warm = [slot for slot in self._free() if slot.claim is None]
                if name == "start" and warm and random.random() < 0.4:
                    return self._start(_mark(random.choice(warm)), made=True)
                place = self._room(random, card="gpu-0" if name == "mode" else "")
                return None if place is None else self._new(place, warm=name == "warm", random=random)
            case "whole":
                if any(slot.card == "gpu-0" for slot in self.slots):
                    return None
                return self._start(self._add(Slot("gpu-0", None)), made=True)
            case "remove":
                return self._on(random, self._remove, lambda slot: slot.claim is None)
            case "swap":
                return self._swap_one(random)
            case "finish" | "again":
                act = self._finish if name == "finish" else self._again
                return self._on(random, act, lambda slot: slot.claim is not None)
            case _:
                act = {"force": self._force, "vanish": self._vanish, "rival": self._rival}[name]
                return self._on(random, act, lambda slot: slot.claim is not None and slot.place is not None)

    def _free(self) -> list[Slot]:
        return [slot for slot in self.slots if not slot.busy]

    def _on(self, random: Random, act: Callable[[Slot], Play], fit: Callable[[Slot], bool]) -> Play | None:
        found = [slot for slot in self._free() if fit(slot)]
        return act(_mark(random.choice(found))) if found else None

    def _add(self, slot: Slot) -> Slot:
        slot.busy = True
        self.slots.append(slot)
        return slot

    def _new(self, place: Place, *, warm: bool, random: Random) -> Play:
        slot = self._add(Slot(place.card, place, opened=random.random() < _OPENED))
        return self._warm(slot) if warm else self._start(slot, made=False)

    def _room(self, random: Random, *, without: Slot | None = None, card: str = "") -> Place | None:
        """Return a place (of one card, if one is named) that is free beside everything but one slot."""
        others = [slot for slot in self.slots if slot is not without]
        beside = [slot.place for slot in others if slot.place is not None] + [self.taken_by_hand]
        whole = {slot.card for slot in others if slot.place is None}
        found = [
            place
            for name, offered in self.offered.items()
            if name not in whole and card in ("", name)
            for place in offered
            if fits(place, beside, offered)
        ]
        if without is not None and without.place is not None:
            old = without.place
            found = [place for place in found if place.overlaps(old) and place != old]
        return random.choice(found) if found else None

    def _swap_one(self, random: Random) -> Play | None:
        warm = [slot for slot in self._free() if slot.claim is None and slot.place is not None]
        if not warm:
            return None
        old = random.choice(warm)
        place = self._room(random, without=old)
        return None if place is None else self._swap(_mark(old), self._add(Slot(place.card, place)))

    # --- the stories ---------------------------------------------------------------------------------------------

    async def _start(self, slot: Slot, *, made: bool) -> None:
        claim = await self._node.claim(f"c{next(self._numbers)}", slot.device)
        if slot.place is not None:
            await (self._node.hold if made else self._node.wish)(slot.place, claim)
        slot.claim = claim
        await self._run(slot)

    async def _run(self, slot: Slot) -> None:
        slot.busy = True
        if slot.claim is not None:
            await self._node.prepare(slot.claim, slot.device, slot.card, opened=slot.opened)
        slot.busy = False

    async def _warm(self, slot: Slot) -> None:
        if slot.place is not None:
            await self._node.wish(slot.place, None)
        slot.busy = False

    async def _finish(self, slot: Slot) -> None:
        """The pod ends in good order; its partition stays warm."""
        claim, slot.claim = slot.claim, None
        if claim is not None:
            await self._node.unprepare(claim)
            await self._node.forget(claim)
        if slot.place is None:
            self.slots.remove(slot)
        else:
            await self._node.hold(slot.place, None)
        slot.busy = False

    async def _remove(self, slot: Slot) -> None:
        """The warm partition's time is over."""
        if slot.place is not None:
            await self._node.drop(slot.place)
            await self._node.gone(slot.place)
        self.slots.remove(slot)

    async def _swap(self, old: Slot, new: Slot) -> None:
        """A warm partition makes way for one that needs its room."""
        await asyncio.gather(self._remove(old), self._start(new, made=False))

    async def _again(self, slot: Slot) -> None:
        """Kubelet was restarted and prepares again, while the container runs on."""
        if slot.claim is None:
            return
        boot, before = self._node.boots, self._node.containers.get(slot.claim["metadata"]["uid"])
        after = await self._node.prepare(slot.claim, slot.device, slot.card, opened=slot.opened)
        if before is not None and boot == self._node.boots and after.uuid != before.uuid:
            self.accusations.append(
                Verdict(KILLED, f"claim {after.claim} had {before.uuid} and was given {after.uuid}")
            )
        slot.busy = False

    async def _force(self, slot: Slot) -> None:
        """The pod is deleted by force: claim and wish go, and the container runs on for a while."""
        claim, place, slot.claim = slot.claim, slot.place, None
        if claim is None or place is None:
            return
        await self._node.forget(claim)
        await self._node.drop(place)
        await asyncio.sleep(_WHILE)
        await self._node.unprepare(claim)
        await self._node.gone(place)
        self.slots.remove(slot)

    async def _vanish(self, slot: Slot) -> None:
        """Objects are lost (etcd restored from an old copy), and the container runs on for a while."""
        claim, place, slot.claim = slot.claim, slot.place, None
        if claim is None or place is None:
            return
        await self._node.lose(place)
        await self._node.forget(claim)
        await asyncio.sleep(_WHILE)
        await self._node.unprepare(claim)
        await self._node.gone(place)
        self.slots.remove(slot)

    async def _rival(self, slot: Slot) -> None:
        """The next claim gets the device while the container of the last one still runs."""
        old, place = slot.claim, slot.place
        if old is None or place is None:
            return
        new = await self._node.claim(f"c{next(self._numbers)}", slot.device)
        await self._node.forget(old)
        await self._node.hold(place, new)
        slot.claim = None
        given = not await self._node.refusal(new)
        # A reboot, even one before the question, ends every container: then nobody has the device any more.
        if given and old["metadata"]["uid"] in self._node.containers:
            uids = (old["metadata"]["uid"], new["metadata"]["uid"])
            self.accusations.append(
                Verdict(DOUBLED, f"{slot.device} was given to claim {uids[1]}, and {uids[0]} ran")
            )
        await self._node.unprepare(old)
        slot.claim = new
        await self._run(slot)


def _mark(slot: Slot) -> Slot:
    slot.busy = True
    return slot
