"""HostCapacity: which nodes could take a pod, as kube-scheduler will see them.

In: nodes, what bound pods request there, the pods that allocations send there, those for which kube-scheduler keeps room. Out: the nodes that could take given pods together, and how many others each reason
rules out. Modelled: cpu, memory, pod count, every other resource (but those for which kube-scheduler allocates devices there), nodeSelector, required node affinity, taints, `unschedulable`. Neighbours and volumes are looked at by `Candidates`. An answer is kept, and only nodes that changed since are looked at again.
"""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, KeysView, Mapping, Sequence
from typing import TypeAlias

from apportion.allocator.changelog import ChangeLog
from apportion.allocator.facts.host import HostResources
from apportion.cluster.changes import most_changes
from apportion.dra.node import Node, Resources
from apportion.dra.nodeconstraints import against
from apportion.dra.pod import Pod
from apportion.dra.podrelations import conflict
from apportion.dra.taint import Taint, Tolerance
from apportion.scheduling.demands.podneeds import constraints_of, is_allocated, lacking, total
from apportion.scheduling.pace import Pace
from apportion.scheduling.room.keptroom import Kept
from apportion.scheduling.room.nodeaffinity import NodeAffinity, Terms
from apportion.scheduling.room.nodefit import NodeFit
from apportion.scheduling.room.nominatedroom import NominatedRoom

MOST_KEPT = 64
"""Sets of pods, by what nodes look at, whose answer is kept for other pods with equal requests and constraints."""
_PLENTY = 1 << 62
_NODES_AT_ONCE = 1024
"""Nodes that are compared with pods without a pause, some ten millionths of a second each."""
_TRIES = 8
"""How many choices among pods that do not fit together are looked at."""
_Known: TypeAlias = tuple[Callable[[Node], bool] | None, Callable[[tuple[Taint, ...]], Taint | None]]
"""What says of a pod whether its node affinity allows a node, and which taint its tolerations leave."""


