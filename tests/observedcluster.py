"""ObservedCluster: raw API objects and a snapshot that has observed them, for tests of what the operator decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from apportion.allocator.state import State
from apportion.api.contract import ALLOCATION_FINALIZER, GATE, KEEP_FOR
from apportion.cel import Programs
from apportion.cluster.debouncer import Debouncer
from apportion.cluster.kinds import CLAIMS, CLASSES, LAYOUTS, NODES, PODS, POLICIES, SLICES, ResourceKind
from apportion.cluster.recorder import About, Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import PROTECTION_FINALIZER, Claim
from apportion.dra.pod import Pod
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.demands.waiting import IMMEDIATE
from apportion.scheduling.preemption.evictions import Evicting
from apportion.settings import CycleSettings
from testbed.cycle import build_cycle, now
from tests.clock import Clock

Json = dict[str, Any]
YEAR = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
GPU = "gpu.apportion.dev"
PROFILES = {"1g.10gb": (19, 1, range(7)), "3g.40gb": (9, 4, (0, 4)), "7g.80gb": (0, 8, (0,))}
"""A card of the test: profile id, size in memory slices, starts."""


@dataclass
class ObservedCluster:
    """Objects get rising resourceVersions, as a server would give them."""

    version: int = 100
    wakes: int = 0
    """How often the snapshot woke the cycle."""
    later: int = 0
    """How often something changed that does not press."""
    warned: list[tuple[str, str]] = field(default_factory=list)
    """Name of the object and reason of each warning that a cycle has recorded."""
    messages: list[tuple[str, str, str]] = field(default_factory=list)
    """The same with the text of each."""
    normals: list[tuple[str, str, str]] = field(default_factory=list)
    """Name of the object, reason and text of each Event about what went as it should."""
    clock: Clock = field(default_factory=Clock)
    programs: Programs = field(default_factory=Programs)
    """Compiles the selectors."""
    seen: dict[tuple[ResourceKind, str, str], Json] = field(default_factory=dict)
    """What was seen last, by kind, namespace and name."""
    debouncer: Debouncer | None = None
    """Wakes the cycle by what is observed; None: a test does that."""
    snapshot: Snapshot = field(init=False)

    def __post_init__(self) -> None:
        """Make the snapshot."""
        self.snapshot = Snapshot(State(programs=self.programs), wake=self._wake, wake_later=self._wake_later)

    def _wake(self) -> None:
        self.wakes += 1
        if self.debouncer is not None:
            self.debouncer.wake()

    def _wake_later(self) -> None:
        self.later += 1
        if self.debouncer is not None:
            self.debouncer.wake_later()

    def see(self, kind: ResourceKind, raw: Json, change: str = "MODIFIED") -> Json:
        """Let the snapshot observe an object in a new version."""
        self.version += 1
        metadata = raw.setdefault("metadata", {})
        metadata["uid"] = (
            metadata.get("uid") or f"uid-{metadata.get('namespace', '')}-{kind.plural}-{metadata['name']}"
        )
        metadata["resourceVersion"] = str(self.version)
        metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        former = self.seen.get((kind, metadata.get("namespace", ""), metadata["name"]))
        if former is not None and former["metadata"]["uid"] != metadata["uid"] and change == "MODIFIED":
            change = "ADDED"  # no change of the former object, nor of this one
        self.seen[kind, metadata.get("namespace", ""), metadata["name"]] = raw
        self.snapshot.observe(kind, change, raw)
        return raw

    def node(self, name: str, *, cpu: str = "8", **labels: str) -> Json:
        """A node with room for ten pods."""
        resources = {"cpu": cpu, "memory": "32Gi", "pods": "10"}
        raw = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": resources}}
        return self.see(NODES, raw)

    def device_class(self, name: str, expression: str = "true", **labels: str) -> Json:
        """A class, managed unless labels say otherwise."""
        own = labels or {"apportion.dev/managed": "true"}
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        return self.see(CLASSES, {"metadata": {"name": name, "labels": own}, "spec": spec})

    def card(self, node: str, name: str = "gpu-0", *, taints: Sequence[Json] = ()) -> None:
        """Publish one partitionable card: counters and devices in slices of their own; `taints` are its partitions'."""
        slots = {f"memory-slice-{index}": {"value": "1"} for index in range(8)}
        counter_set = f"{name}-counter-set"
        devices = [_device(name, {"type": "gpu"}, counter_set, slots)]
        for profile, (number, size, starts) in PROFILES.items():
            for start in starts:
                own = {key: value for key, value in slots.items() if start <= int(key[-1]) < start + size}
                label = f"{name}-mig-{profile.replace('.', '')}-{number}-{start}"
                part = _device(label, {"type": "mig", "profile": profile}, counter_set, own)
                devices.append(part | ({"taints": [*taints]} if taints else {}))
        self.slice(
            node, f"{node}-{name}-counters", {"sharedCounters": [{"name": counter_set, "counters": slots}]}, 2
        )
        self.slice(node, f"{node}-{name}-devices", {"devices": devices}, 2)

    def slice(self, node: str, name: str, content: Json, count: int, pool: str = "") -> Json:
        """A slice of one of the node's pools."""
        pool_spec = {"name": pool or node, "generation": 1, "resourceSliceCount": count}
        spec = {"driver": GPU, "nodeName": node, "pool": pool_spec, **content}
        return self.see(SLICES, {"metadata": {"name": name}, "spec": spec})

    def claim(self, name: str, *requests: Json, config: Sequence[Json] = (), **metadata: Any) -> Json:
        """A claim in namespace `team`; without requests it asks for one device of class `gpu`."""
        wanted = list(requests) or [request("gpu")]
        raw = {
            "metadata": {"name": name, "namespace": "team", **metadata},
            "spec": {"devices": {"requests": wanted, "config": [*config]}},
        }
        return self.see(CLAIMS, raw)

    def allocate(
        self, raw: Json, node: str, *devices: str, by: str = "apportion-operator", **status: Any
    ) -> Json:
        """Show a claim with an allocation."""
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
        annotations = raw["metadata"].get("annotations") or {}
        kept = annotations.get(GATE) == IMMEDIATE or KEEP_FOR in annotations
        raw["metadata"]["finalizers"] = [ALLOCATION_FINALIZER if kept else PROTECTION_FINALIZER]
        raw["metadata"]["managedFields"] = [
            {"manager": by, "fieldsV1": {"f:status": {"f:allocation": {}}}},
        ]
        return self.see(CLAIMS, raw)

    def pod(
        self,
        name: str,
        *claims: str,
        gates: Sequence[str] = (),
        spec: Mapping[str, Any] | None = None,
        namespace: str = "team",
    ) -> Json:
        """A pod that names claims directly and asks for one core."""
        raw = {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "schedulingGates": [{"name": gate} for gate in gates],
                "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
                **(spec or {}),
            },
        }
        return self.see(PODS, raw)

    def layout(self, *partitions: Json, name: str = "l", **spec: Any) -> Json:
        """A layout; unless partitions say otherwise, of one half of a card."""
        wanted = list(partitions) or [{"profile": "3g.40gb", "count": 1}]
        metadata = {"name": name, "generation": 1}
        return self.see(LAYOUTS, {"metadata": metadata, "spec": {"partitions": wanted, **spec}})

    def policy(self, name: str = "p", *, classes: Sequence[str] = ("gpu",), **spec: Any) -> Json:
        """A policy for these classes."""
        own = {"deviceClasses": {"names": list(classes)}, **spec}
        return self.see(POLICIES, {"metadata": {"name": name}, "spec": own})

    def wait_for(self, name: str, wanted: Json, spec: Json | None = None) -> None:
        """A claim and the pod that names it, both of this name."""
        self.claim(name, wanted)
        self.pod(name, name, spec=spec)

    def cycle(
        self,
        client: Any,
        settings: CycleSettings | None = None,
        debouncer: Debouncer | None = None,
        evictor: Evicting | None = None,
    ) -> Cycle:
        """The operator's cycle over the snapshot, by the world's clock."""
        recorder = self.recorder(client)
        return build_cycle(
            client,
            self.snapshot,
            recorder,
            self.clock,
            settings,
            debouncer,
            seconds=self.seconds,
            evictor=evictor,
        )

    def seconds(self) -> float:
        """Return the world's time in seconds since 1970: 2026 began when its clock was at 0."""
        return YEAR + self.clock.now

    def time(self, after: float = 0.0) -> str:
        """Return the world's time, or one so many seconds later, as objects show it."""
        return datetime.fromtimestamp(self.seconds() + after, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def recorder(self, client: Any) -> Recorder:
        """A recorder that also notes warnings in the world."""
        return _Noting(client, self)

    def places(self) -> dict[str, str | None]:
        """Return the node of each claim that has an allocation, assumed ones included, by the claim's name."""
        return {
            claim.name: allocation.node
            for claim in self.snapshot.claims.values()
            if (allocation := self.snapshot.allocation(claim)) is not None
        }

    def gone(self, kind: ResourceKind, raw: Json) -> None:
        """Show that an object was deleted."""
        self.snapshot.observe(kind, "DELETED", raw)

    def gone_claim(self, name: str) -> None:
        """Show that a claim of namespace `team` was deleted."""
        claim = self.snapshot.claim("team", name)
        assert claim is not None, name
        self.gone(CLAIMS, {"metadata": {"name": name, "namespace": "team", "uid": claim.uid}})

    def claim_value(self, raw: Json) -> Claim:
        """Return the snapshot's value of a claim."""
        return self.snapshot.claims[raw["metadata"]["uid"]]

    def pod_value(self, raw: Json) -> Pod:
        """Return the snapshot's value of a pod."""
        return self.snapshot.pods[raw["metadata"]["uid"]]


class _Noting(Recorder):
    """Notes the Events in the world."""

    def __init__(self, client: Any, world: ObservedCluster) -> None:
        super().__init__(client, component="test", clock=world.clock, now=now)
        self._world = world

    def normal(self, about: About, reason: str, text: str) -> None:
        self._world.normals.append((about.name, reason, text))
        super().normal(about, reason, text)

    def warning(self, about: About, reason: str, text: str) -> None:
        self._world.warned.append((about.name, reason))
        self._world.messages.append((about.name, reason, text))
        super().warning(about, reason, text)


def request(device_class: str, *, name: str = "", expression: str = "", **exactly: Any) -> Json:
    """One request for a device class."""
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
