"""Configuration: what a claim asks its devices to be set up as.

In: an allocated claim, its devices of one driver, the node's cards. Out: the configuration of each device, or BrokenInput naming field
and reason, which kubelet shows at the pod. The operator checks most of it before it gives devices away; others may allocate, too.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from apportion.agent.devices.values import Card
from apportion.api import deviceconfig
from apportion.api.deviceconfig import (
    DeviceConfig,
    GpuConfig,
    MigDeviceConfig,
    SharingConfig,
    in_force,
)
from apportion.api.networkconfig import NetworkConfig
from apportion.api.suitable import TYPES, card_of, suits_parts
from apportion.dra.allocation import ConfigResult, DeviceResult
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput

_CONFIG: Final = "status.allocation.devices.config"


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
    judged = [*entries(claim, driver, results, cards)]
    for entry in judged:
        suitable = card_of(TYPES[entry.config.kind])
        if kind != suitable:
            raise BrokenInput(
                f"{entry.config.kind} is for {suitable.upper()}s, not for a {kind}",
                field=f"{entry.field}.kind",
            )
    for result in results:
        suits = partial(suits_parts, whole=result.device.name in cards)
        last = next(
            (
                entry
                for entry in reversed(judged)
                if entry.serves(result) and (entry.named or suits(entry.config.kind))
            ),
            None,
        )
        if last is None:
            continue
        if not suits(last.config.kind):
            raise BrokenInput(
                f"{last.config.kind} does not suit device {result.device.name} of request {result.request}",
                field=f"{last.field}.kind",
            )
        if isinstance(last.config, GpuConfig | MigDeviceConfig):
            found[result.device.name] = Configured(last.config, last.field)
    return found


def network_configs(
    claim: Claim, driver: str, results: Sequence[DeviceResult], cards: Collection[str]
) -> dict[str, NetworkConfig]:
    """Return by device what the claim says about network devices that it asks for; those of its class come before its own.

    Raises BrokenInput for parameters that are not known, for two devices of one name in the pod, and for a device that another claim may have.
    """
    found: dict[str, NetworkConfig] = {}
    for entry in entries(claim, driver, results, cards):
        config = entry.config
        if not isinstance(config, NetworkConfig):
            continue
        served = {result.device.name for result in results if entry.serves(result)}
        looked_at = [result for result in results if entry.serves(result) and result.admin_access]
        if looked_at:
            raise BrokenInput(
                f"device {looked_at[0].device.name} is allocated with admin access, and its interface stays where it is, for the claim that has it",
                field=entry.field,
            )
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
    named: bool
    """Whether it names requests; else it is about all devices that it suits."""
    results: Collection[tuple[str, str]]
    """Request and name of the devices that it is about, and for which no later entry overrides it."""

    def serves(self, result: DeviceResult) -> bool:
        """Say whether it is about a device, and in force."""
        return _key(result) in self.results


def entries(
    claim: Claim, driver: str, results: Sequence[DeviceResult], cards: Collection[str]
) -> Iterator[Entry]:
    """Yield what is meant for a driver, as far as later entries do not override it, in the order of the claim; `cards` are the node's.

    Raises BrokenInput for what is not known.
    """
    own: dict[int, ConfigResult] = {}
    for index, entry in enumerate(claim.allocation.config if claim.allocation is not None else ()):
        if entry.opaque is None:
            raise BrokenInput("only opaque parameters are known", field=f"{_CONFIG}[{index}]")
        if entry.opaque.get("driver") == driver:
            own[index] = entry
    about: dict[int, set[tuple[str, str]]] = defaultdict(set)
    overridden: set[int] = set()
    for result in results:
        about_it = [index for index, entry in own.items() if _is_about(entry, result)]
        suits = partial(suits_parts, whole=result.device.name in cards)
        kept = {about_it[position] for position in in_force([own[index] for index in about_it], suits)}
        overridden |= {*about_it} - kept
        for index in kept:
            about[index].add(_key(result))
    for index, entry in own.items():
        if index in about or index not in overridden:
            field = f"{_CONFIG}[{index}].opaque.parameters"
            config = deviceconfig.read((entry.opaque or {}).get("parameters"), field=field)
            yield Entry(config, field, bool(entry.requests), about[index])


def _is_about(entry: ConfigResult, result: DeviceResult) -> bool:
    return not entry.requests or not {result.request, result.request.split("/")[0]}.isdisjoint(entry.requests)


def _key(result: DeviceResult) -> tuple[str, str]:
    return result.request, result.device.name
