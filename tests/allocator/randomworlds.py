"""Hypothesis strategy for small worlds: one node, at most eight devices and two claims, as plain JSON.

Hypothesis draws the ends of a range most often, so what makes claims unsolvable (taints, mode All) is never at an end: in a
world without a solution no constraint can change the answer.
"""

from collections.abc import Sequence

from hypothesis import strategies as st

from tests.allocator.referencenode import Raw

FEATURES = {
    "AdminAccess": True,
    "ConsumableCapacity": True,
    "DeviceBindingAndStatus": True,
    "DeviceTaints": True,
    "FractionalCapacityRange": True,
    "PartitionableDevices": True,
    "PrioritizedList": True,
    "ListTypeAttributes": True,
    "CompatibilityGroups": True,
    "OptionalNodeOperations": True,
}
DRIVERS = ("driver-a", "driver-b")
NUMA, RING = "shared.example.com/numa", "shared.example.com/ring"
"""Attributes of devices of both drivers, which constraints compare."""
TAINT = {"key": "sick", "value": "yes", "effect": "NoSchedule"}


_DEVICES = st.integers(3, 4)
"""Devices in a pool."""
# 1 and true are equal in Python, but not for a constraint.
_NUMAS: tuple[Raw | None, ...] = ({"int": 0}, {"int": 1}, {"int": 1}, None, {"bool": True}, {"string": "0"})
_LISTS: tuple[Raw | None, ...] = ({"ints": [0, 1]}, {"ints": [1]})
_RINGS: tuple[Raw | None, ...] = ({"int": 0}, {"int": 1}, None, {"int": 2})


_FURTHER: tuple[Raw, ...] = (
    {},
    {"cores": {"value": "4", "requestPolicy": {"default": "1", "validRange": {"min": "1"}}}},
    {"fans": {"value": "2", "requestPolicy": {"default": "0", "validValues": ["0"]}}},
    {},
)
"""Capacities of devices to share beside their memory; nobody takes any of the fans."""

GROUPS = ((), ("m",), ("n",), ("m", "n"), ("n", "o"), ("m", "o"), ("m", "n", "o"))
"""Compatibility groups of what a device consumes of a counter set."""


@st.composite
def worlds(draw: st.DrawFn) -> Raw:
    """Draw a world of one node, at most eight devices and two claims; every feature may occur."""
    slices: list[Raw] = []
    allocated: Raw = {"devices": [], "shared": [], "capacity": []}
    lists = draw(st.booleans())
    for driver in DRIVERS[: draw(st.integers(1, 2))]:
        slices += draw(_pool(driver, allocated, lists=lists))
    return {
        "features": FEATURES,
        "node": {"metadata": {"name": "node-1", "labels": {}}},
        "classes": [
            {
                "metadata": {"name": driver},
                "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
            }
            for driver in DRIVERS
        ]
        + [{"metadata": {"name": "any"}, "spec": {}}],
        "slices": slices,
        "claims": [draw(_claim(index)) for index in range(draw(st.sampled_from([1, 1, 2])))],
        "allocated": allocated,
    }


@st.composite
def _pool(draw: st.DrawFn, driver: str, allocated: Raw, *, lists: bool) -> list[Raw]:
    counted = draw(st.booleans())
    groups = GROUPS[: 1 + draw(st.sampled_from([0, 6, 3]))]
    rows = [
        draw(_device(index, counted=counted, lists=lists, groups=groups)) for index in range(draw(_DEVICES))
    ]
    for row in rows:
        where = {"driver": driver, "pool": "node-1", "device": row["name"]}
        use = draw(st.sampled_from(["free", "free", "free", "held", "shared", "free"]))
        if use == "held":
            allocated["devices"].append(where)
        elif use == "shared" and row.get("allowMultipleAllocations"):
            allocated["capacity"].append(where | {"consumed": draw(_consumed(row["capacity"]))})
    cut = draw(st.integers(0, len(rows)))
    parts = [part for part in (rows[:cut], rows[cut:]) if part]
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": len(parts) + counted}
    base = {"driver": driver, "pool": pool, "nodeName": "node-1"}
    found = [
        {"metadata": {"name": f"{driver}-{index}"}, "spec": base | {"devices": part}}
        for index, part in enumerate(parts)
    ]
    if counted:
        sets = [
            {
                "name": name,
                "counters": {
                    counter: {"value": str(draw(st.integers(2, 6)))} for counter in ("cores", "slices")
                },
            }
            for name in ("set-0", "set-1")
        ]
        found.append({"metadata": {"name": f"{driver}-counters"}, "spec": base | {"sharedCounters": sets}})
    return found


