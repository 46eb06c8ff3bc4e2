"""The NVML session: one for the life of the agent; every error code becomes a HardwareError.

In: names of NVML functions (as nvidia-ml-py has them) and their arguments. Out: their answers, or a HardwareError whose
text names the object, the function and the driver's message. One long session, because opening one and looking up handles can
take seconds on busy nodes. NVML itself is safe to call from many threads.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import pynvml

from apportion.errors import Busy, HardwareError, Lost, NoRoom, Occupied, Silent, Unsupported

HOW_TO_RESET: Final = (
    "a reset wants no clients of the GPU, and this agent is one: it lets go of all GPUs while its Node has the label"
    " nvidia.com/gpu.deploy.client=paused-for-driver-upgrade"
)
NOT_THERE: Final = frozenset({pynvml.NVML_ERROR_NOT_FOUND})
"""Gone, or never made."""
NOT_OFFERED: Final = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
"""This driver or GPU does not know what was asked for; something older or nothing takes its place."""


class NoSession(HardwareError):  # noqa: N818 - named after what is missing
    """There is no session with the driver (any more): no card is to blame."""


class Released(Silent):
    """The session is let go of, so that the driver can be exchanged or a GPU reset: what is on the GPUs is unknown, and may stay."""

    @property
    def kind(self) -> str:
        """Its own name: no card is to blame."""
        return type(self).__name__


class _NoLibrary(Unsupported):
    """There is no libnvidia-ml on this machine."""


_nvml: Any = pynvml
"""The same module where its missing annotations stand in the way."""
_KINDS: Mapping[int, type[HardwareError]] = {
    pynvml.NVML_ERROR_UNINITIALIZED: NoSession,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: NoSession,
    pynvml.NVML_ERROR_IN_USE: Occupied,
    pynvml.NVML_ERROR_NOT_READY: Busy,
    pynvml.NVML_ERROR_TIMEOUT: Busy,
    pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES: NoRoom,
    pynvml.NVML_ERROR_GPU_IS_LOST: Lost,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: Lost,
    pynvml.NVML_ERROR_NOT_SUPPORTED: Unsupported,
    pynvml.NVML_ERROR_INVALID_ARGUMENT: Unsupported,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: Unsupported,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: _NoLibrary,
    pynvml.NVML_ERROR_NO_PERMISSION: Unsupported,
    pynvml.NVML_ERROR_RESET_REQUIRED: Unsupported,
}
_ADVICE: Mapping[int, str] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "is the NVIDIA driver installed, and its libraries visible to the agent?",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "is the NVIDIA kernel module loaded?",
    pynvml.NVML_ERROR_NO_PERMISSION: "it needs root, or the MIG capability files (mig/config, mig/monitor)",
    pynvml.NVML_ERROR_RESET_REQUIRED: f"the GPU needs a reset first; {HOW_TO_RESET}",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "library and kernel module differ: reboot, or reload the module",
}


class Session:
    """A way to call NVML that opens itself when it is first needed, and again after the driver was reloaded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = False
        self.released = ""
        """Why no session is opened, for people; "": it is when it is needed."""
        self._handles: dict[str, Any] = {}
        self._before_end: list[Callable[[], None]] = []
        self.ended = 0
        """How many sessions are over: what was made in one is not to be used in the next."""

    def call(self, function: str, *args: Any, about: str = "NVML") -> Any:
        """Call a function; raises the HardwareError that its refusal means, in which `about` names the object."""
        return self.ask(function, *args, none_on=frozenset(), about=about)

    def ask(self, function: str, *args: Any, none_on: frozenset[int], about: str = "NVML") -> Any:
        """Call a function; None stands for a refusal with one of these codes."""
        self._ensure()
        try:
            return getattr(_nvml, function)(*args)
        except _nvml.NVMLError as error:
            if error.value in none_on:
                return None
            if error.value == pynvml.NVML_ERROR_UNINITIALIZED:
                with self._lock:
                    self._end()
            raise _translated(error, function, about) from None

    def present(self) -> bool:
        """Say whether the library is on this machine; raises HardwareError when it is there and does not work."""
        try:
            self._ensure()
        except _NoLibrary:
            return False
        return True

    def handle(self, uuid: str, about: str) -> Any:
        """Return the handle of a GPU, looked up once per session."""
        self._ensure()
        found = self._handles.get(uuid)
        if found is None:
            found = self._handles[uuid] = self.call("nvmlDeviceGetHandleByUUID", uuid.encode(), about=about)
        return found

    def remember(self, uuid: str, handle: Any) -> None:
        """Keep a handle that was found by other means."""
        self._handles[uuid] = handle

    def before_end(self, let_go: Callable[[], None]) -> None:
        """Have this called before the session is ended, for what would outlive it; it calls the library itself, and raises nothing."""
        with self._lock:
            self._before_end.append(let_go)

    def release(self, why: str) -> None:
        """End the session, which closes the driver's device files, and open none any more."""
        with self._lock:
            self.released = why
        for let_go in self._before_end:
            # Without the lock: it waits for calls that are under way.
            let_go()
        with self._lock:
            if self._open:
                self._end()
                _nvml.nvmlShutdown()

    def answers(self) -> bool:
        """Say whether there is a driver for the next process that loads its library.

        Raises nothing. This process has the library of the driver that it let go of, which another one refuses to answer.
        """
        try:
            _nvml.nvmlInitWithFlags(pynvml.NVML_INIT_FLAG_NO_GPUS)
        except _nvml.NVMLError as error:
            return bool(error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
        _nvml.nvmlShutdown()
        return True

    def _ensure(self) -> None:
        with self._lock:
            if self._open:
                return
            if self.released:
                raise Released(f"NVML: {self.released}")
            try:
                # A node whose last GPU fell off the bus is still a node with a driver.
                _nvml.nvmlInitWithFlags(pynvml.NVML_INIT_FLAG_NO_GPUS)
            except _nvml.NVMLError as error:
                raise _translated(error, "nvmlInitWithFlags", "NVML") from None
            self._open = True

    def _end(self) -> None:
        """Take note that the library has no session any more. The caller holds the lock."""
        self._open = False
        self.ended += 1
        self._handles.clear()


def text(value: bytes | str) -> str:
    """Return a text of the driver's: older bindings give bytes, newer ones mostly not."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _translated(error: Any, function: str, about: str) -> HardwareError:
    advice = _ADVICE.get(error.value)
    said = f"{about}: {function}: {error}" + (f" ({advice})" if advice else "")
    return _KINDS.get(error.value, HardwareError)(said)
