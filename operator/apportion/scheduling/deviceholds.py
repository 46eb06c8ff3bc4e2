"""DeviceHolds: shows people what the operator holds beside allocations, and why.

In: what is held, as the operator remembers it. Out: DeviceHold objects, made, changed and deleted a moment later. Nothing is decided by them here: without them, as
where the kind is not served yet, all goes on. A new leader puts right what another one has left.
"""

import asyncio
from collections.abc import Callable, Iterator

import structlog

from apportion.api.hold import DeviceHold, DeviceHoldSpec
from apportion.cluster.client import Client
from apportion.cluster.kinds import HOLDS
from apportion.errors import ApiError, BrokenInput, Missing, NotLeading, Overtaken
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.defrag.campaigns import Campaigns
from apportion.scheduling.holdspecs import Named, of_moves, of_preemptions, of_reservations

_log = structlog.get_logger()
PAUSE = 1.0
"""Seconds between two looks at what is held."""
_REST = 30.0
"""Seconds after a refusal, or while the server does not serve the kind."""
_LOOKS = 60
"""Looks after which they are listed anew: somebody may have deleted one."""
_MOST_WRITES = 32
"""Objects that are written after one look: in a storm reservations come and go with every pass."""


class DeviceHolds:
    """Writes the objects while this replica leads."""

    def __init__(
        self,
        client: Client,
        cycle: Cycle,
        campaigns: Campaigns,
        *,
        fence: Callable[[], None],
    ) -> None:
        """`cycle` reserves and preempts, `campaigns` moves pods."""
        self._client = client
        self._cycle = cycle
        self._campaigns = campaigns
        self._fence = fence
        self._written: dict[str, DeviceHoldSpec | None] | None = None
        """What the server has by name, None what cannot be read; None: not known."""

    async def run(self) -> None:
        """Act until cancelled."""
        while True:
            self._written = None
            for _ in range(_LOOKS):
                await asyncio.sleep(PAUSE)
                if not await self.act():
                    await asyncio.sleep(_REST)

    async def act(self) -> bool:
        """Write what changed since it was last looked; False: it cannot be written now."""
        written, self._written = self._written, None
        try:
            if written is None:
                written = await self._listed()
            held = dict(self.held())
            gone = written.keys() - held.keys()
            changed = [name for name, spec in held.items() if written.get(name) != spec]
            for name in [*sorted(gone), *changed][:_MOST_WRITES]:
                self._fence()
                # One that changed is made anew: that needs no right to change them.
                if name in written:
                    await self._client.delete(HOLDS, name)
                    del written[name]
                if name in held:
                    await self._create(name, held[name])
                    written[name] = held[name]
        except (NotLeading, Overtaken):
            return True  # somebody else makes them, too: they are listed anew
        except Missing:
            return False  # the kind is not served
        except ApiError as error:
            _log.warning("holds.not_shown", error=str(error))
            return False
        except Exception:  # noqa: BLE001 - whatever it is, it is reported, and nothing is decided by what is shown
            _log.exception("holds.defect")
            return False
        self._written = written
        return True

    def held(self) -> Iterator[Named]:
        """Yield what is held now, by name of the object."""
        managed = self._cycle.decider.snapshot.managed
        yield from of_reservations(self._cycle.reserved, managed)
        yield from of_preemptions(self._cycle.preemptions.active, managed)
        yield from of_moves(self._campaigns.carried_out)

    async def _listed(self) -> dict[str, DeviceHoldSpec | None]:
        found: dict[str, DeviceHoldSpec | None] = {}
        for raw in (await self._client.list(HOLDS))["items"]:
            name = raw["metadata"]["name"]
            try:
                found[name] = DeviceHold.from_json(raw).spec
            except BrokenInput:
                found[name] = None
        return found

    async def _create(self, name: str, spec: DeviceHoldSpec) -> None:
        body = {"apiVersion": HOLDS.api_version, "kind": HOLDS.name, "metadata": {"name": name}}
        await self._client.create(HOLDS, {**body, "spec": spec.to_json()})
