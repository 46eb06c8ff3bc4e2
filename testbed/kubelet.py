"""A fake kubelet: one simulated node that speaks the real protocol, to the API server and to DRA plugins.

It runs no containers. All else is done as the kubelet does it and with the node's own identity: the Node object, plugin
registration, prepare and unprepare over the plugin's socket, resolving CDI ids, pod phases, Events.
"""

import asyncio
import logging
import time
import zlib
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from testbed import podstatus
from testbed.api import Api, Json
from testbed.cdi import Injected, UnresolvableError, inject
from testbed.claims import ClaimNotReadyError, Claims
from testbed.errors import ApiError
from testbed.node import NodeObject, NodeShape
from testbed.plugin import PluginError, PreparedDevice
from testbed.plugins import Plugins
from testbed.podrecord import PodRecord, complaint
from testbed.reflector import Reflector
from testbed.versions import DEFAULT

WIPING_DELAY: Final = 30.0  # the kubelet's defaultWipingDelay
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}"
_HICCUPS = (aiohttp.ClientError, TimeoutError, ApiError)
_log = logging.getLogger(__name__)


class _Pod:
    """A pod that is being taken care of."""

    def __init__(self, record: PodRecord) -> None:
        self.record = record
        self.latest: Json | None = None
        self.changed = asyncio.Event()
        self.stopped = False
        self.released = False


