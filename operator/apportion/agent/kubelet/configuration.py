"""Configuration: whether this agent sets up a claim's devices as it asks.

In: an allocated claim, its devices of one driver, the node's cards. Out: nothing, or BrokenInput naming field and reason, which
kubelet shows at the pod. The operator checks most of it before it gives devices away; others may allocate, too.
"""

from collections.abc import Mapping, Sequence

from apportion.agent.devices.values import Card, CardKind
from apportion.api import deviceconfig
from apportion.api.deviceconfig import DeviceConfig, GpuConfig
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput


def check_configuration(
    claim: Claim, driver: str, results: Sequence[DeviceResult], cards: Mapping[str, Card], kind: str
) -> None:
    """Raise BrokenInput for the first configuration that is not known, not offered, or for devices of another type.

    A configuration without requests applies to those devices that it suits (dra-driver-nvidia-gpu, `getConfigResultsMap`).
    """
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
            if named and not _suits(config, result, cards):
                raise BrokenInput(
                    f"{config.kind} does not suit device {result.device.name} of request {result.request}",
                    field=f"{parameters}.kind",
                )


def _suits(config: DeviceConfig, result: DeviceResult, cards: Mapping[str, Card]) -> bool:
    return isinstance(config, GpuConfig) == (result.device.name in cards)