class HostCapacity:
    """What is left on every node."""

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        load: Callable[[str], Resources] = lambda _: {},
        removable: Callable[[str, int], Resources] = lambda _name, _priority: {},
    ) -> None:
        """`load` returns what bound pods request of a node, by its name, `pods` included; `removable` those below a priority."""
        self.nodes: dict[str, Node] = {node.name: node for node in nodes}
        self._load = load
        self._removable = removable
        self._pods: dict[str, tuple[str, Pod]] = {}
        """Pods that allocations send to a node, by UID."""
        self._promised: dict[str, dict[str, int]] = {}
        self.nominated = NominatedRoom()
        """Room that kube-scheduler keeps from pods of equal or lower priority."""
        self._kept: dict[str, dict[str, Kept]] = {}
        """By node and by who keeps it."""
        self._taken: dict[str, HostResources] = {}
        self._shared = False
        """Whether a caller of `taken` holds the dict: it is then replaced, not changed."""
        self._changes: ChangeLog[str] = ChangeLog()
        self._fits: dict[object, NodeFit] = {}
        self._affinity = NodeAffinity()
        self._backed: Collection[str] = ()

    @property
    def promised(self) -> KeysView[str]:
        """Return the pods (UIDs) that allocations send to a node."""
        return self._pods.keys()

    def back(self, resources: Collection[str]) -> None:
        """Say which extended resources DeviceClasses stand behind: a node that has none of such a one is not short of it."""
        if resources != self._backed:
            self._backed = resources
            self._fits.clear()

    def put(self, name: str, node: Node | None) -> None:
        """Replace a node, or note that the pods bound to it changed; None: there is none any more."""
        if node is not None:
            self.nodes[name] = node
        else:
            self.nodes.pop(name, None)
            self._affinity.drop(name)
        self._changes.add(name, most=most_changes(len(self.nodes)))

    def take(self, node: str, pod: Pod) -> None:
        """Count a pod (by its UID once) that our allocation sends to the node."""
        self.drop(pod.uid)
        self._pods[pod.uid] = node, pod
        self._count(node, pod, 1)

    def drop(self, pod: str) -> None:
        """Count a pod (UID) no longer: it is bound, or it lost its allocation."""
        if (found := self._pods.pop(pod, None)) is not None:
            self._count(*found, -1)

    def _count(self, node: str, pod: Pod, sign: int) -> None:
        used = self._promised.setdefault(node, {})
        for name, amount in (*pod.requests.items(), ("pods", 1)):
            used[name] = used.get(name, 0) + sign * amount
        if self._shared:
            self._taken, self._shared = dict(self._taken), False
        if used["pods"]:
            self._taken[node] = HostResources.of(used)
        else:
            del self._promised[node], self._taken[node]
        self._changes.add(node, most=most_changes(len(self.nodes)))

    def keep(self, key: str, nodes: Mapping[str, Kept]) -> None:
        """Keep something free on nodes for pods that come later, instead of what `key` kept before; nothing ends it."""
        for node in [node for node, kept in self._kept.items() if key in kept]:
            del self._kept[node][key]
            if not self._kept[node]:
                del self._kept[node]
            self._changes.add(node, most=most_changes(len(self.nodes)))
        for node, kept in nodes.items():
            self._kept.setdefault(node, {})[key] = kept
            self._changes.add(node, most=most_changes(len(self.nodes)))

    def without_port(self, pod: Pod) -> frozenset[str]:
        """Return the nodes where a host port that a pod takes is kept for others."""
        wanted = pod.relations.ports
        return frozenset(
            name
            for name, rows in (self._kept.items() if wanted else ())
            if conflict(wanted, [port for kept in rows.values() for port in kept.ports])
        )

    def _amounts_kept(self, node: str, level: int | None = None) -> list[Resources]:
        kept = [kept.amounts for kept in self._kept.get(node, {}).values()]
        return kept if level is None else [*kept, self.nominated.on(node, level)]

    @property
    def taken(self) -> Mapping[str, HostResources]:
        """Return the cpu and memory that are promised, by node, on top of what bound pods take."""
        self._shared = True
        return self._taken

    def left(self, node: str, names: Iterable[str], pods: Iterable[Pod] = ()) -> dict[str, int]:
        """Return what a node has left of each of these resources for some pods, below zero where it is overcommitted.

        Of one for which kube-scheduler allocates devices there it has more than anybody requests.
        """
        found, load = self.nodes[node], self._load(node)
        used = load, self._promised.get(node, {}), *self._amounts_kept(node, self.nominated.level(pods))
        return {
            name: _PLENTY
            if is_allocated(name, found, self._backed)
            else found.allocatable.get(name, 0) - sum([each.get(name, 0) for each in used])
            for name in names
        }

    def fitting(
        self, pods: Sequence[Pod], *, preempting: bool = False
    ) -> tuple[frozenset[str], Counter[str]]:
        """Return the nodes that could take all the pods together, and how many nodes each reason ruled out (a copy).

        `preempting`: as if no pods of lower priority than theirs were bound there.
        """
        above = min([pod.priority for pod in pods], default=None) if preempting else None
        fit = self._fit(pods, above)
        return fit.fitting(), fit.reasons.copy()

    def ahead(self, pods: Iterable[Pod]) -> Iterator[None]:
        """Compare nodes with the node affinity of pods, before it is asked about all of them at once; yields where others may run."""
        pace, compared = Pace(), set[Terms]()
        for pod in pods:
            terms = pod.affinity
            if not terms:
                continue
            if pace.rests():
                yield
            # Of a pod for which it is known what nodes say only those that changed are asked.
            is_known = (None, False, constraints_of(pod)) in self._fits and not pod.relations.spread
            if terms not in compared and not is_known:
                compared.add(terms)
                yield from self._affinity.of(terms).steps(tuple(self.nodes.values()))

    def fitting_ahead(self, sets: Iterable[Sequence[Pod]]) -> Iterator[None]:
        """Compare nodes with each of these sets of pods before `fitting` has to; yields where others may run."""
        pace = Pace(_NODES_AT_ONCE)
        for pods in sets:
            if pace.rests(len(pods)):
                yield
            yield from self._fit_steps(self._fit_of(pods, None), pace)

    def allows(self, terms: Terms | None) -> Callable[[Node], bool] | None:
        """Return what says whether required node affinity allows a node; None: there is none."""
        return self._affinity.of(terms).allows if terms else None

    def suitable(self, pods: Sequence[Pod]) -> frozenset[str]:
        """Return the nodes that could take all the pods together if nothing else ran there."""
        return self._fit(pods, None, alone=True).fitting()

    def _fit(self, pods: Sequence[Pod], above: int | None, *, alone: bool = False) -> NodeFit:
        fit = self._fit_of(pods, above, alone=alone)
        for _ in self._fit_steps(fit, Pace()):
            pass
        return fit

    def _fit_of(self, pods: Sequence[Pod], above: int | None, *, alone: bool = False) -> NodeFit:
        """Return which nodes could take pods, as it is known."""
        kinds = [constraints_of(pod) for pod in pods]
        key = (above, alone, *kinds)
        fit = self._fits.get(key)
        if fit is None:
            if len(self._fits) >= MOST_KEPT:
                del self._fits[next(iter(self._fits))]
            unlike = tuple(dict(zip(kinds, pods, strict=True)).values())
            fit = self._fits[key] = NodeFit(unlike, total(pods), above, alone)
        fit.yields_to(None if alone else self.nominated.level(pods), self.nominated.nodes)
        return fit

    def _fit_steps(self, fit: NodeFit, pace: Pace) -> Iterator[None]:
        """Look at the nodes that changed; yields by the `pace`."""
        end, changed = self._changes.since(fit.seen)
        if changed is None or changed or fit.doubted:
            names = {*self.nodes, *fit.nodes, *fit.against} if changed is None else {*changed, *fit.doubted}
            for terms in {pod.affinity for pod in fit.pods if pod.affinity}:
                there = [self.nodes[name] for name in names if name in self.nodes]
                yield from self._affinity.of(terms).steps(there)
            known = [(self.allows(pod.affinity), Tolerance(pod.tolerations).untolerated) for pod in fit.pods]
            for name in names:
                if pace.rests(len(fit.pods)):
                    yield
                node = self.nodes.get(name)
                reason = self._against(node, fit, known) if node is not None else None
                fit.put(name, reason, exists=node is not None)
            # Who ends in between has to look at all of them once more.
            fit.seen = end

    def used(self, name: str) -> tuple[Resources, Resources]:
        """Return what bound pods request of a node, and what pods that allocations send there do."""
        return self._load(name), self._promised.get(name, {})

    def _against(self, node: Node, fit: NodeFit, known: Sequence[_Known]) -> str | None:
        for pod, (allows, left) in zip(fit.pods, known, strict=True):
            reason = against(node, pod, allows, left)
            if reason is not None:
                return reason
        used: tuple[Resources, ...] = ()
        if not fit.alone:
            load = self._load(node.name)
            if fit.above is not None:
                gone = self._removable(node.name, fit.above)
                load = {name: amount - gone.get(name, 0) for name, amount in load.items()}
            used = load, self._promised.get(node.name, {}), *self._amounts_kept(node.name, fit.level)
        short = lacking(node, fit.wanted, *used, backed=self._backed)
        beside = " beside pods nominated for it" if self.nominated.has(node.name, fit.level) else ""
        return f"too little {short}{beside}" if short is not None else None

    def holds(
        self, name: str, wanted: Resources, beside: Iterable[Resources] = (), freed: Iterable[Resources] = ()
    ) -> bool:
        """Say whether a node has so much left, once more is taken (`beside`) and some of what is taken now is free (`freed`)."""
        node = self.nodes.get(name)
        if node is None:
            return False
        taken = (self._load(name), self._promised.get(name, {}), *self._amounts_kept(name), *beside)
        freed = tuple(freed)
        used = {
            resource: sum([each.get(resource, 0) for each in taken])
            - sum([each.get(resource, 0) for each in freed])
            for resource in wanted
        }
        return lacking(node, wanted, used, backed=self._backed) is None

    def largest(self, pods: Sequence[Pod]) -> Generator[None, None, list[tuple[Pod, ...]]]:
        """Return which of the pods some nodes could take together, the most pods first; small pods go before large ones. Yields where others may run."""
        shapes: dict[object, list[Pod]] = {}
        for pod in sorted(pods, key=lambda pod: (pod.created, pod.uid)):
            shapes.setdefault(constraints_of(pod), []).append(pod)
        equal = sorted(shapes.values(), key=lambda shape: HostResources.of(shape[0].requests))
        yield from self.fitting_ahead(shape[:1] for shape in equal)
        fits = [self.fitting(shape[:1])[0] for shape in equal]
        rows = [(len(shape), total(shape[:1]), nodes) for shape, nodes in zip(equal, fits, strict=True)]
        found, pace, level = Counter[tuple[int, ...]](), Pace(_NODES_AT_ONCE), self.nominated.level(pods)
        for name in frozenset().union(*fits):
            if pace.rests(len(rows)):
                yield
            node, load, promised = self.nodes[name], self._load(name), self._promised.get(name, {})
            taken, counts = Counter(promised), list[int]()
            for kept in self._amounts_kept(name, level):
                taken.update(kept)
            for most, wanted, nodes in rows:
                count = most if name in nodes else 0
                for resource, amount in wanted.items():
                    if is_allocated(resource, node, self._backed):
                        continue
                    left = node.allocatable.get(resource, 0) - load.get(resource, 0) - taken[resource]
                    count = min(count, max(0, left) // amount) if amount else count
                for resource, amount in wanted.items():
                    taken[resource] += count * amount
                counts.append(count)
            found[tuple(counts)] += 1
        best = sorted(found, key=lambda counts: (-sum(counts), -found[counts]))[:_TRIES]
        return [
            tuple(pod for shape, count in zip(equal, counts, strict=True) for pod in shape[:count])
            for counts in best
            if any(counts)
        ]
