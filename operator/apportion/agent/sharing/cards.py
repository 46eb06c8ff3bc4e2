"""What is set on the cards of devices that programs share: compute modes and time slices, and the driver's defaults for both.

In: devices of a claim's row. Out: what the driver answers, or an error that says whether the card is gone or only not there yet.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import structlog

from apportion.agent.devices.sharing import Sharing, TimeSlice
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.rows import SharedDevice
from apportion.agent.sharing import acts
from apportion.errors import HardwareError, Lost, Silent

_log = structlog.get_logger()
R = TypeVar("R")


class SharedCards:
    """The cards of one node. The caller holds their locks."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context

    async def on(self, device: SharedDevice, act: Callable[[Sharing, str], R]) -> R:
        """Return what an act on a device's card answers. Raises the errors of `Hardware.set_up`, and Lost for a card that has left."""
        hardware = self._context.hardware
        card = next((card.name for card in hardware.cards.values() if card.uuid == device.card_uuid), "")
        if not card and hardware.unknown:
            raise Silent(f"{device.device}: its card {device.card_uuid} is not there (yet)")
        if not card:
            raise Lost(f"{device.device}: its card {device.card_uuid} is not there")
        return await hardware.set_up(card, lambda sharing: act(sharing, card))

    async def set_exclusive(self, device: SharedDevice, *, exclusive: bool) -> None:
        """Let one process at a time have contexts on a device, or any. Raises as `on`."""
        # A MIG device has no compute mode of its own (dra-driver-nvidia-gpu sets that of whole GPUs only).
        if device.whole:
            await self.on(device, partial(acts.set_exclusive, exclusive=exclusive))

    async def set_time_slice(self, device: SharedDevice, time_slice: TimeSlice) -> None:
        """Set a device's time slice. Raises as `on`."""
        await self.on(device, partial(acts.set_time_slice, time_slice=time_slice))

    async def cleared(self, device: SharedDevice) -> bool:
        """Give a device the driver's defaults; returns False while it may not have them: its card does not answer, or refuses.

        One whose card is lost or has left has them: a driver that sees it anew starts with its defaults. Raises NotReady.
        """
        try:
            if device.mps:
                await self.set_exclusive(device, exclusive=False)
            if device.time_slice is not TimeSlice.DEFAULT:
                await self.set_time_slice(device, TimeSlice.DEFAULT)
        except Lost as error:
            _log.warning("sharing.card_lost", device=device.device, error=str(error))
            return not isinstance(error, Silent)
        except HardwareError as error:
            # Some lost GPUs answer "Unknown Error" and the like, for as long as they are there.
            _log.warning("sharing.not_taken_back", device=device.device, error=str(error))
            return False
        self._context.at("sharing.taken_back")
        return True
