"""One pod of a simulated node: prepares its claims, moves its phases, and releases its claims at its end.

In: the pod as it is observed. Out: calls to plugins, statuses and Events in the API, a `PodRecord`.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import aiohttp

from testbed.api import Api, Json
from testbed.errors import ApiError
from testbed.kubelet import podstatus
from testbed.kubelet.cdi import Injected, UnresolvableError, inject
from testbed.kubelet.claims import ClaimNotReadyError, Claims
from testbed.kubelet.plugin import PluginError, PreparedDevice
from testbed.kubelet.podrecord import PodRecord, complaint

HICCUPS: Final = (aiohttp.ClientError, TimeoutError, ApiError)
"""Errors of the API server after which a kubelet tries again."""
FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}"
_STOP_LOOK_SECONDS: Final = 0.1
"""After how long it looks whether containers that are ending may end."""
_log = logging.getLogger(__name__)


class PodWorker:
    """Works on one pod until it is gone; kubelet's pod workers do the same (pkg/kubelet/pod_workers.go).

    `stop_seconds` returns how long its containers take to end; it is called until they have ended. `address` returns a new pod address.
    """

    def __init__(
        self,
        record: PodRecord,
        *,
        node: str,
        api: Api,
        claims: Claims,
        cdi: Path,
        stop_seconds: Callable[[], float],
        address: Callable[[], str],
    ) -> None:
        self.record = record
        self._node = node
        self._api = api
        self._claims = claims
        self._cdi = cdi
        self._stop_seconds = stop_seconds
        self._address = address
        self._latest: Json | None = None
        self._changed = asyncio.Event()
        self._released = False

    def observe(self, latest: Json | None) -> None:
        """Take the pod's latest version, None when it is gone from the API."""
        self._latest = latest
        self._changed.set()

    def wake(self) -> None:
        """Try again now: a plugin was registered or lost."""
        self._changed.set()

    async def run(self) -> None:
        """Work until the pod is gone; a failure is written as an Event and retried with growing pauses."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            self._changed.clear()
            try:
                wait = await self._step()
            except (PluginError, ClaimNotReadyError, UnresolvableError) as error:
                await self._complain(error)
                wait, pause = pause, min(2 * pause, _LONGEST_PAUSE_SECONDS)
            except HICCUPS as error:
                _log.info("pod %s/%s: %s", self.record.namespace, self.record.name, error)
                wait, pause = pause, min(2 * pause, _LONGEST_PAUSE_SECONDS)
            else:
                pause = FIRST_PAUSE_SECONDS
                if self.record.ended is not None:
                    return
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def _step(self) -> float | None:
        """Take the next step; returns after how many seconds to try again without a change, None for never."""
        latest, record = self._latest, self.record
        if latest is None or "deletionTimestamp" in latest["metadata"]:
            if record.running is not None and record.stopped is None:
                await self._stop()
                record.stopped = time.time()
            await self._release()
            if self._latest is not None:
                # The kubelet ends a pod's phase before the pod goes (KEP-3329).
                await self._set_status(podstatus.ended(self._latest))
                await self._api.delete(self._path, grace=0, uid=record.uid)
            record.ended = time.time()
            return None
        if latest.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            await self._release()
            return None
        if record.prepared is None:
            claims = await self._read_claims(latest)
            group = latest["spec"].get("schedulingGroup", {}).get("podGroupName", "")
            devices = await self._claims.prepare(record.uid, claims.values(), group)
            record.devices = {
                uid: frozenset((each.driver, each.pool, each.device) for each in found)
                for uid, found in devices.items()
            }
            record.injected = self._inject(
                latest, {name: devices[claim["metadata"]["uid"]] for name, claim in claims.items()}
            )
            record.prepared = time.time()
        if record.running is None:
            await self._set_status(podstatus.running(latest, self._address()))
            record.running = time.time()
        seconds = podstatus.complete_after(latest)
        if seconds is None:
            return None
        left = record.running + seconds - time.time()
        if left > 0:
            return left
        record.stopped = record.stopped or time.time()
        await self._release()
        await self._set_status(podstatus.succeeded(latest))
        record.succeeded = time.time()
        return None

    async def _stop(self) -> None:
        """Wait until the containers have taken their time to end."""
        began = time.monotonic()
        while (left := began + self._stop_seconds() - time.monotonic()) > 0:  # noqa: ASYNC110 - a test sets a plain number
            await asyncio.sleep(min(left, _STOP_LOOK_SECONDS))

    async def _release(self) -> None:
        if not self._released:
            await self._claims.release(self.record.uid)
            self._released = True

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
        found = await self._api.find(_CLAIMS.format(namespace, name))
        if found is None:
            raise ClaimNotReadyError(f"ResourceClaim {namespace}/{name} does not exist")
        return found

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
            result[container["name"]] = inject(ids, self._cdi)
        return result

    async def _set_status(self, status: Json) -> None:
        patch = {"metadata": {"uid": self.record.uid}, "status": status}
        await self._api.patch(f"{self._path}/status", patch, "strategic")

    async def _complain(self, error: Exception) -> None:
        """Write an Event as the kubelet does, once per text. It is not retried."""
        record, text = self.record, str(error)
        if text in record.problems:
            return
        record.problems.append(text)
        if self._latest is None:
            return
        event = complaint(record, self._node, error)
        with suppress(*HICCUPS):
            await self._api.create(f"/api/v1/namespaces/{record.namespace}/events", event)

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.record.namespace}/pods/{self.record.name}"
