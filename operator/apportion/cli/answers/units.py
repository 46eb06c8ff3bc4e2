"""Units: what has to end as a whole before a node's devices and room are free: pods with their claims, and claims without a pod.

In: a world, the demand that waits. Out: the units of each node that the allocator knows. Pods of DaemonSets are none: they come back.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from apportion.cli.world.objects import Key
from apportion.cli.world.world import World
from apportion.cluster import kinds
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.scheduling.demands.waiting import WaitingDemand


@dataclass(frozen=True, slots=True)
class Unit:
    """A pod with its claims, or a claim without a pod."""

    name: str
    keys: tuple[Key, ...]
    """The pod first: who has devices must have ended before they are free."""
    claims: int


def units_by_node(world: World, demand: WaitingDemand) -> dict[str, list[Unit]]:
    """Return the units of each node that has any, those without devices first: a demand that waits for devices may not need their end."""
    snapshot = world.snapshot
    without_pod = _allocated(snapshot, demand)
    claims_of: dict[str, dict[str, list[Claim]]] = {}
    """By pod (UID) and node."""
    for node, claims in without_pod.items():
        for claim in claims.values():
            for pod in snapshot.users(claim):
                claims_of.setdefault(pod.uid, {}).setdefault(node, []).append(claim)
    found: dict[str, list[Unit]] = {}
    for pod in _ending(world, demand):
        own = claims_of.get(pod.uid, {})
        for at in dict.fromkeys((pod.node, *own)):
            if at is not None:
                named = own.get(at, [])
                keys = _key(kinds.PODS.name, pod), *[_key(kinds.CLAIMS.name, claim) for claim in named]
                found.setdefault(at, []).append(Unit(f"pod {pod.key}", keys, len(named)))
                for claim in named:
                    without_pod[at].pop(claim.uid, None)
    for node, claims in without_pod.items():
        for claim in claims.values():
            unit = Unit(f"claim {claim.key}", (_key(kinds.CLAIMS.name, claim),), 1)
            found.setdefault(node, []).append(unit)
    names = snapshot.state.names()
    return {
        node: sorted(units, key=lambda unit: (unit.claims, unit.name))
        for node, units in found.items()
        if node in names
    }


def _allocated(snapshot: Snapshot, demand: WaitingDemand) -> dict[str, dict[str, Claim]]:
    """Return the claims that have devices of one node, but for the demand's, by node and UID."""
    own = {claim.uid for claim in demand.claims}
    found: dict[str, dict[str, Claim]] = {}
    for uid in snapshot.claim_index.allocated - own:
        claim = snapshot.claims[uid]
        node = claim.allocation.node if claim.allocation is not None else None
        if node is not None:
            found.setdefault(node, {})[uid] = claim
    return found


def _ending(world: World, demand: WaitingDemand) -> Iterator[Pod]:
    """Yield the pods whose end may come, and would free something."""
    own = {pod.uid for pod in demand.pods}
    for pod in world.snapshot.pods.values():
        if not pod.finished and pod.uid not in own:
            raw = world.objects[_key(kinds.PODS.name, pod)]
            owners = raw["metadata"].get("ownerReferences") or ()
            if not any(owner.get("kind") == "DaemonSet" for owner in owners):
                yield pod


def _key(kind: str, each: Pod | Claim) -> Key:
    return Key(kind, each.namespace, each.name)
