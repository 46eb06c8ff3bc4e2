"""State: all facts about the cluster and everything derived from them.

In: facts, one at a time, in any order. Out: a view per node, built lazily; a log of changed nodes; node states; scorers.
A fact costs work in proportion to the nodes that it changes. Not thread-safe.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from apportion.allocator.changelog import ChangeLog
from apportion.allocator.closeness.ladder import DEFAULT, Ladder
from apportion.allocator.equivalence.nodeclasses import NodeClasses
from apportion.allocator.equivalence.nodestate import NodeStates
from apportion.allocator.facts.holdings import Change, ConsumptionOf, Holdings
from apportion.allocator.facts.host import HostDemand, HostResources, HostTable
from apportion.allocator.facts.inventory import Finding, Inventory
from apportion.allocator.node.neighbours import NEIGHBOUR_ATTRIBUTES
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.node.template import NodeTemplates
from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.pricing.stranding import Stranding
from apportion.allocator.ranking.querycache import QueryCache
from apportion.allocator.rules.features import DEFAULT_FEATURES, Features
from apportion.allocator.rules.pools import NodeInfo
from apportion.allocator.rules.queries import Queries
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorResults, Selectors
from apportion.allocator.strategies.learned import LearnedDemand
from apportion.allocator.strategies.leastfragmentation import LeastFragmentation
from apportion.cel import Programs
from apportion.dra.allocation import DeviceResult
from apportion.dra.consumedcounters import CounterAmounts
from apportion.dra.device import DeviceId
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.slice import PoolId, Slice
from apportion.dra.taintrule import DeviceTaintRule

COMPARED = frozenset(NEIGHBOUR_ATTRIBUTES).union(name for rung in DEFAULT.rungs for name in rung.names)
"""Attributes by which devices are compared for all claims: by strategies and the default ladder."""

LOG_PER_NODE = 8
"""Entries of the log kept per node; a reader further behind reads every node."""


class State:
    """Changed by facts, read by `allocate`."""

    def __init__(self, features: Features = DEFAULT_FEATURES, programs: Selectors | None = None) -> None:
        self.features = features
        self.programs: Selectors = programs if programs is not None else Programs()
        self.classes: dict[str, DeviceClass] = {}
        self.queries = Queries()
        """Queries of claims read before; emptied when device classes change."""
        self._inventory = Inventory(features)
        self._holdings = Holdings()
        self.held_or_released = self._holdings.changes
        """Devices, in the order in which they were held or released."""
        self._templates = NodeTemplates(features)
        self._views: dict[str, NodeView] = {}
        self._stale_views: set[str] = set()
        """Nodes whose views do not show the present holdings."""
        self._log: ChangeLog[str] = ChangeLog()
        """Nodes whose slices, devices or holdings changed."""
        self._node_classes = NodeClasses(COMPARED)
        self._generation = self._node_classes.generation
        self.node_states = NodeStates()
        """The state of every node, as of the last `settle`."""
        self._unsettled: dict[str, None] = {}
        """Nodes whose node state may have changed since the last `settle`."""
        self.query_cache = QueryCache(self.programs, self._node_classes)
        self.precomputed_until = 0
        """End of the log of node states when outcomes were last computed in advance."""
        self.hosts = HostTable()
        """Free cpu and memory of nodes."""
        self.learned = LearnedDemand(self.query_cache.selectors)
        """The demand learnt from past claims."""

    def put_node(self, name: str, labels: Mapping[str, str], declared_features: Sequence[str] = ()) -> None:
        """Learn of a node, or of its new labels."""
        self._rebuild(self._inventory.put_node(name, labels, declared_features))

    def drop_node(self, name: str) -> None:
        """Forget a node; its slices stay known."""
        self._rebuild(self._inventory.drop_node(name))
        self.hosts.put(name, None)

    def put_host(self, name: str, left: HostResources | None) -> None:
        """Learn the free cpu and memory of a node; None: unknown, which counts as enough for everything."""
        self.hosts.put(name, left)

    def put_class(self, device_class: DeviceClass) -> None:
        """Learn of a DeviceClass, or of its new version."""
        self.classes[device_class.name] = device_class
        self.queries.clear()

    def drop_class(self, name: str) -> None:
        """Forget a DeviceClass."""
        self.classes.pop(name, None)
        self.queries.clear()

    def put_slice(self, piece: Slice) -> None:
        """Learn of a ResourceSlice, or of its new version."""
        self._rebuild(self._inventory.put_slice(piece))
        self._holdings.resolve(piece.pool, self._consumption, self._inventory.published(piece))

    def drop_slice(self, uid: str) -> None:
        """Forget a ResourceSlice."""
        self._rebuild(self._inventory.drop_slice(uid))

    def put_taint_rule(self, rule: DeviceTaintRule) -> None:
        """Learn of a DeviceTaintRule, or of its new version."""
        self._rebuild(self._inventory.put_taint_rule(rule))

    def drop_taint_rule(self, name: str) -> None:
        """Forget a DeviceTaintRule."""
        self._rebuild(self._inventory.drop_taint_rule(name))

    def hold(self, key: str, results: Sequence[DeviceResult]) -> None:
        """Hold the devices of an allocation under a key; replaces what the key held before. See `Holdings` for what they consume of counters."""
        self._mark_stale(self._holdings.hold(key, results, self._consumption))

    def release(self, key: str) -> None:
        """Release the devices that the key holds; an unknown key holds none."""
        self._mark_stale(self._holdings.release(key))

    def hold_all(self, rows: Iterable[tuple[str, Sequence[DeviceResult]]]) -> None:
        """Hold the devices of several keys, of one node as a rule: it changes once."""
        hold = self._holdings.hold
        self._mark_stale([each for key, found in rows for each in hold(key, found, self._consumption)])

    def release_all(self, keys: Iterable[str]) -> None:
        """Release the devices of several keys, of one node as a rule: it changes once."""
        self._mark_stale([change for key in keys for change in self._holdings.release(key)])

    def learn(self, asked: Query, host: HostResources | None = None) -> None:
        """Learn a query (`Decision.asked`, `Refusal.asked`), served or refused, once per claim; `host`: cpu and memory of its pods, None: unknown."""
        self.learned.learn(asked, host)

    def scorer(self, mix: DemandMix | None = None) -> LeastFragmentation:
        """Return the LeastFragmentation scorer for a mix; None: for the learnt mix."""
        return self.learned.scorer(self, self.settle(), mix)

    def host_constrained_nodes(
        self, stranding: Stranding, host: HostDemand, query: Query
    ) -> AbstractSet[str]:
        """Return the nodes whose cpu or memory matters to a demand; after `settle`."""
        stranding.update(self.learned.typical, self._node_classes)
        return stranding.nodes(self, host, query, self._node_classes)

    def held(self) -> Mapping[str, tuple[DeviceResult, ...]]:
        """Return what every key holds now (a copy)."""
        return self._holdings.held_by_key()

    def holds(self, key: str, results: Sequence[DeviceResult]) -> bool:
        """Say whether a key holds just these devices; those with admin access are held by nobody."""
        return self._holdings.holds(key, results)

    def holders(self, device: DeviceId) -> tuple[str, ...]:
        """Return the keys that hold the device: several if it is shared, or allocated twice."""
        return self._holdings.holders(device)

    def charged(self, device: DeviceId) -> CounterAmounts | None:
        """Return what a device that is held takes of its pool's counters; None: nobody holds it, or no slice has said it."""
        holding = self._holdings.held(PoolId(device.driver, device.pool)).get(device.name)
        return holding.consumption if holding is not None else None

    def kept(self, key: str, aside: Collection[str]) -> tuple[DeviceResult, ...]:
        """Return the devices that a key keeps from others: that no other key holds as a whole, those `aside` not counted.

        Where there are none, and the key is `aside` itself, `allocate` sees the same state without it.
        """
        return self._holdings.kept(key, aside)

    def examine(self) -> Iterator[tuple[str, Collection[Finding]]]:
        """Look for defects of pools on the nodes that changed, and yield each with those that it has now; `findings` does what is left of it."""
        return self._inventory.examine()

    def findings(self) -> tuple[Finding, ...]:
        """Return the defects of pools, sorted; `allocate` leaves broken pools out."""
        return self._inventory.findings()

    def view(self, name: str) -> NodeView:
        """Return the present view of a node; raises KeyError for an unknown node."""
        found = self._views.get(name)
        if found is None:
            known = self._inventory
            found = self._views[name] = NodeView(
                known.nodes_known[name], known.pools(name), known.slice_view, self._templates, self.features
            )
            self._stale_views.add(name)
        if name in self._stale_views:
            found.refresh(self._holdings)
            self._stale_views.discard(name)
        return found

    def settle(self, query: Query | None = None, ladder: Ladder | None = None) -> NodeStates:
        """Bring the node states up to date and return them; attributes that the query or the ladder compares then count."""
        if ladder is not None or (query is not None and query.constraints):
            self._compare(query, ladder)
        unsettled = self._unsettled
        while unsettled:
            name, _ = unsettled.popitem()
            if name not in self._inventory.nodes_known:
                self.node_states.drop(name)
                continue
            view = self.view(name)
            if view.node_class is None:
                view.node_class = self._node_classes.of(view)
                if self._node_classes.generation != self._generation:
                    self._void_classes()
                    unsettled = self._unsettled
                    continue
            self.node_states.put(name, view.node_class, view)
        return self.node_states

    def warm_up(self) -> None:
        """Compile the selectors of DeviceClasses and build the views of all nodes, so that the first claim does not wait for it."""
        for text in [text for each in self.classes.values() for text in each.selectors]:
            self.programs.get(text)
        self.settle()

    @property
    def class_count(self) -> int:
        """Return the number of known node classes."""
        return len(self._node_classes.log)

    @property
    def moment(self) -> int:
        """Return a number that grows with every change of a node."""
        return self._log.end

    def names(self) -> Mapping[str, NodeInfo]:
        """Return the nodes by name."""
        return self._inventory.nodes_known

    def nodes_of(self, device: DeviceId) -> Iterator[str]:
        """Yield the nodes that may have the device."""
        return self._inventory.nodes_of(device)

    def since(self, cursor: int) -> tuple[int, Mapping[str, None] | None]:
        """Return the end of the log, and the nodes that changed after the cursor (None: too long ago)."""
        end, changed = self._log.since(cursor)
        return end, None if changed is None else dict.fromkeys(changed)

    def selectors(self, text: str) -> SelectorResults:
        """Return the kept results of a selector."""
        return self.query_cache.selectors(text)

    def _compare(self, query: Query | None, ladder: Ladder | None) -> None:
        attributes = [constraint.attribute for constraint in query.constraints] if query is not None else []
        self._node_classes.compare([*attributes, *(ladder.names if ladder is not None else ())])
        if self._node_classes.generation != self._generation:
            self._void_classes()

    def _void_classes(self) -> None:
        """Mark all nodes for classification: the per-node attributes changed, or those of them that are compared."""
        self._generation = self._node_classes.generation
        self.query_cache.forget()
        self.node_states.clear()
        for view in self._views.values():
            view.node_class = None
        self._unsettled = dict.fromkeys(self._inventory.nodes_known)

    def _consumption(self, pool: PoolId) -> ConsumptionOf:
        """Return a function from a device of the pool to what it takes from counters, as its slices say."""
        known = self._inventory
        whole, view = partial(known.consumption, pool), self._views.get(next(iter(known.nodes(pool)), ""))
        return whole if view is None or known.has_generations(pool) else view.consumption(pool, whole)

    def _rebuild(self, names: Iterable[str]) -> None:
        self._holdings.forget_released()
        for name in names:
            self._views.pop(name, None)
            self._stale_views.discard(name)
            self._touch(name)

    def _mark_stale(self, changes: Sequence[Change]) -> None:
        names: Iterable[str] = ()
        last: PoolId | None = None
        for change in changes:
            pool = change[0]
            if pool is not last:
                last = pool
                more = self._inventory.nodes(pool)
                if not names:
                    names = more
                elif names != more:
                    names = dict.fromkeys((*names, *more))
        for name in names:
            view = self._views.get(name) if name not in self._stale_views else None
            if view is not None and not view.follow(changes, self._holdings):
                self._stale_views.add(name)
            self._touch(name)

    def _touch(self, name: str) -> None:
        self._unsettled[name] = None
        self._log.add(name, most=LOG_PER_NODE * (len(self._inventory.nodes_known) + 64))
