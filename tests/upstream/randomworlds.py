"""Worlds from a seed, with random combinations of all features that are on by default."""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from apportion.dra.node import OPTIONAL_NODE_OPERATIONS
from tests.allocator.randomworlds import FEATURES, GROUPS

Raw = dict[str, Any]
DRIVERS: Final = ("driver-a", "driver-b")
_SELECTORS: Final = (
    "true",
    'device.driver == "driver-a"',
    'device.attributes["driver-a"].kind == "x"',
    'device.attributes["driver-a"].?kind.orValue("") == "x"',
    'has(device.attributes["shared.example.com"].numa)',
    'device.attributes["shared.example.com"].numa == 1',
    'device.capacity["driver-a"].memory.compareTo(quantity("2")) >= 0',
    '"memory" in device.capacity["driver-b"]',
    "device.allowMultipleAllocations",
    'device.attributes["driver-b"].kind.startsWith("x") || device.driver == "driver-a"',
    'device.attributes["shared.example.com"].ring.includes(1)',
)
_SAFE: Final = (
    "true",
    'device.driver == "driver-a"',
    'device.attributes["driver-a"].?kind.orValue("") == "x"',
    'has(device.attributes["shared.example.com"].numa)',
    'device.attributes["shared.example.com"].?numa.orValue(1) == 1',
    '"memory" in device.capacity["driver-b"]',
    "device.allowMultipleAllocations",
)
"""Never an error, whatever the device."""
_TAINTS: Final = (
    {"key": "sick", "value": "yes", "effect": "NoSchedule"},
    {"key": "sick", "value": "no", "effect": "NoExecute"},
    {"key": "watch", "effect": "None"},
)
_TOLERATIONS: Final = (
    {"operator": "Exists"},
    {"key": "sick", "operator": "Equal", "value": "yes"},
    {"key": "sick", "operator": "Exists", "effect": "NoExecute"},
    {"key": "other", "operator": "Exists"},
)


def random_world(seed: int, *, lists: bool) -> Raw:
    """Return one world; the same seed gives the same world."""
    return _Maker(Random(seed), lists=lists).world()  # noqa: S311 - a test's seed


