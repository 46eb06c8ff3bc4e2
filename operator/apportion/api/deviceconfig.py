"""Device configuration: the opaque parameters that claims and classes hand to our drivers.

In: `parameters` of a `config` entry (resource.k8s.io/v1 `OpaqueDeviceConfiguration`). Out: a typed value, or BrokenInput naming
the field. What is unknown, or can never be honoured, is refused, never ignored: a container that runs without the memory limit
that its claim asks for is worse than one that does not start.

Beside our own group the kinds of NVIDIA's DRA driver are read, as far as they mean the same (its api/nvidia.com/resource/v1beta1).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Protocol, Self, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from apportion.api.model import Model
from apportion.api.networkconfig import NetworkConfig
from apportion.dra.quantity import Quantity
from apportion.errors import BrokenInput

OURS: Final = "config.apportion.dev/v1alpha1"
NVIDIA: Final = "resource.nvidia.com/v1beta1"


_MIB: Final = 2**20
_INDEX: Final = re.compile("[0-9]{1,2}")
_UUID: Final = re.compile("(GPU|MIG)-[0-9A-Za-z/-]{1,64}")


def mebibytes(amount: str | int) -> int:
    """Return a limit in whole MiB, rounded down, as control daemons take it. Raises BrokenInput when it is no quantity."""
    return Quantity.parse(amount).value // _MIB


def _amount(text: str | int) -> str | int:
    try:
        enough = mebibytes(text) > 0
    except BrokenInput as error:
        raise ValueError(str(error)) from None
    if not enough:
        raise ValueError(f"{text} is less than 1Mi, the least that can be set")
    return text


Amount = Annotated[StrictStr | StrictInt, AfterValidator(_amount)]
"""A quantity of memory as it was written, for instance 10Gi; at least 1Mi."""


def _named(limits: dict[str, str | int]) -> dict[str, str | int]:
    for key in limits:
        if _INDEX.fullmatch(key) is None and _UUID.fullmatch(key) is None:
            raise ValueError(f"{key!r} is neither the index of a device of the claim nor a UUID")
    return limits


Interval = Literal["Default", "Short", "Medium", "Long"]


class Configuration(Model):
    """A part of the parameters; a field that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False)


class TimeSlicing(Configuration):
    """How long a process computes before another one has its turn."""

    interval: Interval = "Default"
    """In the driver's steps."""


class Mps(Configuration):
    """Limits of processes that share a GPU through NVIDIA's Multi-Process Service."""

    default_active_thread_percentage: Annotated[StrictInt, Field(ge=1, le=100)] | None = None
    """Most threads of a device for one process, in percent."""
    default_pinned_device_memory_limit: Amount | None = None
    """Most memory of a device for one process."""
    default_per_device_pinned_memory_limit: (
        Annotated[dict[StrictStr, Amount], Field(max_length=32), AfterValidator(_named)] | None
    ) = None
    """The same for single devices, by UUID or by index in the order of UUIDs; it goes before the one for all."""
    multi_user: StrictBool | None = None
    """Whether processes of several users run on it at the same time."""


class MigSharing(Configuration):
    """How processes share a MIG device."""

    strategy: Literal["TimeSlicing", "MPS"]
    """What divides it."""
    mps_config: Mps | None = None
    """Only with strategy MPS."""

    @model_validator(mode="after")
    def _of_one_strategy(self) -> Self:
        if self.mps_config is not None and self.strategy != "MPS":
            raise ValueError(f"mpsConfig has no meaning with strategy {self.strategy}")
        return self


class GpuSharing(MigSharing):
    """How processes share a GPU."""

    time_slicing_config: TimeSlicing | None = None
    """Only with strategy TimeSlicing."""

    @model_validator(mode="after")
    def _slices_of_one_strategy(self) -> Self:
        if self.time_slicing_config is not None and self.strategy != "TimeSlicing":
            raise ValueError(f"timeSlicingConfig has no meaning with strategy {self.strategy}")
        return self


class MigDeviceConfig(Configuration):
    """What a MIG device is set up as."""

    api_version: str
    """Group and version of the kind."""
    kind: Literal["MigDeviceConfig"]
    """Name of the kind."""
    sharing: MigSharing | None = None
    """Absent: the containers of the claim divide it."""

    @property
    def time_slice(self) -> Interval:
        """The time slice; that of a MIG device cannot be set (NVIDIA's kind has no field for it)."""
        return "Default"

    def impossible(self) -> BrokenInput | None:
        """Return what of it can be honoured on no device."""
        mps = self.mps
        if mps is None or set(mps.default_per_device_pinned_memory_limit or ()) <= {"0"}:
            return None
        return BrokenInput(
            "a MIG device is the only one of its control daemon, index 0, and has no UUID before it is cut",
            field="sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit",
        )

    @property
    def mps(self) -> Mps | None:
        """Limits under MPS, None when it is not asked for."""
        return _mps(self.sharing)


