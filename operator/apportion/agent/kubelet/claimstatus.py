"""Writes `status.devices` of claims (KEP-4817): one entry for each device of ours.

In: device conditions; those of one claim and driver wait together. Out: merge patches of `/status` that carry the version they were
made from and leave the entries of other drivers as they are. Nobody waits for them, and no prepare fails for them. Entries go by
themselves when the claim is deallocated (the API server drops them).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from apportion.agent.cdi import Injection
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.lifecycle.report import condition
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from apportion.dra.allocation import DeviceResult
from apportion.errors import ApiError, ApportionError, Missing, Overtaken, Unreachable

READY = "Ready"
HEALTHY = "Healthy"
_log = structlog.get_logger()
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeviceCondition:
    """One condition of one device."""

    device: str
    condition: str
    holds: bool
    reason: str
    message: str
    uuid: str = ""
    share: str = ""
    """Its `shareID`; "" when the claim has the device for itself."""
    correction: bool = False
    """It only takes the place of a condition of its type; where the status has none, none is written."""

    @classmethod
    def ready(cls, made: Injection) -> "DeviceCondition":
        """Return Ready=True for a device that containers can use."""
        share = made.share.id if made.share is not None else ""
        return cls(made.device, READY, True, "Prepared", made.edits.warning, made.uuid, share)  # noqa: FBT003

    @classmethod
    def failed(cls, result: DeviceResult, error: ApportionError) -> "DeviceCondition":
        """Return Ready=False with the error for a device."""
        name, share = result.device.name, result.share_id or ""
        return cls(name, READY, False, error.kind, str(error), share=share)  # noqa: FBT003


class ClaimStatusWriter:
    """Writes conditions in the background."""

    def __init__(
        self,
        client: Client,
        now: Callable[[], str],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`now` gives the time as the API writes it."""
        self._client = client
        self._now = now
        self._sleep = sleep
        self._waiting: OrderedDict[
            tuple[ClaimRef, str], tuple[str, dict[tuple[str, str, str], DeviceCondition]]
        ] = OrderedDict()
        self._wakeup = asyncio.Event()

    def add(self, ref: ClaimRef, driver: str, pool: str, new: Sequence[DeviceCondition]) -> None:
        """Queue conditions; one replaces a waiting one of the same type and device."""
        _, waiting = self._waiting.setdefault((ref, driver), (pool, {}))
        waiting.update({(row.device, row.share, row.condition): row for row in new})
        self._wakeup.set()

    async def run(self) -> None:
        """Write until cancelled. A server that does not answer is waited for; one that refuses is not asked again."""
        pause = 0.1
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            while self._waiting:
                (ref, driver), (pool, new) = self._waiting.popitem(last=False)
                try:
                    await self._write(ref, driver, pool, tuple(new.values()))
                    pause = 0.1
                except (Overtaken, Unreachable):
                    # Conditions that were added meanwhile are newer.
                    _, newer = self._waiting.setdefault((ref, driver), (pool, {}))
                    newer.update({key: row for key, row in new.items() if key not in newer})
                    await self._sleep(pause)
                    pause = min(pause * 2, 10.0)
                except ApiError as error:
                    _log.warning("claim.not_reported", claim=ref.key, driver=driver, error=str(error))

    async def _write(self, ref: ClaimRef, driver: str, pool: str, new: Sequence[DeviceCondition]) -> None:
        try:
            raw = await self._client.get(CLAIMS, ref.name, namespace=ref.namespace)
        except Missing:
            return
        status = raw.get("status") or {}
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
        ours = {
            (row["device"], row.get("shareID", ""))
            for row in results
            if row["driver"] == driver and row["pool"] == pool
        }
        new = [row for row in new if (row.device, row.share) in ours]
        if raw["metadata"]["uid"] != ref.uid or not new:
            return
        before: list[Json] = status.get("devices") or []
        after = merge_conditions(before, driver, pool, new, self._now())
        if after == before:
            return
        body = {
            "metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]},
            "status": {"devices": after},
        }
        await self._client.patch(CLAIMS, ref.name, body, namespace=ref.namespace, sub="status")


def merge_conditions(
    before: Sequence[Json], driver: str, pool: str, new: Sequence[DeviceCondition], now: str
) -> list[Json]:
    """Return all entries with the conditions merged into ours. Pure."""
    after = [dict(entry) for entry in before]
    for row in new:
        entry = next((each for each in after if _is(each, driver, pool, row)), None)
        had = any(each["type"] == row.condition for each in (entry or {}).get("conditions") or ())
        if row.correction and not had:
            continue
        if entry is None:
            entry = {"driver": driver, "pool": pool, "device": row.device}
            if row.share:
                entry["shareID"] = row.share
            after.append(entry)
        conditions: list[Json] = list(entry.get("conditions") or ())
        entry["conditions"] = [each for each in conditions if each["type"] != row.condition]
        entry["conditions"].append(
            condition(row.condition, row.reason, row.message, now, holds=row.holds, before=conditions)
        )
        entry["conditions"].sort(key=lambda each: str(each["type"]))
        if row.uuid:
            entry["data"] = {"uuid": row.uuid}
    return after


def _is(entry: Mapping[str, Any], driver: str, pool: str, row: DeviceCondition) -> bool:
    where = entry["driver"], entry["pool"], entry["device"], entry.get("shareID") or ""
    return where == (driver, pool, row.device, row.share)