class _Maker:
    def __init__(self, random: Random, *, lists: bool) -> None:
        self._random = random
        self._lists = lists
        self._each = False
        """Some devices are on another node; upstream evaluates selectors on them, too."""
        self._counted = False
        """Upstream counts admin access against counters (kubernetes #140729), ours does not."""
        self._common: dict[tuple[str, str, str], frozenset[str]] = {}
        """Compatibility groups that all devices in use of a counter set have."""
        self._allocated: Raw = {"devices": [], "shared": [], "capacity": []}

    def _once(self, chances: int) -> bool:
        return self._random.randrange(chances) == 0

    def world(self) -> Raw:
        slices = [
            slice_
            for driver in DRIVERS[: self._random.randint(1, 2)]
            for pool in ("node-1", "pool-b")[: 1 + self._once(4)]
            for slice_ in self._pool(driver, pool)
        ]
        declared = {"declaredFeatures": [OPTIONAL_NODE_OPERATIONS] if self._once(2) else []}
        return {
            "features": FEATURES | {"ListTypeAttributes": self._lists},
            "node": {"metadata": {"name": "node-1", "labels": {"zone": "z1"}}, "status": declared},
            "classes": [self._class(name) for name in ("any", *DRIVERS)],
            "slices": slices,
            "claims": [self._claim(index) for index in range(self._random.randint(1, 2))],
            "allocated": self._allocated,
        }

    def _class(self, name: str) -> Raw:
        spec: Raw = {}
        if name != "any":
            spec["selectors"] = [{"cel": {"expression": f'device.driver == "{name}"'}}]
        if self._once(4):
            spec["config"] = [{"opaque": {"driver": "driver-a", "parameters": {"from": name}}}]
        return {"metadata": {"name": name}, "spec": spec}

    def _where(self) -> Raw:
        selector = {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1", "z2"]}]}
            ]
        }
        wrong = {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["z1"]}]}
            ]
        }
        return self._random.choice(
            [{"nodeName": "node-1"}] * 12
            + [
                {"allNodes": True},
                {"nodeSelector": selector},
                {"nodeSelector": wrong},
                {"nodeName": "node-2"},
            ]
        )

    def _pool(self, driver: str, name: str) -> list[Raw]:
        counted = self._once(2)
        groups, count = GROUPS[: self._random.choice([1, 4, 7])], self._random.randint(2, 7)
        rows = [self._device(index, counted=counted, groups=groups) for index in range(count)]
        sizes = {
            one: {c: self._random.randint(2, 6) for c in ("cores", "slices")} for one in ("set-0", "set-1")
        }
        left = {(one, counter): size for one, found in sizes.items() for counter, size in found.items()}
        for row in rows:
            self._use(driver, name, row, left)
        each = self._once(8)
        self._each |= each
        self._counted |= counted
        where = {"perDeviceNodeSelection": True} if each else self._where()
        if each:
            for row in rows:
                row.update(self._where())
        cut = self._random.randint(0, len(rows))
        parts = [part for part in (rows[:cut], rows[cut:]) if part]
        count = len(parts) + counted + self._once(60)
        pool = {"name": name, "generation": 2, "resourceSliceCount": count}
        base = {"driver": driver, "pool": pool, **where}
        if self._once(8):
            base["skipNodeOperations"] = ["*"]
        found = [
            {"metadata": {"name": f"{driver}-{name}-{index}"}, "spec": base | {"devices": part}}
            for index, part in enumerate(parts)
        ]
        if counted:
            sets = [
                {
                    "name": one,
                    "counters": {counter: {"value": str(size)} for counter, size in counters.items()},
                }
                for one, counters in sizes.items()
            ]
            found.append(
                {"metadata": {"name": f"{driver}-{name}-counters"}, "spec": base | {"sharedCounters": sets}}
            )
        if self._once(6):
            old = base | {"pool": pool | {"generation": 1}, "devices": [{"name": "dev-0"}, {"name": "old"}]}
            found.append({"metadata": {"name": f"{driver}-{name}-old"}, "spec": old})
        return found

    def _use(self, driver: str, pool: str, row: Raw, left: dict[tuple[str, str], int]) -> None:
        where = {"driver": driver, "pool": pool, "device": row["name"]}
        needed = {
            (one["counterSet"], counter): int(amount["value"])
            for one in row.get("consumesCounters", ())
            for counter, amount in one["counters"].items()
        }
        # No more is in use than there is: upstream refuses everything of a set of which one counter is overdrawn.
        if any(left[key] < amount for key, amount in needed.items()) or not self._once(3):
            return
        of = {
            one["counterSet"]: frozenset(one.get("compatibilityGroups", [""]))
            for one in row.get("consumesCounters", ())
        }
        common = {name: own & self._common.get((driver, pool, name), own) for name, own in of.items()}
        if not all(common.values()):
            return
        self._common.update({(driver, pool, name): own for name, own in common.items()})
        for key, amount in needed.items():
            left[key] -= amount
        shareable = row.get("allowMultipleAllocations")
        if not shareable:
            self._allocated["devices"].append(where)
        else:
            consumed = dict.fromkeys(row.get("capacity", {}), "1")
            share = f"aaaaaaaa-aaaa-aaaa-aaaa-{len(self._allocated['shared']):012d}"
            self._allocated["shared"].append(where | {"shareID": share})
            self._allocated["capacity"].append(where | {"consumed": consumed})

    def _device(self, index: int, *, counted: bool, groups: Sequence[Sequence[str]]) -> Raw:
        random = self._random
        row: Raw = {"name": f"dev-{index}", "attributes": {"kind": {"string": random.choice("xy")}}}
        values: list[Raw | None] = [None, {"int": 0}, {"int": 1}, {"int": 1}, {"string": "0"}]
        rings: list[Raw | None] = [None, None, {"int": 1}]
        if self._lists:
            values.append({"ints": [0, 1]})
            rings += [{"ints": [1, 2]}, {"ints": [2, 3]}]
        for name, choices in (("numa", values), ("ring", rings)):
            value = random.choice(choices)
            if value is not None:
                row["attributes"][f"shared.example.com/{name}"] = value
        if self._once(7):
            row["taints"] = random.sample(_TAINTS, random.randint(1, 2))
        if self._once(9):
            row |= {
                "bindsToNode": self._once(2),
                "bindingConditions": ["ready"],
                "bindingFailureConditions": ["broken"],
            }
        if self._once(2):
            row["capacity"] = {
                name: self._capacity() for name in ("memory", "bandwidth")[: random.randint(1, 2)]
            }
            if self._once(2):
                row["allowMultipleAllocations"] = True
            else:
                for entry in row["capacity"].values():
                    entry.pop("requestPolicy", None)
        if counted and random.randrange(4):
            row["consumesCounters"] = [
                {
                    "counterSet": name,
                    "counters": {
                        counter: {"value": str(random.randint(0, 3))}
                        for counter in random.choice([("cores",), ("slices",), ("cores", "slices")])
                    },
                    **({"compatibilityGroups": list(own)} if (own := random.choice(groups)) else {}),
                }
                for name in random.choice([("set-0",), ("set-1",), ("set-0", "set-1")])
            ]
        return row

    def _capacity(self) -> Raw:
        entry: Raw = {"value": str(self._random.randint(2, 6))}
        policy = self._random.choice(
            [
                None,
                {"default": "1", "validRange": {"min": "1", "step": "2"}},
                {"default": "2", "validRange": {"min": "1", "max": "3"}},
                {"default": "2", "validValues": ["1", "2", "4"]},
                {"default": "1"},
            ]
        )
        if policy is not None:
            entry["requestPolicy"] = policy
        return entry

    def _claim(self, index: int) -> Raw:
        rows = [self._request(number) for number in range(self._random.choice([1, 1, 2, 2, 3]))]
        devices: Raw = {"requests": rows}
        if self._once(3):
            devices["constraints"] = [self._constraint(rows) for _ in range(self._random.randint(1, 2))]
        if self._once(5):
            devices["config"] = [
                {
                    "requests": [self._random.choice(rows)["name"]],
                    "opaque": {"driver": self._random.choice(DRIVERS), "parameters": {"from": "claim"}},
                }
            ]
        return {"metadata": {"name": f"claim-{index}"}, "spec": {"devices": devices}}

    def _constraint(self, rows: list[Raw]) -> Raw:
        kind = self._random.choice(["matchAttribute", "matchAttribute", "distinctAttribute"])
        name = self._random.choice(["numa", "numa", "ring"])
        found: Raw = {kind: f"shared.example.com/{name}"}
        if self._once(2):
            chosen = self._random.sample(rows, self._random.randint(1, len(rows)))
            found["requests"] = [
                f"{row['name']}/sub-0" if "firstAvailable" in row and self._once(2) else row["name"]
                for row in chosen
            ]
        return found

    def _request(self, number: int) -> Raw:
        if self._random.randrange(3):
            return {
                "name": f"req-{number}",
                "exactly": self._alternative(admin=not self._counted and self._once(6)),
            }
        return {
            "name": f"req-{number}",
            "firstAvailable": [
                self._alternative(admin=False) | {"name": f"sub-{index}"}
                for index in range(self._random.randint(1, 3))
            ],
        }

    def _alternative(self, *, admin: bool) -> Raw:
        random = self._random
        row: Raw = {"deviceClassName": random.choice(["any", "any", *DRIVERS])}
        if self._once(9):
            row["allocationMode"] = "All"
        else:
            row |= {"allocationMode": "ExactCount", "count": random.choice([1, 1, 1, 1, 2, 3])}
        if self._once(3):
            texts = _SAFE if self._each or self._random.randrange(3) else _SELECTORS
            chosen = [random.choice(texts) for _ in range(random.randint(1, 2))]
            row["selectors"] = [{"cel": {"expression": text}} for text in chosen]
        if self._once(4):
            row["tolerations"] = [random.choice(_TOLERATIONS)]
        if self._once(5):
            row["capacity"] = {"requests": {"memory": random.choice(["1", "2", "3", "1500m"])}}
        if admin:
            row["adminAccess"] = True
        if self._once(60):
            row["derivedAttributes"] = [{"name": "shared.example.com/numa", "expression": "1"}]
        return row
