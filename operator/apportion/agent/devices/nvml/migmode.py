"""The MIG mode of GPUs, from Hopper on: switched while the driver runs.

In: a session, a GPU. Out: the mode, or the HardwareError that kept it from being switched. A mode that is pending is taken back.
"""

from typing import Final

import pynvml
import structlog

from apportion.agent.devices.nvml.cards import HOPPER, Gpu
from apportion.agent.devices.nvml.profiles import mig_profiles
from apportion.agent.devices.nvml.session import HOW_TO_RESET, Session
from apportion.errors import HardwareError, Occupied, Unsupported

_log = structlog.get_logger()

_MODES: Final = {True: pynvml.NVML_DEVICE_MIG_ENABLE, False: pynvml.NVML_DEVICE_MIG_DISABLE}


class MigMode:
    """Of the GPUs of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def let_go(self, gpu: Gpu) -> None:
        """Switch the mode off where nobody needs it any more, and on again where the driver names no profiles without it.

        Drivers of the 535 line do not: the next agent would publish such a GPU as one that cannot be cut. `make_whole` switches it off when
        a claim has the GPU whole. Raises HardwareError as `switch`.
        """
        self.switch(gpu, on=False)
        handle = self._session.handle(gpu.card.uuid, gpu.name)
        if not mig_profiles(self._session, handle, gpu.card.capacity["memory"], {}, gpu.name):
            self.switch(gpu, on=True)

    def switch(self, gpu: Gpu, *, on: bool) -> None:
        """Switch the mode. Raises Occupied while programs use the GPU, Unsupported where it takes a reset."""
        word = "on" if on else "off"
        if gpu.architecture < HOPPER:
            raise Unsupported(
                f"{gpu.name}: MIG mode cannot be switched {word} without a reset of the GPU on this architecture;"
                f" {HOW_TO_RESET}"
            )
        handle = self._session.handle(gpu.card.uuid, gpu.name)
        # The call itself succeeds; whether the mode is active is its answer.
        status = self._session.call("nvmlDeviceSetMigMode", handle, _MODES[on], about=gpu.name)
        if status != pynvml.NVML_SUCCESS:
            self._take_back(gpu, on=not on)
        if status == pynvml.NVML_ERROR_IN_USE:
            raise Occupied(f"{gpu.name}: MIG mode cannot be switched {word} while programs use the GPU")
        if status == pynvml.NVML_ERROR_RESET_REQUIRED:
            raise Unsupported(
                f"{gpu.name}: the driver wants a reset before MIG mode is {word}; {HOW_TO_RESET}"
            )
        if status != pynvml.NVML_SUCCESS:
            raise HardwareError(f"{gpu.name}: MIG mode is not {word}: the driver answers {status}")
        _log.info("nvml.mig_mode", card=gpu.name, mode=word)

    def _take_back(self, gpu: Gpu, *, on: bool) -> None:
        """Let a mode that is pending not come with the next reset, when nobody asks for it any more."""
        try:
            handle = self._session.handle(gpu.card.uuid, gpu.name)
            self._session.call("nvmlDeviceSetMigMode", handle, _MODES[on], about=gpu.name)
        except HardwareError as error:
            _log.warning("nvml.mig_mode_pending", card=gpu.name, error=str(error))
