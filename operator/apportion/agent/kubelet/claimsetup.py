"""What a claim asks its devices to be set up as: checked, done, undone.

In: an allocated claim, its row, its devices as its containers get them. Out: the same with what containers need beside, or an error
that names the field of the claim.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from apportion.agent.cdi import Injection
from apportion.agent.devices.values import Edits
from apportion.agent.kubelet.configuration import Configured, configurations
from apportion.agent.kubelet.metadata import MetadataFolder, rank_table
from apportion.agent.kubelet.ranktablefile import VARIABLE, table_request
from apportion.agent.kubelet.sharingplan import check_sharing, shares_row, sharing_row
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep
from apportion.agent.sharing.setups import Setups
from apportion.agent.slices.device import device_attributes
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput, HardwareError, NotReady

_LEAST_SECONDS = 1.0
"""For what is to be set up, also when the devices took all the time there was."""


class ClaimSetup:
    """For the prepare calls of one driver."""

    def __init__(
        self, context: AgentContext, setups: Setups, metadata: MetadataFolder, driver: str, kind: str
    ) -> None:
        self._context = context
        self._metadata = metadata
        self._setups = setups
        self._driver = driver
        self._kind = kind

    def check(self, claim: Claim, results: Sequence[DeviceResult], devices: Sequence[ClaimDevice]) -> None:
        """Raise BrokenInput for a configuration that would not be honoured, before any device is made ready."""
        check_sharing(self._configured(claim, results), devices, self._context.hardware.cards)
        self._table_request(claim, results)

    async def done(
        self,
        claim: Claim,
        row: ClaimRow,
        results: Sequence[DeviceResult],
        injections: Sequence[Injection],
        deadline: float,
    ) -> list[Injection]:
        """Set the devices up as the claim asks, until `deadline`, and add what its containers need for it.

        A claim that runs keeps what it has, whatever its parameters are now. Raises BrokenInput and the errors of `Setups.set_up`.
        """
        uuids = {each.device: each.uuid for each in injections}
        configured: dict[str, Configured] = {}
        wanted = shares_row(row)
        if wanted is None and row.step is ClaimStep.PREPARED:
            wanted = self._context.journal.sharing_of(row.uid, row.driver)
        elif wanted is None:
            configured = self._configured(claim, results)
            wanted = sharing_row(row, configured, uuids, self._context.hardware.cards)
        if wanted is None:
            await self.undone(row)
            return list(injections)
        if any(uuids.get(each.device) != each.uuid for each in wanted.devices):
            raise NotReady(
                f"ResourceClaim {row.key}: a device of it was set up and is gone; it is unprepared first"
            )
        seconds = max(deadline - self._context.clock(), _LEAST_SECONDS)
        try:
            extra = await self._setups.set_up(wanted, seconds)
        except (HardwareError, NotReady) as error:
            at = configured.get(wanted.devices[0].device)
            raise type(error)(f"{at.field}.sharing: {error}" if at is not None else str(error)) from None
        return [
            each if device.admin else _with(each, extra)
            for device, each in zip(row.devices, injections, strict=True)
        ]

    def variables(
        self, claim: Claim, row: ClaimRow, results: Sequence[DeviceResult]
    ) -> dict[str, tuple[str, str]]:
        """Return by request the variable that the claim asks for. Raises BrokenInput, but not for a claim that runs: it has none then."""
        try:
            request = self._table_request(claim, results)
        except BrokenInput:
            if row.step is not ClaimStep.PREPARED:
                raise
            return {}
        return {request: (VARIABLE, rank_table(claim, self._driver, request))} if request else {}

    def _table_request(self, claim: Claim, results: Sequence[DeviceResult]) -> str:
        cards = self._context.hardware.cards

        def why_none(devices: Sequence[DeviceResult]) -> str:
            names = [result.device.name for result in devices]
            return self._metadata.why_unranked({name: device_attributes(name, cards, "") for name in names})

        return table_request(claim, self._driver, results, cards, why_none)

    async def undone(self, row: ClaimRow) -> None:
        """Take back what was set up for a claim; without anything it is fine."""
        await self._setups.end(row.uid, row.driver)

    def _configured(self, claim: Claim, results: Sequence[DeviceResult]) -> dict[str, Configured]:
        cards = self._context.hardware.cards
        return configurations(claim, self._driver, results, cards, self._kind)


def _with(injection: Injection, extra: Mapping[str, Edits]) -> Injection:
    """Add what a device's containers need; mounts are theirs alone, because other containers of the claim have other daemons or none."""
    edits = extra.get(injection.device)
    if edits is None:
        return injection
    env = injection.edits.env + edits.env
    return replace(injection, edits=replace(injection.edits, env=env), own=injection.own + edits.mounts)
