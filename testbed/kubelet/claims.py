"""The claims of one node: prepared once for all pods that share them, unprepared after the last pod.

The kubelet's rules: a claim must be allocated and reserved for the pod; what will be prepared is written to a file
before the call; "prepared" itself is not written, so after a restart prepare is called again. Claims are known by name: none is
prepared beside a former one of its name (kubernetes 1.37, pkg/kubelet/cm/dra/manager.go `prepareResources`).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from testbed.api import Json
from testbed.errors import TestbedError
from testbed.kubelet.plugin import ClaimKey, PluginError, PreparedDevice
from testbed.kubelet.plugins import Plugins


class ClaimNotReadyError(TestbedError):
    """A claim cannot be prepared for this pod as it is now."""


@dataclass(slots=True)
class _Held:
    """A claim that pods of this node use."""

    key: ClaimKey
    drivers: set[str]
    pods: set[str]
    devices: dict[str, tuple[PreparedDevice, ...]] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def check(claim: Json, pod_uid: str, group: str = "") -> None:
    """Raise ClaimNotReadyError unless the claim is allocated and reserved for the pod, or for its PodGroup of this name."""
    name = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
    status = claim.get("status", {})
    if "allocation" not in status:
        raise ClaimNotReadyError(f"ResourceClaim {name} is not allocated")
    if not any(
        consumer["uid"] == pod_uid or (consumer["resource"], consumer["name"]) == ("podgroups", group)
        for consumer in status.get("reservedFor", ())
    ):
        raise ClaimNotReadyError(
            f"pod {pod_uid} is not allowed to use ResourceClaim {name}: not reserved for it"
        )


class Claims:
    """The claims that this node's pods hold, and the devices that plugins prepared for them."""

    def __init__(self, plugins: Plugins, checkpoint: Path) -> None:
        self._plugins = plugins
        self._checkpoint = checkpoint
        self._held: dict[tuple[str, str], _Held] = {}
        """By namespace and name."""
        if checkpoint.exists():
            for entry in orjson.loads(checkpoint.read_bytes()):
                key = ClaimKey(entry["namespace"], entry["name"], entry["uid"])
                self._held[key.namespace, key.name] = _Held(key, set(entry["drivers"]), set(entry["pods"]))

    @property
    def pods(self) -> frozenset[str]:
        """UIDs of all pods that hold claims, those of before a restart included."""
        return frozenset(pod for held in self._held.values() for pod in held.pods)

    async def prepare(
        self, pod_uid: str, claims: Iterable[Json], group: str = ""
    ) -> Mapping[str, tuple[PreparedDevice, ...]]:
        """Prepare these claims for a pod, of the PodGroup of this name; returns the devices by claim UID.

        One call per driver carries all claims that are not prepared yet. Raises ClaimNotReadyError; or PluginError, and then
        the pod holds the claims nevertheless, and prepared claims are not prepared again.
        """
        wanted: dict[str, _Held] = {}
        claims = tuple(claims)
        for claim in claims:
            check(claim, pod_uid, group)
        for claim in claims:
            metadata = claim["metadata"]
            key = ClaimKey(metadata["namespace"], metadata["name"], metadata["uid"])
            results = claim["status"]["allocation"].get("devices", {}).get("results", ())
            held = self._held.setdefault((key.namespace, key.name), _Held(key, set(), set()))
            if held.key != key:
                raise ClaimNotReadyError(
                    f"old ResourceClaim with same name {key.name} and different UID {held.key.uid} still exists"
                )
            held.drivers |= {result["driver"] for result in results}
            held.pods.add(pod_uid)
            wanted[key.uid] = held
            self._save()
        async with _locked(wanted.values()):
            for driver in sorted({driver for held in wanted.values() for driver in held.drivers}):
                todo = [
                    held for held in wanted.values() if driver in held.drivers and driver not in held.devices
                ]
                if todo:
                    await self._prepare(driver, todo)
            return {
                uid: tuple(device for driver in sorted(held.devices) for device in held.devices[driver])
                for uid, held in wanted.items()
            }

    async def release(self, pod_uid: str) -> None:
        """Unprepare the claims that only this pod still holds. Raises PluginError; then the rest can be tried again."""
        mine = [held for held in self._held.values() if pod_uid in held.pods]
        for held in mine:
            async with held.lock:
                if held.pods != {pod_uid}:
                    held.pods.discard(pod_uid)  # another pod goes on with it
                    continue
                for driver in sorted(held.drivers):
                    answer = await self._plugins.of(driver).unprepare([held.key])
                    if (refusal := answer[held.key.uid]) is not None:
                        raise PluginError(
                            f"unprepare claim {held.key.namespace}/{held.key.name}: driver {driver}: {refusal}"
                        )
                    held.devices.pop(driver, None)
                held.pods.discard(pod_uid)
                if not held.pods:  # else a pod that came during the call waits for the lock, to prepare anew
                    self._held.pop((held.key.namespace, held.key.name), None)
        self._save()

    async def _prepare(self, driver: str, todo: Iterable[_Held]) -> None:
        by_uid = {held.key.uid: held for held in todo}
        answers = await self._plugins.of(driver).prepare([held.key for held in by_uid.values()])
        refused: list[str] = []
        for uid, answer in answers.items():
            held = by_uid[uid]
            if isinstance(answer, PluginError):
                refused.append(
                    f"prepare claim {held.key.namespace}/{held.key.name}: driver {driver}: {answer}"
                )
            else:
                held.devices[driver] = answer
        if refused:
            raise PluginError("; ".join(refused))

    def _save(self) -> None:
        content = [
            {
                "namespace": held.key.namespace,
                "name": held.key.name,
                "uid": held.key.uid,
                "drivers": sorted(held.drivers),
                "pods": sorted(held.pods),
            }
            for held in self._held.values()
        ]
        scratch = self._checkpoint.with_suffix(".new")
        scratch.write_bytes(orjson.dumps(content))
        scratch.replace(self._checkpoint)


@asynccontextmanager
async def _locked(held: Iterable[_Held]) -> AsyncIterator[None]:
    """Take all locks of a pod's claims, in one order, so that two pods never wait for each other."""
    async with AsyncExitStack() as stack:
        for each in sorted(held, key=lambda one: one.key):
            await stack.enter_async_context(each.lock)
        yield
