"""Configuration: what a claim asks its devices to be set up as.

In: an allocated claim, its devices of one driver, the node's cards. Out: the configuration of each device, or BrokenInput naming field
and reason, which kubelet shows at the pod. The operator checks most of it before it gives devices away; others may allocate, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apportion.agent.devices.values import Card, CardKind
from apportion.api import deviceconfig
from apportion.api.deviceconfig import DeviceConfig, GpuConfig, MigDeviceConfig, NpuConfig, SharingConfig
from apportion.api.networkconfig import NetworkConfig
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput

_SUITABLE: Final[Mapping[type[DeviceConfig], CardKind]] = {
    NetworkConfig: CardKind.NIC,
    NpuConfig: CardKind.NPU,
}
"""For which cards a kind of parameters is; the others are for GPUs."""


@dataclass(frozen=True, slots=True)
class Configured:
    """A configuration and where it stands in the claim."""

    config: SharingConfig
    field: str


def configurations(
    claim: Claim, driver: str, results: Sequence[DeviceResult], cards: Mapping[str, Card], kind: str
) -> dict[str, Configured]:
    """Return the configurations of devices, by their names; of several the last one counts, so those of classes come first.

    Raises BrokenInput for the first configuration that is not known, or for devices of another type. One without requests
    applies to those devices that it suits (dra-driver-nvidia-gpu, `getConfigResultsMap`).
    """
    found: dict[str, Configured] = {}
    for entry in entries(claim, driver):
        config = entry.config
        suitable = _SUITABLE.get(type(config), CardKind.GPU)
        if kind != suitable:
            raise BrokenInput(
                f"{config.kind} is for {suitable.upper()}s, not for a {kind}", field=f"{entry.field}.kind"
            )
        for result in results:
            suits = isinstance(config, NetworkConfig) or isinstance(config, GpuConfig | NpuConfig) == (
                result.device.name in cards
            )
            if entry.names(result) and not suits:
                raise BrokenInput(
                    f"{config.kind} does not suit device {result.device.name} of request {result.request}",
                    field=f"{entry.field}.kind",
                )
            if isinstance(config, GpuConfig | MigDeviceConfig) and suits and entry.serves(result):
                found[result.device.name] = Configured(config, entry.field)
    return found


def network_configs(claim: Claim, driver: str, results: Sequence[DeviceResult]) -> dict[str, NetworkConfig]:
    """Return by device what the claim says about network devices that it asks for; those of its class come before its own.

    Raises BrokenInput for parameters that are not known, and for two devices of one name in the pod.
    """
    found: dict[str, NetworkConfig] = {}
    for entry in entries(claim, driver):
        config = entry.config
        if not isinstance(config, NetworkConfig):
            continue
        served = {result.device.name for result in results if entry.serves(result)}
        own = {"name": config.interface.name, "hardwareAddr": config.interface.hardware_addr}
        for name, value in own.items():
            if value is not None and len(served) > 1:
                raise BrokenInput(
                    f"{len(served)} interfaces cannot all have {value}",
                    field=f"{entry.field}.interface.{name}",
                )
        found |= dict.fromkeys(served, config)
    return found


@dataclass(frozen=True, slots=True)
class Entry:
    """Parameters of the claim, or of its class, for a driver."""

    config: DeviceConfig
    field: str
    requests: Sequence[str]

    def names(self, result: DeviceResult) -> bool:
        """Say whether a device is of a request that it names."""
        return not {result.request, result.request.split("/")[0]}.isdisjoint(self.requests)

    def serves(self, result: DeviceResult) -> bool:
        """Say whether it is about a device; without requests it is about all."""
        return not self.requests or self.names(result)


def entries(claim: Claim, driver: str) -> Iterator[Entry]:
    """Yield what is meant for a driver, in the order of the claim. Raises BrokenInput for what is not known."""
    for index, entry in enumerate(claim.allocation.config if claim.allocation is not None else ()):
        field = f"status.allocation.devices.config[{index}]"
        if entry.opaque is None:
            raise BrokenInput("only opaque parameters are known", field=field)
        if entry.opaque.get("driver") == driver:
            parameters = f"{field}.opaque.parameters"
            config = deviceconfig.read(entry.opaque.get("parameters"), field=parameters)
            yield Entry(config, parameters, entry.requests)
