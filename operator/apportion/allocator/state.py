"""Everything that the allocator knows: what there is, who holds what, and what was found out about it.

In: facts, one at a time, in any order. Out: a view per node, built when first asked for, and a log of touched nodes.
A fact costs work in proportion to what it touches. Not for several threads.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from apportion.allocator.rules.queries import Queries
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorResults, Selectors
from apportion.allocator.strategies.learned import LearnedDemand
from apportion.allocator.strategies.least_fragmentation import LeastFragmentation
from apportion.cel.programs import Programs
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.slice import PoolId, Slice
from apportion.dra.taintrule import DeviceTaintRule

COMPARED = frozenset(NEIGHBOUR_ATTRIBUTES).union(name for rung in DEFAULT.rungs for name in rung.names)
"""Attributes by which devices are compared without a claim that says so."""

LOG_PER_NODE = 8
"""Entries of the log kept per node; who lags further behind looks at every node again."""


class State:
    """What is known now. Changed by facts, read by `allocate`."""

    def __init__(self, features: Features = DEFAULT_FEATURES, programs: Selectors | None = None) -> None:
        self.features = features
        self.programs: Selectors = programs if programs is not None else Programs()
        self.classes: dict[str, DeviceClass] = {}
        self.queries = Queries()
        """Claims read before; emptied when classes change."""
        self._inventory = Inventory(features)
        self._holdings = Holdings()
        self._templates = NodeTemplates(features)
        self._views: dict[str, NodeView] = {}
        self._stale_views: set[str] = set()
        """Nodes whose views do not know what is held now."""
        self._log: ChangeLog[str] = ChangeLog()
        """Nodes whose slices, devices or holdings changed."""
        self._node_classes = NodeClasses(COMPARED)
        self._generation = self._node_classes.generation
        self.node_states = NodeStates()
        """The state of every node, as of the last `settle`."""
        self._moved: dict[str, None] = {}
        """Nodes whose state may be another since the last `settle`."""
        self.query_cache = QueryCache(self.programs, self._node_classes)
        self.precomputed_until = 0
        """End of the log of node states when outcomes were last computed in advance."""
        self.hosts = HostTable()
        """What nodes have left beside devices."""
        self.learned = LearnedDemand(self.selectors)
        """The demand as claims showed it so far."""

    def put_node(self, name: str, labels: Mapping[str, str], declared_features: Sequence[str] = ()) -> None:
        """Learn of a node, or of its new labels."""
        self._rebuild(self._inventory.put_node(name, labels, declared_features))

    def drop_node(self, name: str) -> None:
        """Forget a node; its slices stay known."""
        self._rebuild(self._inventory.drop_node(name))
        self.hosts.put(name, None)

    def put_host(self, name: str, left: HostResources | None) -> None:
        """Learn what cpu and memory a node has left; None: nothing is known of it, which counts as plenty."""
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
        touched = self._inventory.put_slice(piece)
        self._rebuild(touched)
        self._holdings.resolve(piece.pool, self._consumption)

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
        """Let an allocation occupy its devices; replaces what the same key held before."""
        self._mark_stale(self._holdings.hold(key, results, self._consumption))

    def release(self, key: str) -> None:
        """Let what the key held be free again; an unknown key holds nothing."""
        self._mark_stale(self._holdings.release(key))

    def learn(self, asked: Query, host: HostResources | None = None) -> None:
        """Learn what was asked for (`Decision.asked`, `Refusal.asked`), granted or not; once per claim.

        `host`: the cpu and memory that the claims' pods request; None: no pods are known.
        """
        self.learned.learn(asked, host)

    def scorer(self, mix: DemandMix | None = None) -> LeastFragmentation:
        """Return the strategy that keeps room for a mix; None: for the one that was learnt."""
        return self.learned.scorer(self, self.settle(), mix)

    def host_constrained_nodes(
        self, stranding: Stranding, host: HostDemand, query: Query
    ) -> AbstractSet[str]:
        """Return the nodes whose cpu or memory matters to a demand; after `settle`."""
        stranding.count(self.learned.typical, self._node_classes)
        return stranding.nodes(self, host, query, self._node_classes)

    def holders(self, device: DeviceId) -> tuple[str, ...]:
        """Return who holds the device: several keys where it is shared, or given twice."""
        return self._holdings.holders(device)

    def findings(self) -> tuple[Finding, ...]:
        """Return what is wrong with pools, sorted; broken pools are left out and stop nothing else."""
        return self._inventory.findings()

    def view(self, name: str) -> NodeView:
        """Return a node's view as things stand; raises KeyError for an unknown node."""
        found = self._views.get(name)
        if found is None:
            inventory = self._inventory
            found = self._views[name] = NodeView(
                inventory.nodes_known[name],
                inventory.pools(name),
                inventory.slice_view,
                self._templates,
                self.features,
            )
            self._stale_views.add(name)
        if name in self._stale_views:
            found.refresh(self._holdings)
            self._stale_views.discard(name)
        return found

    def settle(self, query: Query | None = None, ladder: Ladder | None = None) -> NodeStates:
        """Bring the node states up to date, for a query, a ladder or in general; return them."""
        if ladder is not None or (query is not None and query.constraints):
            self._compare(query, ladder)
        moved = self._moved
        while moved:
            name, _ = moved.popitem()
            if name not in self._inventory.nodes_known:
                self.node_states.drop(name)
                continue
            view = self.view(name)
            if view.node_class is None:
                view.node_class = self._node_classes.of(view)
                if self._node_classes.generation != self._generation:
                    self._void_classes()
                    moved = self._moved
                    continue
            self.node_states.put(name, view.node_class, view)
        return self.node_states

    @property
    def class_count(self) -> int:
        """Return how many node classes are known."""
        return len(self._node_classes.log)

    @property
    def moment(self) -> int:
        """Return a number that grows with every change of a node."""
        return self._log.end

    def names(self) -> Mapping[str, object]:
        """Return the nodes."""
        return self._inventory.nodes_known

    def nodes_of(self, device: DeviceId) -> Iterator[str]:
        """Yield the nodes on which the device may be found."""
        return self._inventory.nodes_of(device)

    def since(self, cursor: int) -> tuple[int, Mapping[str, None] | None]:
        """Return the end of the log, and the nodes that changed after the cursor (None: too long ago)."""
        changed = self._log.since(cursor)
        return self._log.end, None if changed is None else dict.fromkeys(changed)

    def selectors(self, text: str) -> SelectorResults:
        """Return the results of a selector, kept by what it reads."""
        return self.query_cache.selectors(text)

    def _compare(self, query: Query | None, ladder: Ladder | None) -> None:
        classes = self._node_classes
        if query is not None:
            classes.compare([constraint.attribute for constraint in query.constraints])
        if ladder is not None:
            classes.compare(ladder.names)
        if classes.generation != self._generation:
            self._void_classes()

    def _void_classes(self) -> None:
        """Classify all nodes again: it changed which attributes differ from node to node, or matter where they do."""
        self._generation = self._node_classes.generation
        self.query_cache.forget()
        self.node_states.clear()
        for view in self._views.values():
            view.node_class = None
        self._moved = dict.fromkeys(self._inventory.nodes_known)

    def _consumption(self, pool: PoolId) -> ConsumptionOf:
        """Return what says what a device of the pool takes from counters, by the newest slice that has it."""
        whole = partial(self._inventory.consumption, pool)
        for name in self._inventory.nodes(pool):
            view = self._views.get(name)
            if view is not None:
                return view.consumption(pool, whole)
            break
        return whole

    def _rebuild(self, names: Iterable[str]) -> None:
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
            view = self._views.get(name)
            if (
                view is not None
                and name not in self._stale_views
                and not view.follow(changes, self._holdings)
            ):
                self._stale_views.add(name)
            self._touch(name)

    def _touch(self, name: str) -> None:
        self._moved[name] = None
        self._log.add(name, most=LOG_PER_NODE * (len(self._inventory.nodes_known) + 64))
