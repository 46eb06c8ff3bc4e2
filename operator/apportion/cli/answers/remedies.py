"""Remedies: what would make a demand fit that does not fit now.

In: a world, the demand. Out: changes of the cluster, each of which is enough by itself: the demand was decided with it, and fits. Others
that wait may be served first where the change serves them, too. At most NODES nodes are tried for each kind of remedy.
"""

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from apportion.allocator.decision import Decision
from apportion.cli.answers.decisions import DEVICES_HELD, Decisions, Reason
from apportion.cli.answers.situation import waiting_demand
from apportion.cli.answers.units import Unit, units_by_node
from apportion.cli.world.objects import Key, key_of
from apportion.cli.world.whatif import node_like
from apportion.cli.world.world import Change, World
from apportion.cluster import kinds
from apportion.dra.reading import Json
from apportion.dra.taint import untolerated
from apportion.scheduling.demands.waiting import WaitingDemand

NODES = 32
"""Nodes that are tried for a remedy."""
UNITS = 128
"""Pods and claims of a node that are looked at; a node with more is passed over."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change that is enough."""

    name: str
    text: str
    changes: tuple[Change, ...]
    """Objects as they would be; None: gone."""
    node: str
    """Where the demand would go."""


class Remedies:
    """Tries changes."""

    def __init__(self, world: World, decisions: Decisions, demand: WaitingDemand, reason: Reason) -> None:
        """`reason`: why the demand is not served now."""
        self._world = world
        self._decisions = decisions
        self._demand = demand
        self._reason = reason

    def find(self) -> Iterator[Remedy]:
        """Yield what would be enough, the least intrusive first."""
        found = (
            self._fewer(), self._other_pod(), self._tolerations(), self._limit(), self._uncordon(), self._held(), self._release(),
            self._add_node(),
        )  # fmt: skip
        for each in found:
            yield from each

    def _try(self, name: str, text: str, changes: Iterable[Change]) -> Remedy | None:
        changes = tuple(changes)
        node = self._node(changes)
        return Remedy(name, text, changes, node) if node is not None else None

    def _node(self, changes: Sequence[Change]) -> str | None:
        """Return where the demand would go with these changes; None: nowhere."""
        with self._world.changed(changes):
            demand = waiting_demand(self._world.snapshot, self._demand)
            answer = self._decisions.decide(demand) if demand is not None else None
        return answer.node if isinstance(answer, Decision) else None

    # What the demand asks. ----------------------------------------------------------------------------------------

    def _fewer(self) -> Iterator[Remedy]:
        """Fewer devices."""
        for claim in self._demand.claims:
            for slot, request in enumerate(claim.slots):
                most = request.alternatives[0].count if not request.prioritized else 1
                for count in range(most - 1, 0, -1):
                    raw = self._copy(kinds.CLAIMS.name, claim.namespace, claim.name)
                    raw["spec"]["devices"]["requests"][slot]["exactly"]["count"] = count
                    text = f"claim {claim.key}, request {request.name}: a count of {count} instead of {most}"
                    found = self._try("AskForFewer", text, [(key_of(raw), raw)])
                    if found is not None:
                        yield found
                        break

    def _other_pod(self) -> Iterator[Remedy]:
        """A pod that asks less of its node."""
        for field in ("nodeSelector", "affinity"):
            pods = [self._copy(kinds.PODS.name, pod.namespace, pod.name) for pod in self._demand.pods]
            changed = [raw for raw in pods if raw["spec"].pop(field, None)]
            if changed:
                names = ", ".join(_name(raw) for raw in changed)
                found = self._try("ChangePod", f"pod {names} without its {field}", _put(changed))
                if found is not None:
                    yield found

    def _tolerations(self) -> Iterator[Remedy]:
        """Tolerations of device taints in claims, and of node taints in pods."""
        for key in sorted(self._device_taints()):
            claims = [
                self._copy(kinds.CLAIMS.name, claim.namespace, claim.name) for claim in self._demand.claims
            ]
            for raw in claims:
                for request in raw["spec"]["devices"]["requests"]:
                    for asked in (request.get("exactly"), *(request.get("firstAvailable") or ())):
                        if asked is not None:
                            asked["tolerations"] = [*(asked.get("tolerations") or ()), _toleration(key)]
            found = self._try("TolerateTaint", f"requests that tolerate the device taint {key}", _put(claims))
            if found is not None:
                yield found
        for key in sorted(self._node_taints()):
            pods = [self._copy(kinds.PODS.name, pod.namespace, pod.name) for pod in self._demand.pods]
            for raw in pods:
                raw["spec"]["tolerations"] = [*(raw["spec"].get("tolerations") or ()), _toleration(key)]
            found = self._try("TolerateTaint", f"a pod that tolerates the node taint {key}", _put(pods))
            if found is not None:
                yield found

    def _device_taints(self) -> set[str]:
        refusal = self._reason.refusal
        groups = refusal.explanation.groups if refusal is not None else ()
        taints = [taint for group in groups if group.request for taint, _ in group.request.taints]
        return {taint.split("=")[0].split(":")[0] for taint in taints}

    def _node_taints(self) -> set[str]:
        taints = (
            untolerated(node.taints, pod.tolerations)
            for node in self._world.snapshot.nodes.values()
            for pod in self._demand.pods
        )
        return {taint.key for taint in taints if taint is not None}

    # What the cluster has. ----------------------------------------------------------------------------------------

    def _limit(self) -> Iterator[Remedy]:
        """A higher limit of the quota."""
        over = self._reason.over.excess if self._reason.over is not None else None
        if over is None:
            return
        raw = self._copy(kinds.QUOTAS.name, "", over.quota)
        wanted = over.resource.text(over.used + over.asked)
        for entry in raw["spec"]["resources"]:
            if isinstance(entry, dict) and entry.get("name") == over.resource.name:
                entry["limit"] = wanted
        text = f"AcceleratorQuota {over.quota}, resource {over.resource.name}: a limit of {wanted}"
        found = self._try("RaiseLimit", text, [(key_of(raw), raw)])
        if found is not None:
            yield found

    def _uncordon(self) -> Iterator[Remedy]:
        """A node that is cordoned now."""
        nodes = sorted(node.name for node in self._world.snapshot.nodes.values() if node.unschedulable)
        for name in nodes[:NODES]:
            raw = self._copy(kinds.NODES.name, "", name)
            raw["spec"].pop("unschedulable", None)
            found = self._try("Uncordon", f"node {name}, if it was not cordoned", [(key_of(raw), raw)])
            if found is not None:
                yield found
                return

    def _held(self) -> Iterator[Remedy]:
        """The end of what is held from it."""
        held = self._reason.held if self._reason.name == DEVICES_HELD else ()
        names = [each.metadata.name for each in held]
        if names:
            text = f"DeviceHold {', '.join(names)}: when the devices are held no more"
            found = self._try("WaitFor", text, [(Key(kinds.HOLDS.name, "", name), None) for name in names])
            if found is not None:
                yield found

    def _release(self) -> Iterator[Remedy]:
        """The fewest pods and claims of one node that have to end."""
        best: list[Unit] | None = None
        nodes = units_by_node(self._world, self._demand)
        for name, units in sorted(nodes.items(), key=lambda each: (len(each[1]), each[0]))[:NODES]:
            if len(units) > UNITS or self._node(_ended(units)) != name:
                continue
            needed = units
            for unit in units:
                # Each that is not needed runs on.
                fewer = [each for each in needed if each is not unit]
                if fewer and self._node(_ended(fewer)) == name:
                    needed = fewer
            if best is None or len(needed) < len(best):
                best = needed
        if best is not None:
            names = ", ".join(unit.name for unit in best)
            found = self._try(
                "WaitFor", f"{names}: when {'it has' if len(best) == 1 else 'they have'} ended", _ended(best)
            )
            if found is not None:
                yield found

    def _add_node(self) -> Iterator[Remedy]:
        """One more node like one that there is, of each kind of node the first."""
        state = self._world.snapshot.state
        states = state.settle()
        seen: set[object] = set()
        for name in sorted(state.names()):
            node = self._world.snapshot.node(name)
            alike = (states.of(name).node_class, tuple(sorted(node.allocatable.items())) if node else ())
            if alike in seen or len(seen) >= NODES:
                continue
            seen.add(alike)
            made = [*node_like(self._world.of_node(name), name, f"{name}-like-1")]
            found = self._try("AddNode", f"one more node like {name}", _put(made))
            if found is not None:
                yield found
                return

    def _copy(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        raw = copy.deepcopy(dict(self._world.objects[Key(kind, namespace, name)]))
        raw.setdefault("spec", {})
        return raw


def _ended(units: Iterable[Unit]) -> list[Change]:
    keys = dict.fromkeys(key for unit in units for key in unit.keys)
    return [(key, None) for key in sorted(keys, key=lambda key: key.kind != kinds.PODS.name)]


def _put(objects: Iterable[Json]) -> list[Change]:
    return [(key_of(each), each) for each in objects]


def _name(raw: Json) -> str:
    key = key_of(raw)
    return f"{key.namespace}/{key.name}"


def _toleration(key: str) -> Json:
    return {"key": key, "operator": "Exists"}
