"""Nodes with real boards, and the best set of devices found by trying every one.

In: what a simulated node has, a policy file. Out: an allocator state fed with the slices that our agent would publish; and,
from the same slices as plain JSON, every set that could serve a request, rated by the policy's own words.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any, TypeAlias

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
class Ask:
    """So many devices of a class."""

    device_class: str
    count: int
    profile: str = ""
    """MIG profile or vNPU template."""

    def accepts(self, device: "Plain") -> bool:
        """Say whether a device would do."""
        kind = device.attributes.get(f"{device.driver}/type")
        own = device.attributes.get(f"{device.driver}/profile") or device.attributes.get(
            f"{device.driver}/template"
        )
        wanted = {"gpu": "gpu", "mig": "mig", "npu": "npu", "vnpu": "vnpu", "rdma": "nic"}
        return kind == wanted[self.device_class.split(".")[0]] and (own or "") == self.profile


@dataclass(frozen=True, slots=True)
class Plain:
    """A published device as plain JSON says it."""

    id: DeviceId
    driver: str
    attributes: Mapping[str, Any]
    """By qualified name."""
    needs: Mapping[tuple[str, str, str], Fraction]


Choice: TypeAlias = tuple[tuple[Plain, ...], ...]
"""Devices by ask."""


class Board:
    """One node."""

    def __init__(self, cards: Raw, node: str = "n1") -> None:
        simulation = Simulation.model_validate(cards)
        inventory = NodeInventory(cards=tuple(card for card, _ in make(simulation, node)))
        self.node = node
        self.slices: list[Raw] = []
        for pool in pools(inventory, DRIVERS):
            for content in pool.contents:
                self.slices.append(
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
                )
        self.devices = [
            plain(raw, piece) for piece in self.slices for raw in piece["spec"].get("devices", ())
        ]
        self.counters = {
            (piece["spec"]["driver"], row["name"], name): number(entry["value"])
            for piece in self.slices
            for row in piece["spec"].get("sharedCounters", ())
            for name, entry in row["counters"].items()
        }
        self.held: list[DeviceId] = []

    def take(self, device: Plain) -> None:
        """Let a device be in use."""
        self.held.append(device.id)
        for name, amount in device.needs.items():
            self.counters[name] -= amount

    def fits(self, chosen: Sequence[Plain]) -> bool:
        """Say whether what is left of the counters suffices for these together."""
        used: Counter[Any] = Counter()
        for device in chosen:
            used.update(device.needs)
        return all(amount <= self.counters[name] for name, amount in used.items())

    def open(self, asks: Sequence[Ask]) -> list[list[Plain]]:
        """Return the devices that each ask could take, if it were the only one."""
        free = [device for device in self.devices if device.id not in self.held and self.fits([device])]
        return [[device for device in free if ask.accepts(device)] for ask in asks]


def plain(raw: Raw, piece: Raw) -> Plain:
    """Read a device of a slice."""
    driver = piece["spec"]["driver"]
    return Plain(
        DeviceId(driver, piece["spec"]["pool"]["name"], raw["name"]),
        driver,
        {
            name if "/" in name else f"{driver}/{name}": next(iter(value.values()))
            for name, value in raw["attributes"].items()
        },
        {
            (driver, need["counterSet"], name): number(entry["value"])
            for need in raw.get("consumesCounters", ())
            for name, entry in need["counters"].items()
        },
    )


def number(text: str) -> Fraction:
    """Read a quantity."""
    return Fraction(Quantity.parse(text).nano)


@cache
def classes() -> tuple[DeviceClass, ...]:
    """Return the installed DeviceClasses."""
    raw = yaml.safe_load_all((ROOT / "manifests/base/device-classes.yaml").read_text())
    return tuple(DeviceClass.from_json(each) for each in raw)


def cluster(*boards: Board) -> State:
    """Return a state that knows the nodes, the installed DeviceClasses, and what is in use."""
    state = State()
    for each in classes():
        state.put_class(each)
    for board in boards:
        state.put_node(board.node, {})
        for raw in board.slices:
            state.put_slice(Slice.from_json(raw))
        for index, device in enumerate(board.held):
            state.hold(f"{board.node}/{index}", [DeviceResult("r", device)])
    return state


def claim(*asks: Ask, name: str = "c") -> Claim:
    """Return a claim with one request per ask."""
    rows = []
    for index, ask in enumerate(asks):
        exact: Raw = {"deviceClassName": ask.device_class, "allocationMode": "ExactCount", "count": ask.count}
        if ask.profile:
            driver, key = (
                (DRIVERS[CardKind.GPU], "profile")
                if "mig" in ask.device_class
                else (DRIVERS[CardKind.NPU], "template")
            )
            text = f'device.attributes["{driver}"].{key} == "{ask.profile}"'
            exact["selectors"] = [{"cel": {"expression": text}}]
        rows.append({"name": f"r{index}", "exactly": exact})
    return Claim.from_json(
        {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"devices": {"requests": rows}}}
    )


# Every set, rated. ------------------------------------------------------------------------------------------------


def sets(board: Board, asks: Sequence[Ask]) -> Iterator[Choice]:
    """Yield every choice of devices, one tuple per ask, that the node could serve."""
    ways = [list(combinations(open_, ask.count)) for ask, open_ in zip(asks, board.open(asks), strict=True)]
    for choice in product(*ways):
        every = [device for part in choice for device in part]
        shared = Counter(need[:2] for device in every for need in {key[:2]: 0 for key in device.needs})
        # Devices on different cards fit together because each of them does.
        if max(shared.values(), default=0) < 2 or board.fits(every):
            yield choice


class Rating:
    """What a policy's ladder says of sets on one node."""

    def __init__(self, ladder: Sequence[Raw], board: Board, asks: Sequence[Ask]) -> None:
        self.ladder = ladder
        self._spots = {device.id: tuple(value(rung, device) for rung in ladder) for device in board.devices}
        self._free = [
            [Counter(self._spots[device.id][number_] for device in open_) for number_ in range(len(ladder))]
            for open_ in board.open(asks)
        ]
        """By ask and rung: how many devices every value has free."""

    def close(self, choice: Choice) -> tuple[int, ...]:
        """Rate a choice: worst level among the pairs, unevenness, sum of the levels, then what `fill` says."""
        parts = [[self._spots[device.id] for device in part] for part in choice]
        every = [spot for part in parts for spot in part]
        levels = [self.level(one, other) for one, other in combinations(every, 2)]
        uneven = 0
        fills = []
        for number_, rung in enumerate(self.ladder):
            if rung.get("split") == "Even":
                counts = Counter(spot[number_] for spot in every if spot[number_] is not None)
                uneven += max(counts.values(), default=0) - min(counts.values(), default=0)
            if "fill" in rung:
                rank = 0
                for free, part in zip(self._free, parts, strict=True):
                    for key, taken in Counter(spot[number_] for spot in part).items():
                        rank += place(rung["fill"], taken, free[number_][key]) if key is not None else 0
                fills.append(rank)
        return (max(levels, default=0), uneven, sum(levels), *fills)

    def level(self, one: Sequence[Any], other: Sequence[Any]) -> int:
        """Return the first rung on which two devices agree."""
        for number_, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            if mine is not None and mine == theirs:
                return number_
        return len(self.ladder)


