"""Configuration: what a claim asks its devices to be set up as.

In: an allocated claim, its devices of one driver, the node's cards. Out: the configuration of each device, or BrokenInput naming field
and reason, which kubelet shows at the pod. The operator checks most of it before it gives devices away; others may allocate, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apportion.agent.devices.values import Card, CardKind
from apportion.api import deviceconfig
from apportion.api.deviceconfig import DeviceConfig, GpuConfig
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput


@dataclass(frozen=True, slots=True)
class Configured:
    """A configuration and where it stands in the claim."""

    config: DeviceConfig
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
        if kind != CardKind.GPU:
            raise BrokenInput(f"{config.kind} is for GPUs, not for a {kind}", field=f"{parameters}.kind")
        for result in results:
            named = {result.request, result.request.split("/")[0]} & {*entry.requests}
            suits = isinstance(config, GpuConfig) == (result.device.name in cards)
            if named and not suits:
                raise BrokenInput(
                    f"{config.kind} does not suit device {result.device.name} of request {result.request}",
                    field=f"{parameters}.kind",
                )
            if suits and (named or not entry.requests):
                found[result.device.name] = Configured(config, parameters)
    return found
