"""Slices, claims, Partitions and rows of hardware of one node with one card of eight slices."""

from typing import Any

from testbed import violations as rules
from testbed.api import Json
from testbed.violations import Devices

DRIVER, NODE = "gpu.apportion.dev", "n1"
WHOLE, LOW, HIGH, FIRST = "gpu-0", "gpu-0-mig-3g40gb-9-0", "gpu-0-mig-3g40gb-9-4", "gpu-0-mig-1g10gb-19-0"


def device(name: str, kind: str, start: int, size: int) -> Json:
    counters = {f"memory-slice-{index}": {"value": "1"} for index in range(start, start + size)}
    counters["memory"] = {"value": f"{size * 10}Gi"}
    return {
        "name": name,
        "attributes": {"type": {"string": kind}},
        "consumesCounters": [{"counterSet": "gpu-0-counter-set", "counters": counters}],
    }


def slices(*, left: int = 8, memory: str = "80Gi") -> list[Json]:
    """One card of 8 slices, of which the first ones may be gone; `memory`: what claims can share of it."""
    whole = device(WHOLE, "gpu", 0, 8) | {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": memory}},
    }
    own = whole["consumesCounters"][0]["counters"] | {"memory": {"value": f"{left * 10}Gi"}}
    spec = {"driver": DRIVER, "nodeName": NODE, "pool": {"name": NODE}}
    devices = [whole, device(LOW, "mig", 0, 4), device(HIGH, "mig", 4, 4), device(FIRST, "mig", 0, 1)]
    return [
        {"spec": spec | {"sharedCounters": [{"name": "gpu-0-counter-set", "counters": own}]}},
        {"spec": spec | {"devices": devices}},
    ]


def known(*, left: int = 8) -> Devices:
    devices = Devices()
    for piece in slices(left=left):
        devices.learn(piece)
    return devices


def claim(name: str, *names: str, pod: str = "", **result: Any) -> Json:
    results = [{"driver": DRIVER, "pool": NODE, "device": each, **result} for each in names]
    status: Json = {"allocation": {"devices": {"results": results}}}
    if pod:
        status["reservedFor"] = [{"uid": pod}]
    return {"metadata": {"namespace": "team", "name": name, "uid": f"uid-{name}"}, "status": status}


def share(name: str, memory: str, *, pod: str = "") -> Json:
    """A claim with a share of the whole card."""
    return claim(name, WHOLE, pod=pod, shareID=f"share-{name}", consumedCapacity={"memory": memory})


def live(*claims: Json) -> list[rules.Use]:
    return [use for each in claims for use in rules.uses(each)]


def partition(name: str, start: int, size: int, *, holder: str = "", uuid: str = "") -> Json:
    spec: Json = {"driver": DRIVER, "pool": NODE, "nodeName": NODE, "device": name, "parent": WHOLE}
    spec |= {"profile": f"{size}g", "placement": {"start": start, "size": size}}
    if holder:
        spec["holder"] = {"kind": "ResourceClaim", "name": holder, "uid": f"uid-{holder}"}
    return {"metadata": {"name": f"{NODE}-{name}"}, "spec": spec, "status": {"uuid": uuid}}


def row(start: int, size: int, *, card: str = WHOLE, foreign: bool = False, uuid: str = "") -> Json:
    place = {"card": card, "profile": f"{size}g", "start": start, "size": size}
    return place | {"uuid": uuid, "complete": True, "foreign": foreign}


def pod(node: str, *, reserved: str = "p") -> Json:
    spec = {"nodeName": node, "resourceClaims": [{"name": "r", "resourceClaimName": "a"}]}
    return {"metadata": {"namespace": "team", "name": "p", "uid": reserved}, "spec": spec}
