"""What is published of a pool as long as kubelet cannot call the driver's plugin: what claims may have already. Pure.

In: a pool, the live slices of its driver. Out: the pool without devices that are new, and with the taints that are about to go. Kubelet tries
a prepare whose driver is not registered again with the next sync of the pod only, 60 to 90 s later (K8S 1.37: pkg/kubelet/kuberuntime,
`SyncPod` returns no error of it; pkg/kubelet/pod_workers.go, `completeWork`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from apportion.agent.slices.changes import Json, bare
from apportion.agent.slices.pool import DriverPool


def withhold(pool: DriverPool, live: Sequence[Json]) -> DriverPool:
    """Leave out of a pool what would bring claims to it that its live slices bring to none; what is taken from claims stays taken."""
    before = {device["name"]: bare(device) for item in live for device in item["spec"].get("devices") or ()}
    contents = [
        replace(
            each, rows=tuple(_tainted(row, before[row["name"]]) for row in each.rows if row["name"] in before)
        )
        if each.field == "devices"
        else each
        for each in pool.contents
    ]
    left = tuple(each for each in contents if each.rows)
    return DriverPool(pool.driver, left if any(each.field == "devices" for each in left) else ())


def _tainted(device: Json, before: Mapping[str, Json]) -> Json:
    taints = device.get("taints") or []
    kept = [taint for taint in before.get("taints") or () if taint not in taints]
    return {**device, "taints": [*taints, *kept]} if kept else device
