"""Inventory: nodes, slices by pool, and DeviceTaintRules.

In: facts, one at a time, in any order. Out: the pools of a node, and the nodes that each fact concerns.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from apportion.allocator.bits import bits
from apportion.allocator.facts.taintrules import TaintRules
from apportion.allocator.rules.features import Features
from apportion.allocator.rules.negatives import negative
from apportion.allocator.rules.pools import NodeInfo, PoolView, consumption, pool_on
from apportion.allocator.rules.slices import SliceTemplates, SliceView, blocking_taints
from apportion.dra.consumedcounters import CounterAmounts, larger
from apportion.dra.device import DeviceId
from apportion.dra.slice import PoolId, Slice
from apportion.dra.taintrule import DeviceTaintRule


@dataclass(frozen=True, slots=True)
class Finding:
    """An error in a pool. The pool, or the device that it is about, is not used until its driver publishes it without the error."""

    pool: PoolId
    slices: tuple[tuple[str, str], ...]
    """Names and UIDs of the slices that it concerns: all that there are of a pool that is not used, else the one with the device."""
    field: str
    reason: str
    slice: str = ""
    """The name of the one that has the error; empty where slices are missing: they may be on their way, because a driver publishes one after the other."""

    @property
    def object(self) -> str:
        """The pool, and the slice that has the error."""
        return f"pool {self.pool}, slice {self.slice}" if self.slice else f"pool {self.pool}"


class Inventory:
    """Facts about devices and nodes. Every change returns the names of the nodes concerned."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self.nodes_known: dict[str, NodeInfo] = {}
        self._slices: dict[str, Slice] = {}
        self._slice_views: dict[str, SliceView] = {}
        self._pools: dict[PoolId, dict[str, Slice]] = {}
        self._node_pools: dict[str, dict[PoolId, int]] = {}
        self._wide_pools: dict[PoolId, int] = {}
        """Slices that are not of one node, by pool."""
        self._pool_nodes: dict[PoolId, tuple[str, ...]] = {}
        self._rules = TaintRules()
        self._templates = SliceTemplates()
        self._findings: dict[str, dict[Finding, None]] = {}
        """The errors of the pools of each node, where there are any."""
        self._unexamined: set[str] = set()
        """Nodes of which something changed since their errors were last looked for; they may be gone."""

    def put_node(self, name: str, labels: Mapping[str, str], declared: Sequence[str]) -> Iterable[str]:
        """Add a node, or replace its labels."""
        node = NodeInfo(name, dict(labels), frozenset(declared))
        if self.nodes_known.get(name) == node:
            return ()
        self.nodes_known[name] = node
        self._unexamined.add(name)
        return (name,)

    def drop_node(self, name: str) -> Iterable[str]:
        """Remove a node; its slices stay."""
        if self.nodes_known.pop(name, None) is None:
            return ()
        # That its errors are over is to be seen; of others nothing is kept.
        (self._unexamined.add if name in self._findings else self._unexamined.discard)(name)
        return (name,)

    def put_slice(self, piece: Slice) -> Iterable[str]:
        """Add a slice, or replace its version."""
        key = _key(piece)
        former = self._slices.get(key)
        touched: Iterable[str] = self._take_out(key, former) if former is not None else ()
        self._slices[key] = piece
        self._pools.setdefault(piece.pool, {})[key] = piece
        self._pool_nodes.pop(piece.pool, None)
        node = piece.availability.node
        counts = self._wide_pools if node is None else self._node_pools.setdefault(node, {})
        counts[piece.pool] = counts.get(piece.pool, 0) + 1
        now = self.nodes(piece.pool)
        self._unexamined.update(self.nodes_known.keys() & now)
        return dict.fromkeys((*now, *touched)) if touched else now

    def drop_slice(self, uid: str) -> Iterable[str]:
        """Remove a slice."""
        former = self._slices.pop(uid, None)
        return self._take_out(uid, former) if former is not None else ()

    def put_taint_rule(self, rule: DeviceTaintRule) -> Iterable[str]:
        """Add a DeviceTaintRule, or replace its version."""
        return self._retaint(self._rules.put(rule))

    def drop_taint_rule(self, name: str) -> Iterable[str]:
        """Remove a DeviceTaintRule."""
        return self._retaint(self._rules.drop(name))

    def nodes(self, pool: PoolId) -> Iterable[str]:
        """Return the nodes that a pool may serve; some may be unknown."""
        if self._wide_pools and pool in self._wide_pools:
            return self.nodes_known
        found = self._pool_nodes.get(pool)
        if found is None:
            named = [piece.availability.node for piece in self._pools.get(pool, {}).values()]
            found = tuple(dict.fromkeys(node for node in named if node))
            if found:
                self._pool_nodes[pool] = found
        return found

    def nodes_of(self, device: DeviceId) -> Iterator[str]:
        """Yield the known nodes on which the device may be found."""
        for name in self.nodes(PoolId(device.driver, device.pool)):
            if name in self.nodes_known:
                yield name

    def pools(self, name: str) -> list[PoolView]:
        """Return the pools of a node."""
        node = self.nodes_known[name]
        ids = dict.fromkeys((*self._node_pools.get(name, {}), *self._wide_pools))
        views = (pool_on(pool, self._pools[pool].values(), node, self._features) for pool in ids)
        return [found for found in views if found is not None]

    def slice_view(self, piece: Slice) -> SliceView:
        """Return the view of a slice, with the taints of the rules."""
        key = _key(piece)
        found = self._slice_views.get(key)
        if found is None:
            template = self._templates.of(piece, blocking_taints(piece, self._rules.taints(piece)))
            found = self._slice_views[key] = SliceView(piece, template, self._slices.__len__)
        return found

    def consumption(self, pool: PoolId, name: str) -> CounterAmounts | None:
        """Return what a device consumes of counters, the larger amount of each where slices differ: a node may still use an older generation."""
        taken: CounterAmounts | None = None
        for piece in self._pools.get(pool, {}).values():
            for device in piece.devices:
                if device.name == name:
                    taken = larger(taken, consumption(device))
        return taken

    def has_generations(self, pool: PoolId) -> bool:
        """Say whether slices of several generations of a pool are there."""
        return len({piece.generation for piece in self._pools.get(pool, {}).values()}) > 1

    def published(self, piece: Slice) -> Iterator[tuple[str, CounterAmounts]]:
        """Yield what each device of a slice consumes of counters; nothing where the pool has a newer generation."""
        if all(other.generation <= piece.generation for other in self._pools[piece.pool].values()):
            for device in piece.devices:
                if device.consumes:
                    yield device.name, consumption(device)

    def examine(self) -> Iterator[tuple[str, Collection[Finding]]]:
        """Look for errors on the nodes that changed since they were last looked for; yields each with the errors of its pools."""
        while self._unexamined:
            name = self._unexamined.pop()
            self._findings.pop(name, None)
            if found := dict.fromkeys(self._examined(name)) if name in self.nodes_known else {}:
                self._findings[name] = found
            yield name, found

    def findings(self) -> tuple[Finding, ...]:
        """Return the errors of all pools, sorted."""
        for _ in self.examine():
            pass
        all_found = dict.fromkeys(each for found in self._findings.values() for each in found)
        return tuple(sorted(all_found, key=lambda finding: (finding.object, finding.field, finding.reason)))

    def _examined(self, name: str) -> Iterator[Finding]:
        """Yield the errors of a node's pools."""
        for pool in self.pools(name):
            there = self._pools[pool.id].values() if pool.incomplete or pool.invalid else ()
            slices = tuple(sorted((piece.name, piece.uid) for piece in there))
            if pool.incomplete:
                reason = "not all slices of the newest generation are there yet, and can be read"
                yield Finding(pool.id, slices, "spec.pool.resourceSliceCount", reason)
            elif pool.invalid:
                piece_name, _, field = pool.field.partition(": ")
                yield Finding(pool.id, slices, field, pool.invalid, piece_name)
            for one in pool.slices:
                yield from self._closed(one)

    def _closed(self, piece: Slice) -> Iterator[Finding]:
        """Yield the devices of a slice that are not allocated."""
        for index in bits(self.slice_view(piece).template.closed):
            device = piece.devices[index]
            field, _, amount = negative(device).partition(": ")
            reason = f"device {device.name}: {amount} is negative; the device is not allocated"
            where = f"spec.devices[{index}].{field}"
            yield Finding(piece.pool, ((piece.name, piece.uid),), where, reason, piece.name)

    def _take_out(self, key: str, former: Slice) -> Iterable[str]:
        touched = tuple(self.nodes(former.pool))
        self._unexamined.update(self.nodes_known.keys() & touched)
        self._slice_views.pop(key, None)
        self._pool_nodes.pop(former.pool, None)
        pool = self._pools[former.pool]
        pool.pop(key, None)
        if not pool:
            del self._pools[former.pool]
        node = former.availability.node
        counts = self._wide_pools if node is None else self._node_pools[node]
        counts[former.pool] -= 1
        if not counts[former.pool]:
            del counts[former.pool]
            if node is not None and not counts:
                del self._node_pools[node]
        return touched

    def _retaint(self, rules: Sequence[DeviceTaintRule]) -> Iterable[str]:
        """Drop the views of the slices that one of these rules covers."""
        touched: dict[str, None] = {}
        for pool, pieces in self._pools.items():
            reaching = [rule for rule in rules if rule.reaches(pool)]
            for key, piece in pieces.items() if reaching else ():
                if any(rule.covers(device.id) for rule in reaching for device in piece.devices):
                    self._slice_views.pop(key, None)
                    touched.update(dict.fromkeys(self.nodes(pool)))
        return touched


def _key(piece: Slice) -> str:
    return piece.uid or f"{piece.pool}/{piece.name}"
