"""The DCMI session, opened once; every error code becomes a HardwareError.

In: names of DCMI functions with their arguments. Out: nothing (answers come back in structures), or a HardwareError whose
text names the object, the function and the driver's code. Codes: the vendor's public header and API reference; the
library itself has no texts.
"""

import ctypes
import threading
from collections.abc import Mapping
from ctypes import Structure, byref, c_int, c_uint
from pathlib import Path
from typing import Any, Final, TypeVar

from apportion.agent.devices.ascend import interfaces
from apportion.errors import Busy, HardwareError, Lost, Occupied, Unsupported

INVALID_PARAMETER: Final = -8001
NOT_PERMITTED: Final = -8002
INNER_ERROR: Final = -8005
TIME_OUT: Final = -8006
NO_SUCH_DEVICE: Final = frozenset({-8007, -8008})
BUSY_OR_IN_CONTAINER: Final = -8013
"""The library gives one code for `not in a container` and for the driver's `busy`."""
FILE_FAILED: Final = -8014
NOT_SUPPORTED: Final = frozenset({-8255})
MISSING: Final = -99998
"""A code of our own: this library has no such function."""

_LIBRARY: Final = "libdcmi.so"
_INFO: Final = "dcmi_get_device_info"
_FOLDER: Final = "usr/local/dcmi"
_TEXTS: Mapping[int, str] = {
    INVALID_PARAMETER: "invalid parameter",
    NOT_PERMITTED: "not permitted: it needs root, on the host or in a privileged container",
    -8003: "memory operation failed",
    INNER_ERROR: "internal error",
    TIME_OUT: "timed out",
    -8007: "invalid device id",
    -8008: "the device does not exist",
    -8009: "the driver's ioctl failed",
    -8010: "no message could be sent to the device",
    -8011: "the device sent no answer",
    -8012: "not ready",
    BUSY_OR_IN_CONTAINER: "the device is busy, or the call is not for containers",
    FILE_FAILED: "a file of the driver's could not be read or written",
    -8017: "an upgrade is running",
    -8020: "the resource is in use",
    -8255: "not supported",
    MISSING: "this driver's library has no such function",
}
_KINDS: Mapping[int, type[HardwareError]] = {
    INVALID_PARAMETER: Unsupported,
    NOT_PERMITTED: Unsupported,
    TIME_OUT: Busy,
    -8007: Lost,
    -8008: Lost,
    -8011: Busy,
    -8012: Busy,
    BUSY_OR_IN_CONTAINER: Busy,
    -8017: Busy,
    -8020: Occupied,
    -8255: Unsupported,
    MISSING: Unsupported,
}

S = TypeVar("S", bound=Structure)


class NoLibrary(Unsupported):
    """There is no libdcmi on this machine."""


class Session:
    """A way to call DCMI that opens itself when it is first needed. The library has no end of a session."""

    def __init__(self, root: Path = Path("/")) -> None:
        """`root` is where the host's file system is: the driver does not put its library where the loader looks."""
        self._root = root
        self._lock = threading.Lock()
        self._library: Any = None
        self._second = False

    def call(self, function: str, *args: Any, about: str = "DCMI") -> None:
        """Call a function; raises the HardwareError that its refusal means, in which `about` names the object."""
        code = self.ask(function, *args)
        if code != 0:
            raise refusal(code, function, about)

    def ask(self, function: str, *args: Any) -> int:
        """Call a function; returns its code, 0 for success."""
        if self.second:
            function, args = interfaces.second(function, args)
        found = getattr(self._library, function, None)
        return (
            MISSING if found is None or (self._second and function.startswith("dcmi_")) else int(found(*args))
        )

    @property
    def second(self) -> bool:
        """Whether this node's driver answers the second interface only; opens the session."""
        self._ensure()
        return self._second

    def answers(self, function: str, *args: Any, about: str) -> bool:
        """Call a function that not every driver or chip supports; returns whether this one does. Raises as `call`."""
        code = self.ask(function, *args)
        if code in NOT_SUPPORTED or code == MISSING:
            return False
        if code != 0:
            raise refusal(code, function, about)
        return True

    def number(self, function: str, card: int, device: int, *, about: str) -> int | None:
        """Ask for one number about a chip; None where driver or chip does not support it."""
        answer = c_uint()
        return answer.value if self.answers(function, card, device, byref(answer), about=about) else None

    def info(self, card: int, device: int, main: int, sub: int, out: S, *, about: str) -> S:
        """Fill a structure from dcmi_get_device_info."""
        self.call(_INFO, *_info(card, device, main, sub, out), about=about)
        return out

    def informs(self, card: int, device: int, main: int, sub: int, out: Structure, *, about: str) -> bool:
        """Fill a structure as `info` does; returns whether driver and chip support it. Raises as `call`."""
        return self.answers(_INFO, *_info(card, device, main, sub, out), about=about)

    def present(self) -> bool:
        """Say whether the library is on this machine; raises HardwareError when it is and no driver answers it (yet)."""
        try:
            self._ensure()
        except NoLibrary:
            return False
        return True

    def _ensure(self) -> None:
        with self._lock:
            if self._library is not None:
                return
            library = self._load()
            code, function = int(library.dcmi_init()), "dcmi_init"
            # The first interface refuses 950, and the second everything else.
            self._second = code in NOT_SUPPORTED and hasattr(library, "dcmiv2_init")
            if self._second:
                code, function = int(library.dcmiv2_init()), "dcmiv2_init"
            if code != 0:
                raise refusal(code, function, "DCMI")
            self._library = library

    def _load(self) -> Any:
        addresses = (_LIBRARY, f"/{_FOLDER}/{_LIBRARY}", str(self._root / _FOLDER / _LIBRARY))
        refusals = []
        for address in dict.fromkeys(addresses):
            try:
                return ctypes.CDLL(address)
            except OSError as error:
                refusals.append(str(error))
                if Path(address).is_file():
                    raise HardwareError(f"{address} is there and does not load: {error}") from None
        raise NoLibrary(
            f"no {_LIBRARY} ({refusals[0]}): is the Ascend driver installed, and its libraries visible to the agent?"
        )


def _info(card: int, device: int, main: int, sub: int, out: Structure) -> tuple[Any, ...]:
    size = c_uint(ctypes.sizeof(out))
    return card, device, c_int(main), c_uint(sub), byref(out), byref(size)


def refusal(code: int, function: str, about: str) -> HardwareError:
    """Return the error that a code means."""
    words = _TEXTS.get(code, "unknown error")
    return _KINDS.get(code, HardwareError)(f"{about}: {function}: {words} ({code})")
