"""The allocation of a claim: its devices and where they can be used (resource.k8s.io/v1 `AllocationResult`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from apportion.dra import consumedcounters, reading
from apportion.dra.consumedcounters import CounterAmounts
from apportion.dra.device import DeviceId
from apportion.dra.node import OPTIONAL_NODE_OPERATIONS, Node
from apportion.dra.quantity import Quantity
from apportion.dra.reading import Json
from apportion.dra.selection import NodeSelector
from apportion.errors import BrokenInput

_NOTHING: Mapping[str, Quantity] = MappingProxyType({})


class DeviceResult(NamedTuple):
    """One allocated device (API `DeviceRequestAllocationResult`).

    A named tuple: allocating makes one for each device, and a frozen dataclass takes three times as long to make.
    """

    request: str
    """`request`, or `request/subrequest` of a prioritized list."""
    device: DeviceId
    admin_access: bool = False
    tolerations: tuple[Mapping[str, Any], ...] = ()
    """A copy of the request's, as the API stores them."""
    share_id: str | None = None
    consumed: Mapping[str, Quantity] = _NOTHING
    """Consumed capacity by name; only of shared devices."""
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    skip_node_operations: tuple[str, ...] = ()
    counters: CounterAmounts | None = None
    """What the device takes of its pool's counters as the allocation says it (ADR 45); None: it does not."""

    @classmethod
    def from_json(cls, raw: Json, at: str = "") -> "DeviceResult":
        """Read one result."""
        consumed = reading.table(raw, "consumedCapacity", at=at)
        return cls(
            request=reading.text(raw, "request", at=at),
            device=DeviceId(
                reading.text(raw, "driver", at=at),
                reading.text(raw, "pool", at=at),
                reading.text(raw, "device", at=at),
            ),
            admin_access=reading.flag(raw, "adminAccess", at=at),
            tolerations=tuple(dict(row) for _, row in reading.rows(raw, "tolerations", at=at)),
            share_id=reading.text(raw, "shareID", at=at, default="") or None,
            consumed={
                name: _amount(amount, f"{at}.consumedCapacity[{name}]") for name, amount in consumed.items()
            },
            binding_conditions=reading.words(raw, "bindingConditions", at=at),
            binding_failure_conditions=reading.words(raw, "bindingFailureConditions", at=at),
            skip_node_operations=reading.words(raw, "skipNodeOperations", at=at),
        )

    def to_json(self) -> dict[str, Any]:
        """Write it as the API does; empty fields are left out."""
        optional = {
            "adminAccess": self.admin_access,
            "tolerations": [dict(toleration) for toleration in self.tolerations],
            "shareID": self.share_id,
            "consumedCapacity": {name: str(amount) for name, amount in self.consumed.items()},
            "bindingConditions": list(self.binding_conditions),
            "bindingFailureConditions": list(self.binding_failure_conditions),
            "skipNodeOperations": list(self.skip_node_operations),
        }
        driver, pool, name = self.device
        return {
            "request": self.request,
            "driver": driver,
            "pool": pool,
            "device": name,
            **{key: value for key, value in optional.items() if value},
        }


def _amount(raw: Any, at: str) -> Quantity:
    """Read a consumed amount. One below zero would give back what others consume; the API server stores it."""
    found = Quantity.parse(raw)
    if found.nano < 0:
        raise BrokenInput(f"{raw} is negative", field=at)
    return found


@dataclass(frozen=True, slots=True)
class ConfigResult:
    """Driver parameters that apply to the allocation (API `DeviceAllocationConfiguration`)."""

    source: str
    """FromClass or FromClaim."""
    requests: tuple[str, ...]
    opaque: Mapping[str, Any] | None

    @classmethod
    def from_json(cls, raw: Json, at: str = "") -> "ConfigResult":
        """Read one entry."""
        return cls(
            source=reading.text(raw, "source", at=at),
            requests=reading.words(raw, "requests", at=at),
            opaque=reading.opaque(raw, "opaque", at=at),
        )

    def to_json(self) -> dict[str, Any]:
        """Write it as the API does."""
        raw: dict[str, Any] = {"source": self.source}
        if self.requests:
            raw["requests"] = list(self.requests)
        if self.opaque is not None:
            raw["opaque"] = dict(self.opaque)
        return raw


class Allocation(NamedTuple):
    """The devices of one claim, and where they can be used. A named tuple for speed, as `DeviceResult`."""

    results: tuple[DeviceResult, ...]
    config: tuple[ConfigResult, ...] = ()
    node_selector: NodeSelector | None = None
    """None: usable on every node."""
    timestamp: str | None = None
    """RFC 3339; without it the scheduler can never reserve the claim (dra.md 0.2)."""

    @property
    def node(self) -> str | None:
        """The node's name, when the devices are local to one."""
        return self.node_selector.only_name if self.node_selector else None

    @property
    def _skips(self) -> bool:
        return any(result.skip_node_operations for result in self.results)

    @property
    def everywhere(self) -> bool:
        """Whether its devices can be used on every node, whatever that is."""
        return self.node_selector is None and not self._skips

    def allows(self, node: Node) -> bool:
        """Say whether its devices can be used on a node: the selector matches, and kubelet leaves out what `skipNodeOperations` says."""
        if self.node_selector is not None and not self.node_selector.matches(node.name, node.labels):
            return False
        return OPTIONAL_NODE_OPERATIONS in node.declared_features or not self._skips

    def keeps(self, before: "Allocation") -> bool:
        """Say whether all devices and shares of an allocation are in this one, too."""
        found = {(each.device, each.share_id) for each in self.results}
        return all((each.device, each.share_id) in found for each in before.results)

    @classmethod
    def from_json(cls, raw: Json, at: str = "status.allocation") -> "Allocation":
        """Read an `AllocationResult`; raises BrokenInput naming the field."""
        devices = reading.table(raw, "devices", at=at)
        inside = reading.join(at, "devices")
        selector = reading.table(raw, "nodeSelector", at=at)
        try:
            config = tuple(
                ConfigResult.from_json(row, path) for path, row in reading.rows(devices, "config", at=inside)
            )
            return cls(
                results=_with_counters(
                    tuple(
                        DeviceResult.from_json(row, path)
                        for path, row in reading.rows(devices, "results", at=inside)
                    ),
                    config,
                ),
                config=config,
                node_selector=NodeSelector.from_json(selector, f"{at}.nodeSelector") if selector else None,
                timestamp=reading.text(raw, "allocationTimestamp", at=at, default="") or None,
            )
        except BrokenInput as error:
            raise BrokenInput(error.reason, field=error.field or at) from None

    def to_json(self) -> dict[str, Any]:
        """Write it as the API does; empty fields are left out."""
        devices: dict[str, Any] = {}
        if self.results:
            devices["results"] = [result.to_json() for result in self.results]
        if self.config:
            devices["config"] = [entry.to_json() for entry in self.config]
        raw: dict[str, Any] = {"devices": devices}
        if self.node_selector is not None:
            raw["nodeSelector"] = self.node_selector.to_json()
        if self.timestamp is not None:
            raw["allocationTimestamp"] = self.timestamp
        return raw


def _with_counters(
    results: tuple[DeviceResult, ...], config: tuple[ConfigResult, ...]
) -> tuple[DeviceResult, ...]:
    """Add what the allocation says of the counters that its devices take."""
    counters = {
        device: amounts
        for entry in config
        if entry.source == consumedcounters.SOURCE
        for device, amounts in consumedcounters.amounts_in(entry.opaque)
    }
    if not counters:
        return results
    return tuple(each._replace(counters=counters.get(each.device)) for each in results)
