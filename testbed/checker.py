"""The checker: watches an installation and records every violation of the rules in `violations.py`.

In: an installation. Out: violations in words. "Used twice" is checked on every version of every claim, in the API server's
order; rules over several objects, which come by different watches, count only when they stay violated for seconds. It shares no
code with the product.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Self

from testbed import violations as rules
from testbed.api import Json
from testbed.installation import Installation
from testbed.kubelet.podrecord import PodRecord
from testbed.reflector import Reflector
from testbed.violations import Devices, Row, Use

_RESOURCE: Final = "/apis/resource.k8s.io/v1"
_OWN: Final = "/apis/apportion.dev/v1alpha1"
_LOOK_SECONDS = 0.5
STAYS_SECONDS = 3.0


class Checker:
    """`async with Checker(installation) as checker:` watches until the end; then read `violations`.

    `claims`, `pods`, `partitions` and `slices` are the current objects, by UID.
    """

    def __init__(
        self, installation: Installation, *, stays: float = STAYS_SECONDS, unled: float = 0.0
    ) -> None:
        """`stays`: seconds that a rule over several objects is violated before that counts.

        `unled`: for how many seconds more a bound pod may have a claim that does not serve it, because no replica has the lease: a
        scheduler with an old view binds to what was given back a moment ago (ADR 23), and the leader mends it.
        """
        self.violations: dict[str, float] = {}
        """Each violation once, with the time (`time.time()`) at which it was seen first."""
        self.devices = Devices()
        self.claims: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        self.partitions: dict[str, Json] = {}
        self.slices: dict[str, Json] = {}
        self.unattended: set[str] = set()
        """Nodes whose hardware may have partitions that nobody owns: they were deleted, and with them their Partitions, and their agents have yet to find that out."""
        self.allocations = 0
        """How often a claim got devices."""
        self.on_allocation: Callable[[int], None] = lambda _: None
        """Called with `allocations` whenever it grows."""
        self._installation = installation
        self._stays, self._unled = stays, unled
        self._suspects: dict[str, float] = {}
        self._reserved: dict[tuple[str, str], set[Use]] = {}
        """Devices by UIDs of pod and claim, as claims reserved them; also after both are gone."""
        self._names: dict[str, str] = {}
        """Title of each claim, by UID."""
        self._watched: set[tuple[str, rules.DeviceKey]] = set()
        """Claims (UID) with the devices that they have by admin access."""
        self._listing = False
        """Whether claims are changed to what they were at one moment, in any order."""
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Start to watch; returns when every existing object was seen."""
        api = self._installation.cluster.api
        reflectors = [
            Reflector(api, f"{_RESOURCE}/resourceslices", self._slice),
            Reflector(api, f"{_RESOURCE}/resourceclaims", self._claim, together=self._claims_listed),
            Reflector(api, "/api/v1/pods", lambda uid, raw: _keep(self.pods, uid, raw)),
            Reflector(api, f"{_OWN}/partitions", lambda uid, raw: _keep(self.partitions, uid, raw)),
        ]
        for reflector in reflectors:
            self._tasks.append(asyncio.create_task(reflector.run()))
            await reflector.listed.wait()
        self._tasks.append(asyncio.create_task(self._look()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task

    def alive(self) -> None:
        """Raise what a watch has failed with: that must not look like success."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    def check(self) -> None:
        """Raise AssertionError that lists every violation so far, if there is one."""
        self.alive()
        found = [*self.violations, *self.used_by_two_containers()]
        if found:
            raise AssertionError(f"{len(found)} violations:\n" + "\n".join(found[:20]))

    async def at_rest(self) -> list[str]:
        """Return every violation in a cluster where nothing changes any more."""
        read = self._installation.cluster.api.items
        # The hardware is read first: a partition that is cut has its object already.
        hardware = {node: self._rows(node) for node in self._installation.nodes}
        claims, _ = await read(f"{_RESOURCE}/resourceclaims")
        pods, _ = await read("/api/v1/pods")
        partitions, _ = await read(f"{_OWN}/partitions")
        layouts, _ = await read(f"{_OWN}/partitionlayouts")
        slices, _ = await read(f"{_RESOURCE}/resourceslices")
        devices = Devices()
        for piece in slices:
            devices.learn(piece)
        live = [use for claim in claims for use in rules.uses(claim)]
        every = [row for rows in hardware.values() for row in rows]
        found = [
            f"device {'/'.join(use.device)} is no longer published"
            for use in live
            if use.device not in devices.nodes
        ]
        found += rules.used_twice(live)
        found += rules.overdrawn(live, devices, devices.published)
        found += rules.misplaced(pods, claims, devices)
        found += rules.orphaned(partitions, claims, layouts)
        found += rules.uncut(claims, partitions, every, devices)
        for node, rows in hardware.items():
            found += rules.overlapping(node, rows)
            found += rules.unexplained(node, rows, partitions)
        return found

    def used_by_two_containers(self) -> list[str]:
        """Return devices and counters that containers of two claims had at one time, by the kubelets' records."""
        found: set[str] = set()
        for kubelet in self._installation.kubelets.values():
            ran = [record for record in kubelet.records.values() if record.running is not None]
            given = {record.uid: set(self._given(record)) for record in ran}
            for record in ran:
                running = {use for other in ran if _at_once(other, record) for use in given[other.uid]}
                found |= {f"{text}, in running containers" for text in self._used_twice(running)}
        return sorted(found)

    def given_others(self) -> list[str]:
        """Return the pods whose containers were given other devices than their claims say."""
        found: set[str] = set()
        for kubelet in self._installation.kubelets.values():
            for record in kubelet.records.values():
                for uid, devices in record.devices.items():
                    reserved = {use.device for use in self._reserved.get((record.uid, uid), ())}
                    given = self._unwatched(uid, devices)
                    if record.running is not None and given != reserved:
                        found.add(
                            f"pod {record.namespace}/{record.name} ({record.uid}) runs with {_listed(given)},"
                            f" and {self._names.get(uid, uid)} has {_listed(reserved)}"
                        )
        return sorted(found)

    def _given(self, record: PodRecord) -> Iterator[Use]:
        """Yield what a pod was given: what its claims reserved for it, and other devices as a whole; nothing of claims that the watch has not shown so far."""
        for uid, devices in record.devices.items():
            reserved = self._reserved.get((record.uid, uid))
            if reserved is None:
                continue
            yield from (use for use in reserved if use.device in devices)
            others = self._unwatched(uid, devices) - {use.device for use in reserved}
            yield from (Use(self._names[uid], device) for device in others)

    def _unwatched(self, uid: str, devices: Iterable[rules.DeviceKey]) -> set[rules.DeviceKey]:
        return {device for device in devices if (uid, device) not in self._watched}

    def _slice(self, uid: str, raw: Json | None) -> None:
        _keep(self.slices, uid, raw)
        if raw is not None:
            self.devices.learn(raw)

    def _claim(self, uid: str, raw: Json | None) -> None:
        before = set(rules.uses(self.claims[uid])) if uid in self.claims else set()
        _keep(self.claims, uid, raw)
        after = set(rules.uses(raw)) if raw is not None else set()
        if raw is not None:
            self._names[uid] = rules.claim_title(raw)
            self._watched |= {(uid, device) for device in rules.watched_devices(raw)}
            for consumer in raw.get("status", {}).get("reservedFor") or ():
                self._reserved[consumer["uid"], uid] = after
        if not after - before:
            return
        if not self._listing:
            self._check_claims({use.device[:2] for use in after})
        if not before:
            self.allocations += 1
            self.on_allocation(self.allocations)

    @contextmanager
    def _claims_listed(self) -> Iterator[None]:
        """Check claims that were listed when all of them are known: one may have what another one has lost meanwhile."""
        self._listing = True
        try:
            yield
        finally:
            self._listing = False
        self._check_claims(None)

    def _check_claims(self, pools: set[tuple[str, str]] | None) -> None:
        """Note what the claims have twice in these pools (driver, pool), or in all."""
        every = (use for claim in self.claims.values() for use in rules.uses(claim))
        self._note(self._used_twice(use for use in every if pools is None or use.device[:2] in pools))

    def _used_twice(self, live: Iterable[Use]) -> Iterator[str]:
        live = list(live)
        yield from rules.used_twice(live)
        yield from rules.overdrawn(live, self.devices, self.devices.whole)

    async def _look(self) -> None:
        while True:
            hardware = {node: self._rows(node) for node in self._installation.nodes}
            for node, rows in hardware.items():
                self._note(rules.overlapping(node, rows))
            # The watches may be behind the state files.
            await asyncio.sleep(_LOOK_SECONDS)
            suspects = set(self.given_others())
            for node in hardware.keys() - self.unattended:
                suspects |= set(rules.unexplained(node, hardware[node], self.partitions.values()))
            allowed = dict.fromkeys(suspects, self._stays)
            for text in rules.misplaced(self.pods.values(), self.claims.values(), self.devices):
                allowed[text] = self._stays + self._unled
            now = time.time()
            self._suspects = {text: self._suspects.get(text, now) for text in allowed}
            self._note(text for text, since in self._suspects.items() if now - since > allowed[text])

    def _rows(self, node: str) -> list[Row]:
        try:
            return list(self._installation.hardware(node))
        except FileNotFoundError:
            return []  # its agent has not started yet

    def _note(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.violations.setdefault(text, time.time())


async def settled(checker: Checker, ask: Callable[[], Awaitable[list[str]]], *, within: float) -> None:
    """Wait until `ask` returns nothing. Raises AssertionError with what is left, or with a violation."""
    end = time.monotonic() + within
    while True:
        checker.check()
        left = await ask()
        if not left:
            return
        if time.monotonic() > end:
            raise AssertionError(f"after {within:g} s, {len(left)} are left:\n" + "\n".join(left[:20]))
        await asyncio.sleep(_LOOK_SECONDS)


def _keep(kept: dict[str, Json], uid: str, raw: Json | None) -> None:
    if raw is None:
        kept.pop(uid, None)
    else:
        kept[uid] = raw


def _listed(devices: Iterable[rules.DeviceKey]) -> str:
    return ", ".join(sorted("/".join(device) for device in devices)) or "nothing"


def _at_once(one: PodRecord, other: PodRecord) -> bool:
    """Say whether one's containers ran when the other's began."""
    if one.running is None or other.running is None:
        return False
    return one.running <= other.running and (one.stopped is None or other.running < one.stopped)
