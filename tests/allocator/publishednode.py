"""A node with the slices that our agent publishes for its cards, and requests for its devices.

In: the cards of a simulation file. Out: slices as plain JSON, an allocator state that knows them, claims.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Self

import orjson
import yaml

from apportion.agent.devices.simulated.cards import make
from apportion.agent.devices.simulated.simulation import Simulation
from apportion.agent.devices.values import CardKind
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.slices.pool import pools
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.quantity import Quantity
from apportion.dra.slice import Slice
from apportion.dra.taint import Toleration

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "manifests" / "policies"
DRIVERS = {
    CardKind.GPU: "gpu.apportion.dev",
    CardKind.NPU: "npu.apportion.dev",
    CardKind.NIC: "rdma.apportion.dev",
}
GUARD = Toleration(key="apportion.dev/guard", operator="Exists")
Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Requested:
    """A number of devices of a DeviceClass."""

    device_class: str
    count: int
    profile: str = ""
    """MIG profile or vNPU template."""

    def accepts(self, device: "PublishedDevice") -> bool:
        """Return whether a device matches."""
        kind = device.attributes.get(f"{device.driver}/type")
        own = device.attributes.get(f"{device.driver}/profile") or device.attributes.get(
            f"{device.driver}/template"
        )
        wanted = {"gpu": "gpu", "mig": "mig", "npu": "npu", "vnpu": "vnpu", "rdma": "nic"}
        return kind == wanted[self.device_class.split(".")[0]] and (own or "") == self.profile


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """A device as its slice publishes it."""

    id: DeviceId
    driver: str
    attributes: Mapping[str, Any]
    """By qualified name."""
    needs: Mapping[tuple[str, str, str], Fraction]


@dataclass(frozen=True, slots=True)
class Published:
    """What is published of a node."""

    slices: Sequence[Raw]
    read: Sequence[Slice]
    """The slices as values."""
    devices: Sequence[PublishedDevice]
    counters: Mapping[tuple[str, str, str], Fraction]

    @classmethod
    def of(cls, inventory: NodeInventory, node: str) -> Self:
        """Return what is published of an inventory."""
        slices: list[Raw] = [
            {
                "metadata": {
                    "name": f"{node}-{pool.driver}-{content.key}",
                    "uid": f"{node}-{pool.driver}-{content.key}",
                },
                "spec": {
                    "driver": pool.driver,
                    "nodeName": node,
                    "pool": {"name": node, "generation": 1, "resourceSliceCount": len(pool.contents)},
                    content.field: list(content.rows),
                },
            }
            for pool in pools(inventory, DRIVERS)
            for content in pool.contents
        ]
        devices = [
            published_device(raw, published)
            for published in slices
            for raw in published["spec"].get("devices", ())
        ]
        counters = {
            (published["spec"]["driver"], row["name"], name): quantity(entry["value"])
            for published in slices
            for row in published["spec"].get("sharedCounters", ())
            for name, entry in row["counters"].items()
        }
        return cls(slices, [*map(Slice.from_json, slices)], devices, counters)


@cache
def _of_cards(cards: bytes, node: str) -> Published:
    """Return what is published of a node with these cards, as JSON. To make that takes as long as to allocate some of its devices."""
    simulation = Simulation.model_validate(orjson.loads(cards))
    return Published.of(NodeInventory(cards=tuple(card for card, *_ in make(simulation, node))), node)


class PublishedNode:
    """One node, its slices, and its devices in use."""

    def __init__(self, cards: Raw, name: str = "n1", *, inventory: NodeInventory | None = None) -> None:
        """`inventory`: what is published instead of the cards as they are."""
        self.name = name
        found = _of_cards(orjson.dumps(cards), name) if inventory is None else Published.of(inventory, name)
        self.slices = found.slices
        self.read = found.read
        self.devices = found.devices
        self.counters = dict(found.counters)
        self.held: list[DeviceId] = []

    def take(self, device: PublishedDevice) -> None:
        """Mark a device as in use; its counters are consumed."""
        self.held.append(device.id)
        for name, amount in device.needs.items():
            self.counters[name] -= amount

    def fits(self, chosen: Sequence[PublishedDevice]) -> bool:
        """Return whether the counters left suffice for these devices together."""
        used: Counter[Any] = Counter()
        for device in chosen:
            used.update(device.needs)
        return all(amount <= self.counters[name] for name, amount in used.items())

    def candidates(self, requests: Sequence[Requested]) -> list[list[PublishedDevice]]:
        """Return the free devices that match each request, regardless of the other requests."""
        free = [device for device in self.devices if device.id not in self.held and self.fits([device])]
        return [[device for device in free if one.accepts(device)] for one in requests]


def published_device(raw: Raw, published: Raw) -> PublishedDevice:
    """Read a device of a slice."""
    driver = published["spec"]["driver"]
    return PublishedDevice(
        DeviceId(driver, published["spec"]["pool"]["name"], raw["name"]),
        driver,
        {
            name if "/" in name else f"{driver}/{name}": next(iter(value.values()))
            for name, value in raw["attributes"].items()
        },
        {
            (driver, need["counterSet"], name): quantity(entry["value"])
            for need in raw.get("consumesCounters", ())
            for name, entry in need["counters"].items()
        },
    )


def quantity(text: str) -> Fraction:
    """Return a quantity in nano units."""
    return Fraction(Quantity.parse(text).nano)


@cache
def classes() -> tuple[DeviceClass, ...]:
    """Return the installed DeviceClasses."""
    raw = yaml.safe_load_all((ROOT / "manifests/base/device-classes.yaml").read_text())
    return tuple(DeviceClass.from_json(each) for each in raw)


def state_of(*nodes: PublishedNode) -> State:
    """Return a state that knows the nodes, the installed DeviceClasses and the devices in use."""
    state = State()
    for each in classes():
        state.put_class(each)
    for node in nodes:
        state.put_node(node.name, {})
        for each in node.read:
            state.put_slice(each)
        for index, device in enumerate(node.held):
            state.hold(f"{node.name}/{index}", [DeviceResult("r", device)])
    return state


def claim_for(*requests: Requested, name: str = "c") -> Claim:
    """Return a claim with these requests."""
    rows = []
    for index, one in enumerate(requests):
        exact: Raw = {"deviceClassName": one.device_class, "allocationMode": "ExactCount", "count": one.count}
        if one.profile:
            driver, key = (
                (DRIVERS[CardKind.GPU], "profile")
                if "mig" in one.device_class
                else (DRIVERS[CardKind.NPU], "template")
            )
            text = f'device.attributes["{driver}"].{key} == "{one.profile}"'
            exact["selectors"] = [{"cel": {"expression": text}}]
        rows.append({"name": f"r{index}", "exactly": exact})
    return Claim.from_json(
        {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"devices": {"requests": rows}}}
    )