@st.composite
def _consumed(draw: st.DrawFn, capacity: Raw) -> Raw:
    """Draw what a share has consumed of a device; its driver may have named a capacity otherwise then, or had one more or less."""
    found = {name: "0" if name == "fans" else "1" for name in capacity}
    before = draw(
        st.sampled_from(["as now", "as now", "renamed", "more", "more of nothing", "less", "as now"])
    )
    if before in {"renamed", "less"}:
        del found[draw(st.sampled_from(sorted(found)))]
    amount = {"renamed": "1", "more": "1", "more of nothing": "0"}.get(before)
    return found | ({"hbm": amount} if amount is not None else {})


@st.composite
def _device(
    draw: st.DrawFn, index: int, *, counted: bool, lists: bool, groups: Sequence[Sequence[str]]
) -> Raw:
    row: Raw = {"name": f"dev-{index}", "attributes": {"kind": {"string": draw(st.sampled_from("xy"))}}}
    for name, values in ((NUMA, _NUMAS + _LISTS if lists else _NUMAS), (RING, _RINGS)):
        value = draw(st.sampled_from(values))
        if value is not None:
            row["attributes"][name] = value
    if draw(st.integers(0, 5)) == 3:
        row["taints"] = [TAINT]
    if draw(st.integers(0, 3)) == 2:
        row["allowMultipleAllocations"] = True
        entry: Raw = {"value": str(draw(st.integers(1, 4)))}
        if draw(st.booleans()):
            entry["requestPolicy"] = {"default": "1", "validRange": {"min": "1", "step": "2"}}
        row["capacity"] = {"memory": entry} | draw(st.sampled_from(_FURTHER))
    if counted and draw(st.integers(0, 3)):
        row["consumesCounters"] = [
            {
                "counterSet": name,
                "counters": {
                    counter: {"value": str(draw(st.integers(0, 3)))}
                    for counter in draw(st.sampled_from([("cores",), ("slices",), ("cores", "slices")]))
                },
                **({"compatibilityGroups": list(own)} if (own := draw(st.sampled_from(groups))) else {}),
            }
            for name in draw(st.sampled_from([("set-0",), ("set-1",), ("set-0", "set-1")]))
        ]
    return row


@st.composite
def _claim(draw: st.DrawFn, index: int) -> Raw:
    rows = [draw(_request(number)) for number in range(draw(st.integers(1, 2)))]
    devices: Raw = {"requests": rows}
    # Mode All with a constraint that fails is an error by upstream's rules, not a lack of a solution.
    every = any(
        index.get("allocationMode") == "All"
        for row in rows
        for index in (row.get("exactly"), *row.get("firstAvailable", ()))
        if index
    )
    if not every and draw(st.integers(0, 1)):
        kind = draw(st.sampled_from(["matchAttribute", "distinctAttribute"]))
        devices["constraints"] = [{kind: draw(st.sampled_from([NUMA, NUMA, RING]))}]
        if draw(st.integers(0, 2)) == 2:
            devices["constraints"][0]["requests"] = [rows[0]["name"]]
    return {"metadata": {"name": f"claim-{index}"}, "spec": {"devices": devices}}


@st.composite
def _request(draw: st.DrawFn, number: int) -> Raw:
    if draw(st.integers(0, 2)):
        return {"name": f"req-{number}", "exactly": draw(_alternative(admin=True))}
    return {
        "name": f"req-{number}",
        "firstAvailable": [draw(_alternative(admin=False)) | {"name": f"sub-{index}"} for index in range(2)],
    }


@st.composite
def _alternative(draw: st.DrawFn, *, admin: bool) -> Raw:
    row: Raw = {"deviceClassName": draw(st.sampled_from(["any", "any", "any", "any", *DRIVERS]))}
    if draw(st.integers(0, 9)) == 4:
        row["allocationMode"] = "All"
    else:
        row |= {"allocationMode": "ExactCount", "count": draw(st.sampled_from([1, 2, 2, 1, 3, 2]))}
    if draw(st.integers(0, 4)) == 3:
        kind = draw(st.sampled_from("xy"))
        driver = draw(st.sampled_from(DRIVERS))
        row["deviceClassName"] = driver
        row["selectors"] = [{"cel": {"expression": f'device.attributes["{driver}"].kind == "{kind}"'}}]
    if draw(st.integers(0, 3)) == 0:
        row["tolerations"] = [{"key": "sick", "operator": "Exists"}]
    if draw(st.integers(0, 7)) == 4:
        row["capacity"] = {"requests": {"memory": str(draw(st.integers(1, 3)))}}
    if admin and draw(st.integers(0, 8)) == 4:
        row["adminAccess"] = True
    return row
