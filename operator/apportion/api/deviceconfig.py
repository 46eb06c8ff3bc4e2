"""Device configuration: the opaque parameters that claims and classes hand to our drivers.

In: `parameters` of a `config` entry (resource.k8s.io/v1 `OpaqueDeviceConfiguration`). Out: a typed value, or BrokenInput naming
the field. What is unknown, or known and not offered by this release, is refused, never ignored: a container that runs without
the memory limit that its claim asks for is worse than one that does not start.

Beside our own group the kinds of NVIDIA's DRA driver are read, as far as they mean the same (its api/nvidia.com/resource/v1beta1).
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from apportion.api.model import Model
from apportion.dra.quantity import Quantity
from apportion.errors import BrokenInput

OURS: Final = "config.apportion.dev/v1alpha1"
NVIDIA: Final = "resource.nvidia.com/v1beta1"


def _amount(text: str | int) -> str | int:
    try:
        Quantity.parse(text)
    except BrokenInput as error:
        raise ValueError(str(error)) from None
    return text


Amount = Annotated[StrictStr | StrictInt, AfterValidator(_amount)]
"""A quantity as it was written, for instance 10Gi."""


class Configuration(Model):
    """A part of the parameters; a field that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", populate_by_name=False)


class TimeSlicing(Configuration):
    """How long a process computes before another one has its turn."""

    interval: Literal["Default", "Short", "Medium", "Long"] = "Default"
    """In the driver's steps."""


class Mps(Configuration):
    """Limits of processes that share a GPU through NVIDIA's Multi-Process Service."""

    default_active_thread_percentage: Annotated[StrictInt, Field(ge=0, le=100)] | None = None
    """Share of the GPU's threads, in percent."""
    default_pinned_device_memory_limit: Amount | None = None
    """Device memory of one process."""
    default_per_device_pinned_memory_limit: (
        Annotated[dict[StrictStr, Amount], Field(max_length=32)] | None
    ) = None
    """The same by index or UUID of the GPU."""
    multi_user: StrictBool | None = None
    """Whether processes of several users share it."""


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

    def not_offered(self) -> BrokenInput | None:
        """Return what of it this release cannot honour."""
        return _mps_not_offered(self.sharing)


class GpuConfig(Configuration):
    """What a whole GPU is set up as."""

    api_version: str
    """Group and version of the kind."""
    kind: Literal["GpuConfig"]
    """Name of the kind."""
    sharing: GpuSharing | None = None
    """Absent: the containers of the claim divide it, with the driver's default time slice."""

    def not_offered(self) -> BrokenInput | None:
        """Return what of it this release cannot honour."""
        slicing = self.sharing.time_slicing_config if self.sharing is not None else None
        if slicing is not None and slicing.interval != "Default":
            reason = f"{slicing.interval} is not offered: the driver's time slice stays as it is (Default)"
            return BrokenInput(reason, field="sharing.timeSlicingConfig.interval")
        return _mps_not_offered(self.sharing)


DeviceConfig: TypeAlias = GpuConfig | MigDeviceConfig
_KINDS: Final[Mapping[str, type[GpuConfig] | type[MigDeviceConfig]]] = {
    "GpuConfig": GpuConfig,
    "MigDeviceConfig": MigDeviceConfig,
}


def read(parameters: object, *, field: str) -> DeviceConfig:
    """Read the parameters that stand at `field`.

    Raises BrokenInput naming the field below it: for an unknown kind or field, a wrong value, and what this release does not offer.
    """
    try:
        return _read(parameters)
    except BrokenInput as error:
        raise BrokenInput(error.reason, field=f"{field}.{error.field}" if error.field else field) from None


def _read(parameters: object) -> DeviceConfig:
    if not isinstance(parameters, Mapping):
        raise BrokenInput("is no object with apiVersion and kind")
    version, kind = parameters.get("apiVersion"), parameters.get("kind")
    if version not in (OURS, NVIDIA):
        raise BrokenInput(f"{version!r} is not known; known are {OURS} and {NVIDIA}", field="apiVersion")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise BrokenInput(f"{kind!r} is not known; known are {' and '.join(_KINDS)}", field="kind")
    found: DeviceConfig = _KINDS[kind].from_json(parameters)
    refused = found.not_offered()
    if refused is not None:
        raise refused
    return found


def _mps_not_offered(sharing: MigSharing | None) -> BrokenInput | None:
    if sharing is None or sharing.strategy != "MPS":
        return None
    return BrokenInput(
        "MPS is not offered: no control daemon would keep its limits", field="sharing.strategy"
    )
