"""A world in which pods come, run for as long as they say, and end; and what is reserved in it."""

import asyncio
from collections.abc import Sequence
from typing import Any

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, NODES, PODS
from apportion.dra.runtime import MAX_RUNTIME
from apportion.scheduling.backfill.reservation import Reservation
from apportion.scheduling.cycle import Cycle
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.podgroups import OURS
from tests.scheduling.queued import fleet

DEVICES = 8
"""Of a node, where nothing else is said."""


class Reserving:
    """Nodes with whole devices, a cycle of which nothing is written, and what its decisions would lead to."""

    def __init__(self, client: Client, nodes: dict[str, int], **queue: Any) -> None:
        """`nodes`: how many devices each has. `queue`: of the policy; devices are reserved at once unless it says otherwise."""
        self.world: ObservedCluster = fleet({name: ("h100", count) for name, count in nodes.items()})
        self.world.policy(queue={"reserveAfter": "0s", **queue})
        self.cycle: Cycle = self.world.cycle(client)
        self._objects: dict[str, tuple[Json, Json]] = {}
        self.node = next(iter(nodes))
        """Where pods go whose devices all nodes reach."""

    def comes(
        self,
        name: str,
        devices: int = 1,
        *,
        priority: int = 0,
        runtime: str = "",
        namespace: str = "team",
        group: tuple[str, int] | None = None,
        spec: Json | None = None,
        cpu: str = "1",
        wanted: Sequence[Json] = (),
    ) -> None:
        """Let a pod with a claim wait from now on. `runtime`: what its annotation says. `group`: its name and minimum. `wanted`: the requests of its claim, instead of one for so many devices."""
        metadata: Json = {
            "name": name,
            "namespace": namespace,
            "creationTimestamp": self.world.time(),
            "annotations": {MAX_RUNTIME: runtime} if runtime else {},
        }
        if group is not None:
            metadata["labels"] = {OURS[0]: group[0]}
            metadata["annotations"][OURS[1]] = str(group[1])
        claim = {
            "metadata": {key: metadata[key] for key in ("name", "namespace", "creationTimestamp")},
            "spec": {"devices": {"requests": [*wanted] or [request("gpu", count=devices)]}},
        }
        pod = {
            "metadata": metadata,
            "spec": {
                "resourceClaims": [{"name": "c", "resourceClaimName": name}],
                "priority": priority,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
                **(spec or {}),
            },
        }
        self._objects[name] = self.world.see(CLAIMS, claim), self.world.see(PODS, pod)

    def passes(self, seconds: float = 1.0) -> list[str]:
        """Make a pass; show what it decided as written, bound and started; return who got devices. Time goes by after it."""
        before = asyncio.all_tasks()
        self.cycle.once()
        for write in asyncio.all_tasks() - before:
            write.cancel()
        snapshot, started = self.world.snapshot, []
        for name, (claim, pod) in self._objects.items():
            value = snapshot.claims.get(claim["metadata"]["uid"])
            found = snapshot.allocation(value) if value is not None and value.allocation is None else None
            if found is None:
                continue
            assumed = snapshot.assumed.get(claim["metadata"]["uid"])
            assert assumed is not None
            snapshot.sent(assumed, claim["metadata"]["resourceVersion"])
            node = found.node or self.node
            self.world.allocate(claim, node, allocation=found.to_json())
            pod["spec"]["nodeName"] = node
            pod["status"] = {"phase": "Running", "startTime": self.world.time()}
            self.world.see(PODS, pod)
            started.append(name)
        self.world.clock.now += seconds
        return started

    def starts(self, name: str, devices: int = 1, *, runtime: str = "", **more: Any) -> None:
        """Let a pod come that gets its devices at once."""
        self.comes(name, devices, runtime=runtime, **more)
        assert name in self.passes(0.0)

    def claim_of(self, name: str) -> Json:
        """Return the claim of a pod as it was last seen."""
        return self._objects[name][0]

    def ends(self, *names: str) -> None:
        """Let pods end, with their claims; or go away while they wait."""
        for name in names:
            claim, pod = self._objects.pop(name)
            self.world.gone(PODS, pod)
            self.world.gone(CLAIMS, claim)

    def cordon(self, name: str) -> None:
        """Let no new pods come to a node."""
        raw = self.world.node(name, cpu="64")
        self.world.see(NODES, raw | {"spec": {"unschedulable": True}})

    def uncordon(self, name: str) -> None:
        """Let new pods come to a node, as before."""
        self.world.see(NODES, self.world.node(name, cpu="64"))

    @property
    def reserved(self) -> dict[str, tuple[list[str], float | None]]:
        """Who has devices reserved: the nodes, and in how many seconds it is expected to start; by claim or group."""
        found: dict[str, tuple[list[str], float | None]] = {}
        for each in self.reservations():
            start = each.plan.start
            left = None if start is None else round(start - self.world.seconds())
            found[_name(each)] = sorted(each.plan.nodes), left
        return found

    def reservations(self) -> list[Reservation]:
        """Return all reservations."""
        return [*self.cycle.reserved]

    def held(self) -> dict[str, list[str]]:
        """Return the keys under which devices are reserved, with the devices, as the allocator's state has them."""
        found: dict[str, list[str]] = {}
        state = self.world.snapshot.state
        for piece in self.world.snapshot.slices.values():
            for device in piece.devices:
                for key in state.holders(device.id):
                    if key.startswith("DeviceHold reservation-"):
                        found.setdefault(key, []).append(f"{device.id.pool}/{device.id.name}")
        return found

    def texts(self, name: str, reason: str) -> list[str]:
        """Return the texts of the Events about an object."""
        said = (*self.world.messages, *self.world.normals)
        return [text for about, why, text in said if (about, why) == (name, reason)]


def _name(reservation: Reservation) -> str:
    head = reservation.head
    return head.pod_group.name if hasattr(head, "pod_group") else head.claims[0].name


def full(client: Client, *, devices: int = DEVICES, runtime: str = "", **queue: object) -> Reserving:
    """Return a node of which single pods use all devices."""
    made = Reserving(client, {"n1": devices}, **queue)
    for name in older(devices):
        made.starts(name, runtime=runtime)
    return made


def older(count: int) -> list[str]:
    """Return the names of these pods."""
    return [f"old-{number}" for number in range(count)]


def on(node: str) -> Json:
    """Return the affinity of a pod that may go to one node only."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}