class FakeKubelet:
    """`async with FakeKubelet(shape, kubeconfig=..., root=...) as kubelet:` plays one node.

    `kubeconfig` is that of the user `system:node:<name>` in the group `system:nodes`. Below `root` lie
    `plugins_registry/` and `plugins/`, and `cdi/` unless `cdi` names another folder. `wiping_delay` is in seconds.
    `stop_seconds` is how long containers take to end, also after their pod was deleted by force. With `wipe_at_start`
    it deletes the node's ResourceSlices when it starts, as the kubelet does.
    """

    def __init__(
        self,
        shape: NodeShape,
        *,
        kubeconfig: Path,
        root: Path,
        cdi: Path | None = None,
        version: str = DEFAULT,
        wiping_delay: float = WIPING_DELAY,
        stop_seconds: float = 0.0,
        wipe_at_start: bool = True,
    ) -> None:
        self.shape = shape
        self.name = shape.name
        self.root = root
        self.cdi = cdi or root / "cdi"
        self.registry = root / "plugins_registry"
        self.records: dict[str, PodRecord] = {}
        self.stop_seconds = stop_seconds
        self._wipe_at_start = wipe_at_start
        self._api = Api.of(kubeconfig)
        self._node = NodeObject(self._api, shape, version)
        self._pods: dict[str, _Pod] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._addresses = 0
        for folder in (root / "plugins", self.registry, self.cdi):
            folder.mkdir(parents=True, exist_ok=True)
        self.plugins = Plugins(
            self.registry, wipe=self._wipe, wiping_delay=wiping_delay, changed=self._wake_all
        )
        self._reflector = Reflector(
            self._api, "/api/v1/pods", self._observe, fieldSelector=f"spec.nodeName={self.name}"
        )

    async def __aenter__(self) -> Self:
        """Start, and return when the Node is Ready."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop without a word to the API, like a kubelet that is stopped: pods and Node stay."""
        await self.stop()

    async def start(self) -> None:
        """Start, and return when the Node is Ready. After `stop` it goes on from its checkpoint."""
        await self._api.__aenter__()
        self._claims = Claims(self.plugins, self.root / "dra_manager_state.json")
        self._spawn(self._node.run())
        await self._node.ready.wait()
        if self._wipe_at_start:
            with suppress(*_HICCUPS):
                await self._api.delete_all(_SLICES, fieldSelector=f"spec.nodeName={self.name}")
        self._spawn(self.plugins.run())
        self._spawn(self._reflector.run())
        self._spawn(self._release_the_vanished())

    async def stop(self) -> None:
        """Stop at once; what plugins prepared stays prepared."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._pods.clear()
        self._node.ready.clear()
        self._reflector.listed.clear()
        await self._api.__aexit__(None, None, None)

    def record(self, name: str, namespace: str | None = None) -> PodRecord:
        """Return the latest record of a pod by name. Raises KeyError when none came to this node."""
        for record in reversed(self.records.values()):
            if record.name == name and namespace in (None, record.namespace):
                return record
        raise KeyError(f"no pod {name} on node {self.name}")

    # What is observed

    def _observe(self, uid: str, latest: Json | None) -> None:
        pod = self._pods.get(uid)
        if pod is None:
            if latest is None:
                return
            metadata = latest["metadata"]
            # After a restart everything but the time of binding is found out anew.
            bound = self.records[uid].bound if uid in self.records else time.time()
            record = self.records[uid] = PodRecord(metadata["namespace"], metadata["name"], uid, bound)
            pod = self._pods[uid] = _Pod(record)
            self._spawn(self._care(pod))
        pod.latest = latest
        pod.changed.set()

    def _wake_all(self) -> None:
        for pod in self._pods.values():
            pod.changed.set()

    # What is done for one pod

    async def _care(self, pod: _Pod) -> None:
        """Bring one pod forward until it is gone; failures are told, and tried again with growing pauses."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            pod.changed.clear()
            try:
                wait = await self._step(pod)
            except (PluginError, ClaimNotReadyError, UnresolvableError) as error:
                await self._complain(pod, error)
                wait, pause = pause, min(2 * pause, _LONGEST_PAUSE_SECONDS)
            except _HICCUPS as error:
                _log.info("pod %s/%s: %s", pod.record.namespace, pod.record.name, error)
                wait, pause = pause, min(2 * pause, _LONGEST_PAUSE_SECONDS)
            else:
                pause = _FIRST_PAUSE_SECONDS
                if pod.record.ended is not None:
                    self._pods.pop(pod.record.uid, None)
                    return
            with suppress(TimeoutError):
                await asyncio.wait_for(pod.changed.wait(), wait)

    async def _step(self, pod: _Pod) -> float | None:
        """Do what is next; returns after how many seconds to look again without a change, None for never."""
        latest, record = pod.latest, pod.record
        if latest is None or "deletionTimestamp" in latest["metadata"]:
            if record.running is not None and not pod.stopped:
                await asyncio.sleep(self.stop_seconds)
                pod.stopped = True
                record.stopped = time.time()
            await self._release(pod)
            if pod.latest is not None:
                # The kubelet ends a pod's phase before the pod goes (KEP-3329).
                await self._set_status(record, podstatus.ended(pod.latest))
                await self._api.delete(_path(record), grace=0, uid=record.uid)
            record.ended = time.time()
            return None
        if latest.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            await self._release(pod)
            return None
        if record.prepared is None:
            claims = await self._read_claims(latest)
            devices = await self._claims.prepare(record.uid, claims.values())
            record.devices = {
                uid: frozenset((each.driver, each.pool, each.device) for each in found)
                for uid, found in devices.items()
            }
            record.injected = self._inject(
                latest, {name: devices[claim["metadata"]["uid"]] for name, claim in claims.items()}
            )
            record.prepared = time.time()
        if record.running is None:
            await self._set_status(record, podstatus.running(latest, self._address()))
            record.running = time.time()
        seconds = podstatus.complete_after(latest)
        if seconds is None:
            return None
        left = record.running + seconds - time.time()
        if left > 0:
            return left
        record.stopped = record.stopped or time.time()
        await self._release(pod)
        await self._set_status(record, podstatus.succeeded(latest))
        record.succeeded = time.time()
        return None

    async def _release(self, pod: _Pod) -> None:
        if not pod.released:
            await self._claims.release(pod.record.uid)
            pod.released = True

    async def _read_claims(self, pod: Json) -> dict[str, Json]:
        """Return the pod's claims by the name that the pod gives them."""
        made = {
            each["name"]: each.get("resourceClaimName")
            for each in pod.get("status", {}).get("resourceClaimStatuses", ())
        }
        claims: dict[str, Json] = {}
        for reference in pod["spec"].get("resourceClaims", ()):
            name = reference["name"]
            if "resourceClaimName" in reference:
                claim = reference["resourceClaimName"]
            elif name not in made:
                raise ClaimNotReadyError(f"the ResourceClaim for {name!r} of the pod is not made yet")
            else:
                claim = made[name]
            if claim is not None:  # null: the pod needs none
                claims[name] = await self._read_claim(pod, claim)
        return claims

    async def _read_claim(self, pod: Json, name: str) -> Json:
        namespace = pod["metadata"]["namespace"]
        try:
            return await self._api.get(_CLAIMS.format(namespace, name))
        except ApiError as error:
            if error.status == 404:
                raise ClaimNotReadyError(f"ResourceClaim {namespace}/{name} does not exist") from error
            raise

    def _inject(self, pod: Json, devices: Mapping[str, tuple[PreparedDevice, ...]]) -> dict[str, Injected]:
        """Resolve for each container the ids of the claims, or requests in them, that it names."""
        result: dict[str, Injected] = {}
        for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
            ids = [
                identifier
                for used in container.get("resources", {}).get("claims", ())
                for device in devices.get(used["name"], ())
                if not used.get("request") or not device.requests or used["request"] in device.requests
                for identifier in device.cdi_ids
            ]
            result[container["name"]] = inject(ids, self.cdi)
        return result

    async def _set_status(self, record: PodRecord, status: Json) -> None:
        patch = {"metadata": {"uid": record.uid}, "status": status}
        await self._api.patch(f"{_path(record)}/status", patch, "strategic")

    async def _complain(self, pod: _Pod, error: Exception) -> None:
        """Write an Event as the kubelet does, once per text; nobody waits for it to succeed."""
        record, text = pod.record, str(error)
        if text in record.problems:
            return
        record.problems.append(text)
        if pod.latest is None:
            return
        event = complaint(record, self.name, error)
        with suppress(*_HICCUPS):
            await self._api.create(f"/api/v1/namespaces/{record.namespace}/events", event)

    # What is done for the node

    async def _release_the_vanished(self) -> None:
        """After a restart: release the claims of pods that went away meanwhile, until that succeeds."""
        await self._reflector.listed.wait()
        gone = self._claims.pods - self._pods.keys()
        while gone:
            for uid in sorted(gone):
                with suppress(PluginError):
                    await self._claims.release(uid)
                    gone -= {uid}
            await asyncio.sleep(_FIRST_PAUSE_SECONDS * len(gone))

    async def _wipe(self, driver: str) -> bool:
        selector = f"spec.driver={driver},spec.nodeName={self.name}"
        _log.info("node %s: wiping the slices of %s", self.name, driver)
        try:
            await self._api.delete_all(_SLICES, fieldSelector=selector)
        except _HICCUPS as error:
            _log.info("node %s: %s", self.name, error)
            return False
        return True

    def _address(self) -> str:
        """Return a pod address out of the node's own range 10.x.y.0/24."""
        self._addresses += 1
        node = zlib.crc32(self.name.encode())
        return f"10.{node >> 8 & 255}.{node & 255}.{self._addresses % 254 + 1}"

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("node %s: a task died", self.name, exc_info=error)


def _path(record: PodRecord) -> str:
    return f"/api/v1/namespaces/{record.namespace}/pods/{record.name}"