def value(rung: Raw, device: Plain) -> Any:
    """Return what a device holds on a rung."""
    own = {row["driver"]: row["attribute"] for row in rung.get("perDriver", ())}
    if device.driver not in own and rung.get("drivers") and device.driver not in rung["drivers"]:
        return None
    return device.attributes.get(own.get(device.driver, rung["attribute"]))


def place(fill: Raw, taken: int, free: int) -> int:
    """Return how late a value comes that has so many free, when so many are taken from it."""
    for row in fill.get("order", ()):
        if row["take"] == taken:
            return row["free"].index(free) if free in row["free"] else len(row["free"]) + free
    return free


def score(state: State, board: Board, choice: Choice) -> tuple[int, int]:
    """Rate a choice as Pack does: what it makes impossible, then what is left in the pools that it touches."""
    view = state.view(board.node)
    before = sum(group.state.worth for group in view.groups)
    every = [device for part in choice for device in part]
    state.hold("try", [DeviceResult("r", device.id) for device in every])
    view = state.view(board.node)
    lost = before - sum(group.state.worth for group in view.groups)
    ids = {device.id for device in every}
    touched = sum(1 << index for index in range(len(view.devices)) if view.id_of(index) in ids)
    left = (view.pools_of(touched) & view.fit & ~view.exclusive).bit_count()
    state.release("try")
    return lost, left
