"""A fake kubelet: one simulated node that speaks the real protocols to the API server and to DRA plugins.

In: the identity of a node, a folder for plugin sockets. Out: what kubelet does short of running containers: the Node object,
plugin registration, prepare and unprepare, CDI ids resolved, pod phases, Events (each pod: `podworker.py`).
"""

import asyncio
import logging
import time
import zlib
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from testbed.api import Api, Json
from testbed.kubelet.claims import Claims
from testbed.kubelet.plugin import PluginError
from testbed.kubelet.plugins import Plugins
from testbed.kubelet.podrecord import PodRecord
from testbed.kubelet.podworker import FIRST_PAUSE_SECONDS, HICCUPS, PodWorker
from testbed.node import NodeObject, NodeShape
from testbed.reflector import Reflector
from testbed.versions import DEFAULT

WIPING_DELAY: Final = 30.0  # the kubelet's defaultWipingDelay
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_log = logging.getLogger(__name__)


class FakeKubelet:
    """`async with FakeKubelet(shape, kubeconfig=..., root=...) as kubelet:` simulates one node.

    `kubeconfig` is that of the user `system:node:<name>` in the group `system:nodes`. Below `root` lie
    `plugins_registry/` and `plugins/`, and `cdi/` unless `cdi` names another folder. `wiping_delay` is in seconds.
    `stop_seconds` is how long containers take to end, also after their pod was deleted by force; a change of it counts for
    those that are ending, too. With `wipe_at_start` it deletes the node's ResourceSlices when it starts, as the kubelet does.
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
        self._workers: dict[str, PodWorker] = {}
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
        """Stop as a kubelet is stopped: pods and Node stay in the API."""
        await self.stop()

    async def start(self) -> None:
        """Start, and return when the Node is Ready. After `stop` it goes on from its checkpoint."""
        await self._api.__aenter__()
        self._claims = Claims(self.plugins, self.root / "dra_manager_state.json")
        self._spawn(self._node.run())
        await self._node.ready.wait()
        if self._wipe_at_start:
            with suppress(*HICCUPS):
                await self._api.delete_all(_SLICES, fieldSelector=f"spec.nodeName={self.name}")
        self._spawn(self.plugins.run())
        self._spawn(self._reflector.run())
        self._spawn(self._release_the_vanished())

    async def stop(self) -> None:
        """Stop at once; what plugins prepared stays prepared."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._workers.clear()
        self._node.ready.clear()
        self._reflector.listed.clear()
        await self._api.__aexit__(None, None, None)

    def record(self, name: str, namespace: str | None = None) -> PodRecord:
        """Return the latest record of a pod by name. Raises KeyError when none came to this node."""
        for record in reversed(self.records.values()):
            if record.name == name and namespace in (None, record.namespace):
                return record
        raise KeyError(f"no pod {name} on node {self.name}")

    # Pods

    def _observe(self, uid: str, latest: Json | None) -> None:
        worker = self._workers.get(uid)
        if worker is None:
            if latest is None:
                return
            metadata = latest["metadata"]
            # After a restart everything but the time of binding is found out again.
            bound = self.records[uid].bound if uid in self.records else time.time()
            record = self.records[uid] = PodRecord(metadata["namespace"], metadata["name"], uid, bound)
            worker = self._workers[uid] = PodWorker(
                record,
                node=self.name,
                api=self._api,
                claims=self._claims,
                cdi=self.cdi,
                stop_seconds=lambda: self.stop_seconds,
                address=self._address,
            )
            self._spawn(self._run_worker(uid, worker))
        worker.observe(latest)

    async def _run_worker(self, uid: str, worker: PodWorker) -> None:
        await worker.run()
        self._workers.pop(uid, None)

    def _wake_all(self) -> None:
        for worker in self._workers.values():
            worker.wake()

    # The node

    async def _release_the_vanished(self) -> None:
        """After a restart: end the containers of pods that went away meanwhile, and release their claims, until that succeeds."""
        await self._reflector.listed.wait()
        gone = self._claims.pods - self._workers.keys()
        await asyncio.sleep(self.stop_seconds if gone else 0.0)
        for record in (self.records[uid] for uid in gone if uid in self.records):
            record.stopped = record.stopped or time.time()
        while gone:
            for uid in sorted(gone):
                with suppress(PluginError):
                    await self._claims.release(uid)
                    gone -= {uid}
            await asyncio.sleep(FIRST_PAUSE_SECONDS * len(gone))

    async def _wipe(self, driver: str) -> bool:
        selector = f"spec.driver={driver},spec.nodeName={self.name}"
        _log.info("node %s: wiping the slices of %s", self.name, driver)
        try:
            await self._api.delete_all(_SLICES, fieldSelector=selector)
        except HICCUPS as error:
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