class GpuConfig(Configuration):
    """What a whole GPU is set up as."""

    api_version: str
    """Group and version of the kind."""
    kind: Literal["GpuConfig"]
    """Name of the kind."""
    sharing: GpuSharing | None = None
    """Absent: the containers of the claim divide it, with the driver's default time slice."""

    @property
    def time_slice(self) -> Interval:
        """The time slice."""
        slicing = self.sharing.time_slicing_config if self.sharing is not None else None
        return slicing.interval if slicing is not None else "Default"

    def impossible(self) -> BrokenInput | None:
        """Return what of it can be honoured on no device."""
        for key in (self.mps and self.mps.default_per_device_pinned_memory_limit) or ():
            if key.startswith("MIG-"):
                return BrokenInput(
                    f"{key} is no whole GPU", field="sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit"
                )
        return None

    @property
    def mps(self) -> Mps | None:
        """Limits under MPS, None when it is not asked for."""
        return _mps(self.sharing)


class NpuConfig(Configuration):
    """What the containers of whole NPUs get."""

    api_version: str
    """Group and version of the kind."""
    kind: Literal["NpuConfig"]
    """Name of the kind."""
    rank_table: StrictBool = False
    """Whether RANK_TABLE_FILE leads to the rank table of the request: the whole job is in this pod."""


SharingConfig: TypeAlias = GpuConfig | MigDeviceConfig
"""How programs share a GPU or a part of it."""
DeviceConfig: TypeAlias = SharingConfig | NetworkConfig | NpuConfig
_KINDS: Final[Mapping[str, type[DeviceConfig]]] = {
    "GpuConfig": GpuConfig,
    "MigDeviceConfig": MigDeviceConfig,
    "NetworkConfig": NetworkConfig,
    "NpuConfig": NpuConfig,
}


def read(parameters: object, *, field: str) -> DeviceConfig:
    """Read the parameters that stand at `field`.

    Raises BrokenInput naming the field below it: for an unknown kind or field, a wrong value, and what no device can honour.
    """
    try:
        return _read(parameters)
    except BrokenInput as error:
        raise BrokenInput(error.reason, field=f"{field}.{error.field}" if error.field else field) from None


class Entry(Protocol):
    """An entry of `config`, of a claim, a class or an allocation."""

    @property
    def requests(self) -> Sequence[str]:
        """The requests that it names; none: it is about all."""

    @property
    def opaque(self) -> Mapping[str, Any] | None:
        """Driver and parameters."""


def kind_of(entry: Entry) -> str:
    """Return the kind of an entry's parameters, which need not be right."""
    parameters = (entry.opaque or {}).get("parameters")
    return str(parameters.get("kind")) if isinstance(parameters, Mapping) else ""


def in_force(entries: Sequence[Entry], suits: Callable[[str], bool] = lambda _kind: True) -> list[int]:
    """Return the positions of the entries, all for one driver and about one request, that may hold for a device of it.

    One that names the request overrides all before it, one without requests those of its kind, if that `suits` the device
    (dra-driver-nvidia-gpu 95932046, device_state.go: the last entry that names the request, or suits the device, is the device's). What
    is overridden holds for nobody, so nobody has to honour it.
    """
    found: list[int] = []
    overriding: set[str] = set()
    for position in reversed(range(len(entries))):
        kind = kind_of(entries[position])
        if kind not in overriding:
            found.append(position)
        if entries[position].requests:
            break
        if suits(kind):
            overriding.add(kind)
    return found[::-1]


def _read(parameters: object) -> DeviceConfig:
    if not isinstance(parameters, Mapping):
        raise BrokenInput("is no object with apiVersion and kind")
    version, kind = parameters.get("apiVersion"), parameters.get("kind")
    if version not in (OURS, NVIDIA):
        raise BrokenInput(f"{version!r} is not known; known are {OURS} and {NVIDIA}", field="apiVersion")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise BrokenInput(f"{kind!r} is not known; known are {' and '.join(_KINDS)}", field="kind")
    found: DeviceConfig = _KINDS[kind].from_json(parameters)
    refused = found.impossible() if isinstance(found, GpuConfig | MigDeviceConfig) else None
    if refused is not None:
        raise refused
    return found


def _mps(sharing: MigSharing | None) -> Mps | None:
    return (sharing.mps_config or Mps()) if sharing is not None and sharing.strategy == "MPS" else None
