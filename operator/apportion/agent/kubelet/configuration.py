"""Configuration: what a claim asks its devices to be set up as.

In: an allocated claim, its devices of one driver, the node's cards. Out: the configuration of each device, or BrokenInput naming field
and reason, which kubelet shows at the pod. The operator checks most of it before it gives devices away; others may allocate, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apportion.agent.devices.values import Card, CardKind
from apportion.api import deviceconfig
from apportion.api.deviceconfig import GpuConfig, SharingConfig
from apportion.api.networkconfig import NetworkConfig
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput


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
    entries = claim.allocation.config if claim.allocation is not None else ()
    for index, entry in enumerate(entries):
        field = f"status.allocation.devices.config[{index}]"
        if entry.opaque is None:
            raise BrokenInput("only opaque parameters are known", field=field)
        if entry.opaque.get("driver") != driver:
            continue
        parameters = f"{field}.opaque.parameters"
        config = deviceconfig.read(entry.opaque.get("parameters"), field=parameters)
        suitable = CardKind.NIC if isinstance(config, NetworkConfig) else CardKind.GPU
        if kind != suitable:
            raise BrokenInput(
                f"{config.kind} is for {suitable.upper()}s, not for a {kind}", field=f"{parameters}.kind"
            )
        for result in results:
            named = {result.request, result.request.split("/")[0]} & {*entry.requests}
            suits = isinstance(config, NetworkConfig) or isinstance(config, GpuConfig) == (
                result.device.name in cards
            )
            if named and not suits:
                raise BrokenInput(
                    f"{config.kind} does not suit device {result.device.name} of request {result.request}",
                    field=f"{parameters}.kind",
                )
            if not isinstance(config, NetworkConfig) and suits and (named or not entry.requests):
                found[result.device.name] = Configured(config, parameters)
    return found


def network_configs(claim: Claim, driver: str, results: Sequence[DeviceResult]) -> dict[str, NetworkConfig]:
    """Return by device what the claim says about network devices that it asks for; those of its class come before its own.

    Raises BrokenInput for parameters that are not known, and for two devices of one name in the pod.
    """
    found: dict[str, NetworkConfig] = {}
    for index, entry in enumerate(claim.allocation.config if claim.allocation is not None else ()):
        if entry.opaque is None or entry.opaque.get("driver") != driver:
            continue
        parameters = f"status.allocation.devices.config[{index}].opaque.parameters"
        config = deviceconfig.read(entry.opaque.get("parameters"), field=parameters)
        served = [
            result.device.name
            for result in results
            if not entry.requests or {result.request, result.request.split("/")[0]} & {*entry.requests}
        ]
        if isinstance(config, NetworkConfig):
            found |= dict.fromkeys(served, config)
            if config.interface.name is not None and len(set(served)) > 1:
                raise BrokenInput(
                    f"{config.interface.name} cannot be the name of {len(set(served))} interfaces",
                    field=f"{parameters}.interface.name",
                )
    return found
