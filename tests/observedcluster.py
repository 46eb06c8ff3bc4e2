"""A small cluster of raw API objects, and a snapshot that has observed them.

In: names and fields of nodes, classes, slices, claims and pods. Out: the objects as JSON, and the operator's snapshot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apportion.allocator.state import State
from apportion.cluster.kinds import CLAIMS, CLASSES, NODES, PODS, SLICES, Kind
from apportion.cluster.ledger import Ledger
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod

Json = dict[str, Any]
GPU = "gpu.apportion.dev"
PROFILES = {"1g.10gb": (19, 1, range(7)), "3g.40gb": (9, 4, (0, 4)), "7g.80gb": (0, 8, (0,))}
"""Profiles of the card: profile id, size in memory slices, first slices."""


@dataclass
class ObservedCluster:
    """API objects that a snapshot observes; every change gets a higher resourceVersion."""

    version: int = 100
    rung: int = 0
    snapshot: Snapshot = field(init=False)

    def __post_init__(self) -> None:
        """Make the snapshot; `rung` counts how often it requested a pass."""
        self.snapshot = Snapshot(State(), Ledger(), ring=self._ring)

    def _ring(self) -> None:
        self.rung += 1

    def see(self, kind: Kind, raw: Json, change: str = "MODIFIED") -> Json:
        """Show an object to the snapshot in a new version."""
        self.version += 1
        metadata = raw.setdefault("metadata", {})
        metadata["uid"] = (
            metadata.get("uid") or f"uid-{metadata.get('namespace', '')}-{kind.plural}-{metadata['name']}"
        )
        metadata["resourceVersion"] = str(self.version)
        metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        self.snapshot.observe(kind, change, raw)
        return raw

    def node(self, name: str, *, cpu: str = "8", **labels: str) -> Json:
        """Add a node with capacity for ten pods."""
        resources = {"cpu": cpu, "memory": "32Gi", "pods": "10"}
        raw = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": resources}}
        return self.see(NODES, raw)

    def device_class(self, name: str, expression: str = "true", **labels: str) -> Json:
        """Add a DeviceClass; without labels it is managed."""
        own = labels or {"apportion.dev/managed": "true"}
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        return self.see(CLASSES, {"metadata": {"name": name, "labels": own}, "spec": spec})

    def card(self, node: str, name: str = "gpu-0") -> None:
        """Publish one partitionable card: one slice of counters, one of devices."""
        slots = {f"memory-slice-{index}": {"value": "1"} for index in range(8)}
        counter_set = f"{name}-counter-set"
        devices = [_device(name, {"type": "gpu"}, counter_set, slots)]
        for profile, (number, size, starts) in PROFILES.items():
            for start in starts:
                own = {key: value for key, value in slots.items() if start <= int(key[-1]) < start + size}
                label = f"{name}-mig-{profile.replace('.', '')}-{number}-{start}"
                devices.append(_device(label, {"type": "mig", "profile": profile}, counter_set, own))
        self.slice(
            node, f"{node}-{name}-counters", {"sharedCounters": [{"name": counter_set, "counters": slots}]}, 2
        )
        self.slice(node, f"{node}-{name}-devices", {"devices": devices}, 2)

    def slice(self, node: str, name: str, content: Json, count: int, pool: str = "") -> Json:
        """Add a slice of one of the node's pools."""
        pool_spec = {"name": pool or node, "generation": 1, "resourceSliceCount": count}
        spec = {"driver": GPU, "nodeName": node, "pool": pool_spec, **content}
        return self.see(SLICES, {"metadata": {"name": name}, "spec": spec})

    def claim(self, name: str, *requests: Json, **metadata: Any) -> Json:
        """Add a claim in namespace `team`; by default it requests one device of class `gpu`."""
        wanted = list(requests) or [request("gpu")]
        raw = {
            "metadata": {"name": name, "namespace": "team", **metadata},
            "spec": {"devices": {"requests": wanted}},
        }
        return self.see(CLAIMS, raw)

    def allocate(
        self, raw: Json, node: str, *devices: str, by: str = "apportion-operator", **status: Any
    ) -> Json:
        """Allocate a claim: show it with a status."""
        name = raw["spec"]["devices"]["requests"][0]["name"]
        results = [{"request": name, "driver": GPU, "pool": node, "device": device} for device in devices]
        place = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        raw["status"] = {
            "allocation": {
                "devices": {"results": results},
                "nodeSelector": {"nodeSelectorTerms": [place]},
                "allocationTimestamp": status.pop("timestamp", "2026-01-01T00:00:00Z"),
            },
            **status,
        }
        raw["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        raw["metadata"]["managedFields"] = [
            {"manager": by, "fieldsV1": {"f:status": {"f:allocation": {}}}},
        ]
        return self.see(CLAIMS, raw)

    def pod(
        self, name: str, *claims: str, gates: Sequence[str] = (), spec: Mapping[str, Any] | None = None
    ) -> Json:
        """Add a pod in namespace `team` that names claims directly and requests one core."""
        raw = {
            "metadata": {"name": name, "namespace": "team"},
            "spec": {
                "schedulingGates": [{"name": gate} for gate in gates],
                "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
                **(spec or {}),
            },
        }
        return self.see(PODS, raw)

    def gone(self, kind: Kind, raw: Json) -> None:
        """Delete an object."""
        self.snapshot.observe(kind, "DELETED", raw)

    def claim_value(self, raw: Json) -> Claim:
        """Return the snapshot's value of a claim."""
        return self.snapshot.claims[raw["metadata"]["uid"]]

    def pod_value(self, raw: Json) -> Pod:
        """Return the snapshot's value of a pod."""
        return self.snapshot.pods[raw["metadata"]["uid"]]


def request(device_class: str, *, name: str = "", expression: str = "", **exactly: Any) -> Json:
    """Return one request for a device class."""
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return {
        "name": name or device_class,
        "exactly": {"deviceClassName": device_class, "selectors": selectors, **exactly},
    }


def _device(name: str, attributes: Mapping[str, str], counter_set: str, counters: Json) -> Json:
    return {
        "name": name,
        "attributes": {key: {"string": value} for key, value in attributes.items()},
        "consumesCounters": [{"counterSet": counter_set, "counters": counters}],
    }
