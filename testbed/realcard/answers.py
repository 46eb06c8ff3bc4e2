"""Answers: what NVML answers to every call of the agent's that changes nothing; the fake is held against what real cards answered.

In: NVIDIA's own binding, and the library that it finds. Out: rows of function, arguments, and what came back: a value, or the code of a
refusal. What names one card or one moment (UUID, bus, minor, free memory) is left out or only described.
"""

import ctypes
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pynvml

_nvml: Any = pynvml
"""The same module where its missing annotations stand in the way."""
NOBODY: Final = "GPU-00000000-0000-0000-0000-000000000000"
_LINKS: Final = 18
"""NVLinks of an H100, the most that a GPU of its time has (NVML_NVLINK_MAX_LINKS)."""
_NEW_CONSTANTS: Final = 8
"""As the agent asks beyond those that the binding knows."""
_ALONE: Final = (
    "nvmlDeviceGetName",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetVirtualizationMode",
    "nvmlDeviceGetAddressingMode",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceGetComputeRunningProcesses",
)
"""Calls about a GPU without more arguments, whose answers are compared as they are."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back from one call."""

    function: str
    arguments: tuple[int | str, ...]
    value: Any = None
    """None for a refusal."""
    refused: int = 0
    """nvmlReturn_t; 0: it was answered."""
    milliseconds: float = 0.0

    @property
    def called(self) -> str:
        """The call as text."""
        return f"{self.function}({', '.join(map(str, self.arguments))})"

    def to_json(self) -> dict[str, Any]:
        """Return a row of the report."""
        said = {"refused": self.refused} if self.refused else {"value": self.value}
        return {"call": self.called, **said, "ms": round(self.milliseconds, 3)}


def answers() -> Iterator[Answer]:
    """Ask everything about the first GPU, in two sessions; nobody else in this process may have one. Raises NVMLError without a driver."""
    _nvml.nvmlInitWithFlags(pynvml.NVML_INIT_FLAG_NO_GPUS)
    try:
        yield _asked("nvmlSystemGetDriverVersion", then=_shape)
        yield _asked("nvmlSystemGetCudaDriverVersion")
        count = _nvml.nvmlDeviceGetCount()
        yield _asked("nvmlDeviceGetHandleByIndex", count, shown=("count",))
        yield _asked("nvmlDeviceGetHandleByUUID", NOBODY.encode(), shown=(NOBODY,))
        gpu = _nvml.nvmlDeviceGetHandleByIndex(0) if count else None
        if gpu is not None:
            yield from _of(gpu)
    finally:
        _nvml.nvmlShutdown()
    if gpu is not None:
        yield from _in_the_next_session(gpu)


def _in_the_next_session(gpu: Any) -> Iterator[Answer]:
    """Ask with a handle of a session that has ended."""
    _nvml.nvmlInitWithFlags(pynvml.NVML_INIT_FLAG_NO_GPUS)
    try:
        for function in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses"):
            yield _asked(function, gpu, shown=("a handle of the session before",), then=_found)
    finally:
        _nvml.nvmlShutdown()


def _of(gpu: Any) -> Iterator[Answer]:
    yield _asked("nvmlDeviceGetUUID", gpu, then=_shape)
    yield _asked("nvmlDeviceGetPciInfo", gpu, then=lambda info: _shape(info.busId, "A-F"))
    yield _asked("nvmlDeviceGetMinorNumber", gpu, then=lambda minor: type(minor).__name__)
    yield _asked("nvmlDeviceGetMemoryInfo", gpu, then=lambda info: info.total >> 20)
    for function in _ALONE:
        yield _asked(function, gpu)
    uncorrected = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
    yield _asked("nvmlDeviceGetTotalEccErrors", gpu, *uncorrected)
    yield _fabric(gpu)
    for link in (0, _LINKS - 1, _LINKS):
        for function in ("nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemoteDeviceType"):
            yield _asked(function, gpu, link)
        yield _asked(
            "nvmlDeviceGetNvLinkRemotePciInfo", gpu, link, then=lambda info: _shape(info.busId, "A-F")
        )
    yield from _profiles(gpu)
    yield _asked("nvmlDeviceGetMigDeviceHandleByIndex", gpu, 0, then=_found)
    yield _asked("nvmlDeviceGetGpuInstanceById", gpu, 1, then=_found)
    events = _nvml.nvmlEventSetCreate()
    yield _asked("nvmlDeviceRegisterEvents", gpu, pynvml.nvmlEventTypeXidCriticalError, events)
    yield _asked("nvmlEventSetWait", events, 0, then=_found)
    _nvml.nvmlEventSetFree(events)


def _profiles(gpu: Any) -> Iterator[Answer]:
    ids: list[int] = []
    for constant in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT + _NEW_CONSTANTS):
        for version in (2, 1):
            found = _asked("nvmlDeviceGetGpuInstanceProfileInfo", gpu, constant, version, then=_fields)
            yield found
            if found.value is not None and found.value["id"] not in ids:
                ids.append(found.value["id"])
    for number in ids or [19]:
        yield _asked("nvmlDeviceGetGpuInstancePossiblePlacements", gpu, number, then=_found, call=_placements)
        yield _asked("nvmlDeviceGetGpuInstances", gpu, number, then=_found, call=_instances)


def _placements(gpu: Any, number: int) -> list[list[int]]:
    count = ctypes.c_uint()
    function = _nvml.nvmlDeviceGetGpuInstancePossiblePlacements
    function(gpu, number, None, ctypes.byref(count))
    rows = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    function(gpu, number, rows, ctypes.byref(count))
    return sorted([row.start, row.size] for row in rows[: count.value])


def _instances(gpu: Any, number: int) -> int:
    rows, count = (pynvml.c_nvmlGpuInstance_t * 16)(), ctypes.c_uint(16)
    _nvml.nvmlDeviceGetGpuInstances(gpu, number, rows, ctypes.byref(count))
    return int(count.value)


def _fabric(gpu: Any) -> Answer:
    info = _nvml.c_nvmlGpuFabricInfo_v2_t()
    info.version = pynvml.nvmlGpuFabricInfo_v2
    return _asked(
        "nvmlDeviceGetGpuFabricInfoV", gpu, ctypes.byref(info), shown=("v2",), then=lambda _: int(info.state)
    )


def _asked(
    function: str,
    *arguments: Any,
    shown: tuple[int | str, ...] | None = None,
    then: Callable[[Any], Any] = lambda value: value,
    call: Callable[..., Any] | None = None,
) -> Answer:
    """Ask; `shown` stands for the arguments in the report, `then` makes the answer comparable."""
    names = tuple(each for each in arguments if isinstance(each, int)) if shown is None else shown
    began = time.perf_counter()
    try:
        value = (call or getattr(_nvml, function))(*arguments)
    except _nvml.NVMLError as error:
        return Answer(function, names, refused=error.value, milliseconds=_since(began))
    took = _since(began)
    return Answer(function, names, "done" if value is None else then(value), milliseconds=took)


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def _shape(value: bytes | str, letters: str = "a-f") -> str:
    """Return how a text is made: every hexadecimal digit as 0; `letters` are those of the case that it should have."""
    return re.sub(f"[0-9{letters}]", "0", str(_text(value)))


def _fields(info: Any) -> dict[str, Any]:
    names = [name for name, *_ in info._fields_ if name not in ("version", "isP2pSupported")]
    return {name: _text(getattr(info, name)) for name in names}


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _found(value: Any) -> Any:
    return value if isinstance(value, (int, list)) else "found"
