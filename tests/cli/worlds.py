"""Clusters as the commands read them from files, drawn or written down."""

import json
import random
from pathlib import Path
from typing import Any

import orjson

from apportion.cli.world.holds import Holds
from apportion.cli.world.objects import kind_of
from apportion.cluster import kinds
from tests.observedcluster import GPU, ObservedCluster, request

Json = dict[str, Any]


class Cluster(ObservedCluster):
    """An observed cluster that keeps the objects, so that they can be written to a file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.holds = Holds(self.snapshot.state)

    def see(self, kind: kinds.ResourceKind, raw: Json, change: str = "MODIFIED") -> Json:
        if kind == kinds.HOLDS:
            # The operator does not observe them: it holds what they show.
            self.holds.put(raw)
            found = raw
        else:
            found = super().see(kind, raw, change)
        metadata = found["metadata"]
        self.objects[kind.name, metadata.get("namespace", ""), metadata["name"]] = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            **found,
        }
        return found

    def hold(self, purpose: str, held_for: Json, *devices: tuple[str, str], **spec: Any) -> str:
        """Hold devices, each given by node and name, for a claim or a DefragPolicy; returns the name of the DeviceHold."""
        name = purpose.lower() if purpose == "Move" else f"{purpose.lower()}-{held_for['name']}"
        rows = [{"driver": GPU, "pool": node, "device": device} for node, device in devices]
        more = {"priority": 0} if purpose != "Move" else {}
        made = {
            "purpose": purpose,
            "heldFor": [held_for],
            "count": len(rows),
            "devices": rows,
            **more,
            **spec,
        }
        self.see(kinds.HOLDS, {"metadata": {"name": name}, "spec": made})
        return name

    def anew(self) -> "Cluster":
        """Return a cluster of the same objects, of which nobody remembers anything."""
        made = Cluster(version=self.version, programs=self.programs)
        for raw in self.objects.values():
            kind = kind_of(raw)
            assert kind is not None
            made.see(kind, orjson.loads(orjson.dumps(raw)))
        return made

    def write(self, path: Path, version: str = "1.37") -> Path:
        """Write the objects as `apportion snapshot` does."""
        path.write_text(json.dumps(self.as_list(version)))
        return path

    def as_list(self, version: str = "1.37") -> Json:
        """Return the objects as a List."""
        items = [*self.objects.values()]
        return {"apiVersion": "v1", "kind": "List", "kubernetesVersion": version, "items": items}


def two_cards() -> Cluster:
    """Return two nodes with a card each, classes for whole cards and partitions, and a half that is held on the first."""
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.node(name, **{"kubernetes.io/hostname": name})
        cluster.card(name)
    kind = f'device.attributes["{GPU}"].type'
    cluster.device_class("gpu", f'{kind} == "gpu"')
    cluster.device_class("mig", f'{kind} == "mig"')
    held = cluster.claim("held", profile_request("3g.40gb"))
    cluster.allocate(held, "n1", "gpu-0-mig-3g40gb-9-0", reservedFor=[
        {"resource": "pods", "name": "holder", "uid": "uid-team-pods-holder"}
    ])  # fmt: skip
    cluster.pod("holder", "held", spec={"nodeName": "n1"})
    return cluster


def profile_request(profile: str, count: int = 1) -> Json:
    """Return a request for partitions of a profile."""
    expression = f'device.attributes["{GPU}"].profile == "{profile}"'
    return request("mig", expression=expression, count=count)


def drawn_cluster(rng: random.Random) -> Cluster:
    """Draw a few nodes with cards, some full, cordoned, tainted or short of cpu, and pods that wait for devices."""
    cluster = Cluster()
    kind = f'device.attributes["{GPU}"].type'
    cluster.device_class("gpu", f'{kind} == "gpu"')
    cluster.device_class("mig", f'{kind} == "mig"')
    # What is reserved for the first of the queue only the operator knows.
    cluster.policy(classes=("gpu", "mig"), queue={"mostReserved": 0})
    for number in range(rng.randint(1, 5)):
        raw = cluster.node(f"n{number}", cpu=rng.choice(["8", "8", "3"]), zone=rng.choice("ab"))
        if rng.random() < 0.15:
            raw["spec"] = rng.choice(
                [{"unschedulable": True}, {"taints": [{"key": "own", "effect": "NoSchedule"}]}]
            )
            cluster.see(kinds.NODES, raw)
        for card in range(rng.randint(0, 2)):
            sick = rng.random() < 0.1
            cluster.card(
                f"n{number}", f"gpu-{card}", taints=[{"key": "sick", "effect": "NoSchedule"}] if sick else ()
            )
    for number in range(rng.randint(0, 8)):
        cluster.wait_for(f"before-{number}", drawn_request(rng))
    return cluster


def drawn_situation(rng: random.Random) -> Cluster:
    """Draw a cluster as above; some pods are tied to a zone, and sometimes a quota has a limit."""
    cluster = drawn_cluster(rng)
    for number in range(rng.randint(0, 3)):
        zone = {"nodeSelector": {"zone": rng.choice("abc")}} if rng.random() < 0.7 else None
        cluster.wait_for(f"before-{number + 10}", drawn_request(rng), zone)
    if rng.random() < 0.3:
        cluster.see(kinds.NAMESPACES, {"metadata": {"name": "team"}})
        resources = [
            {"name": each, "deviceClass": each, "limit": rng.randint(0, 2)} for each in ("gpu", "mig")
        ]
        cluster.see(
            kinds.QUOTAS,
            {"metadata": {"name": "q"}, "spec": {"namespaceSelector": {}, "resources": resources}},
        )
    devices = [
        (piece.availability.node or "", device.id.name)
        for piece in cluster.snapshot.slices.values()
        for device in piece.devices
    ]
    if devices and rng.random() < 0.3:
        policy = {"kind": "DefragPolicy", "name": "tidy", "uid": "uid-tidy"}
        cluster.hold("Move", policy, *rng.sample(sorted(devices), rng.randint(1, 4)))
    return cluster


def drawn_request(rng: random.Random) -> Json:
    """Draw a request for whole cards or partitions."""
    if rng.random() < 0.3:
        return request("gpu", count=rng.choice([1, 1, 2]))
    return profile_request(rng.choice(["1g.10gb", "3g.40gb", "3g.40gb", "7g.80gb"]), rng.choice([1, 1, 2]))


def allocate_what_is_assumed(cluster: Cluster) -> None:
    """Show the decisions of a pass as written allocations."""
    for claim in [*cluster.snapshot.claims.values()]:
        allocation = cluster.snapshot.allocation(claim)
        if claim.allocation is None and allocation is not None:
            raw = cluster.objects["ResourceClaim", claim.namespace, claim.name]
            raw["status"] = {
                "allocation": {**allocation.to_json(), "allocationTimestamp": "2026-01-01T00:00:00Z"}
            }
            cluster.see(kinds.CLAIMS, raw)
