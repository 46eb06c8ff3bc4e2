"""Everything that the allocator knows: what there is, who holds what, and what was found out about it.

In: facts, one at a time, in any order. Out: a view per node, built when first asked for, and a log of touched nodes.
A fact costs work in proportion to what it touches. Not for several threads.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from apportion.allocator.closeness.ladder import Ladder
from apportion.allocator.equivalence.nodeclass import NodeClasses
from apportion.allocator.equivalence.nodestate import NodeState, NodeStates
from apportion.allocator.facts.holdings import Change, Holdings, Taken
from apportion.allocator.facts.host import HostDemand, HostResources, HostTable
from apportion.allocator.facts.inventory import Finding, Inventory
from apportion.allocator.node.counters import GroupTypes
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.node.template import NodeTemplates
from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.pricing.stranding import Stranding
from apportion.allocator.ranking.querycache import QueryCache
from apportion.allocator.rules.features import DEFAULT_FEATURES, Features
from apportion.allocator.rules.queries import Queries
from apportion.allocator.rules.query import NamedQuery, Query
from apportion.allocator.rules.selectors import SelectorResults, Selectors
from apportion.allocator.strategies.learned import LearnedDemand
from apportion.allocator.strategies.least_fragmentation import LeastFragmentation
from apportion.cel.programs import Programs
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.slice import PoolId, Slice
from apportion.dra.taintrule import DeviceTaintRule

LOG_PER_NODE = 8
"""Entries of the log kept per node; who lags further behind looks at every node again."""


class State:
    """What is known now. Changed by facts, read by `allocate`."""

    def __init__(self, features: Features = DEFAULT_FEATURES, programs: Selectors | None = None) -> None:
        self.features = features
        self.programs: Selectors = programs if programs is not None else Programs()
        self.classes: dict[str, DeviceClass] = {}
        self.meanings = Queries()
        """Claims read before; emptied when classes change."""
        self._inventory = Inventory(features)
        self._ledger = Holdings()
        self._anatomies = NodeTemplates(
            GroupTypes(), shares=features.consumable_capacity, taints=features.device_taints
        )
        self._views: dict[str, NodeView] = {}
        self._worn: set[str] = set()
        """Nodes whose views do not know what is held now."""
        self._log: list[str] = []
        self._log_start = 0
        self._kinds = NodeClasses()
        self._era = self._kinds.era
        self._standings = NodeStates()
        self._moved: dict[str, None] = {}
        """Nodes to be stood anew."""
        self.recall = QueryCache(self.programs, self._kinds)
        self.looked_over = 0
        """Where the log of standings ended when nobody waited (see `quickly`)."""
        self.hosts = HostTable()
        """What nodes have left beside devices."""
        self.expected = LearnedDemand(self.answers)
        """The demand that is to come, as far as it can be told from what was asked for."""

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
        self.meanings.clear()

    def drop_class(self, name: str) -> None:
        """Forget a DeviceClass."""
        self.classes.pop(name, None)
        self.meanings.clear()

    def put_slice(self, piece: Slice) -> None:
        """Learn of a ResourceSlice, or of its new version."""
        touched = self._inventory.put_slice(piece)
        self._rebuild(touched)
        self._ledger.resolve(piece.pool, self._consumption)

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
        self._wear(self._ledger.hold(key, results, self._consumption))

    def release(self, key: str) -> None:
        """Let what the key held be free again; an unknown key holds nothing."""
        self._wear(self._ledger.release(key))

    def learn(self, asked: Query, host: HostResources | None = None) -> None:
        """Learn what was asked for (`Decision.asked`, `Refusal.asked`), granted or not; once per claim.

        `host`: the cpu and memory that the claims' pods request; None: no pods are known.
        """
        self.expected.learn(asked, host)

    def scorer(self, mix: DemandMix | None = None) -> LeastFragmentation:
        """Return the strategy that keeps room for a mix; None: for the one that was learnt."""
        return self.expected.scorer(self, self.settle(), mix)

    def short(self, stranding: Stranding, host: HostDemand, shape: NamedQuery) -> AbstractSet[str]:
        """Return the nodes whose cpu or memory matters to a demand; after `settle`."""
        stranding.count(self.expected.typical, self._kinds)
        return stranding.nodes(self, host, shape, self._kinds)

    def holders(self, device: DeviceId) -> tuple[str, ...]:
        """Return who holds the device: several keys where it is shared, or given twice."""
        return self._ledger.holders(device)

    def findings(self) -> tuple[Finding, ...]:
        """Return what is wrong with pools, sorted; broken pools are left out and stop nothing else."""
        return self._inventory.findings()

    def view(self, name: str) -> NodeView:
        """Return a node's view as things stand; raises KeyError for an unknown node."""
        found = self._views.get(name)
        if found is None:
            inventory = self._inventory
            found = self._views[name] = NodeView(
                inventory.places[name],
                inventory.pools(name),
                inventory.piece,
                self._anatomies,
                self.features,
            )
            self._worn.add(name)
        if name in self._worn:
            found.refresh(self._ledger)
            self._worn.discard(name)
        return found

    def settle(self, meaning: Query | None = None, ladder: Ladder | None = None) -> NodeStates:
        """Return every node on its standing, as things stand, for one that asks so or for anybody."""
        if ladder is not None or (meaning is not None and meaning.rules):
            self._compare(meaning, ladder)
        moved = self._moved
        while moved:
            name, _ = moved.popitem()
            if name not in self._inventory.places:
                self._standings.drop(name)
                continue
            view = self.view(name)
            if view.kind is None:
                view.kind = self._kinds.of(view)
                if self._kinds.era != self._era:
                    self._unlearn()
                    moved = self._moved
                    continue
            self._standings.put(name, view.kind, view)
        return self._standings

    def standing(self, name: str) -> NodeState:
        """Return where a node stands; after `settle`."""
        return self._standings.of(name)

    @property
    def kinds(self) -> int:
        """Return how many kinds of nodes are known."""
        return len(self._kinds.log)

    @property
    def moment(self) -> int:
        """Return a number that grows with every node that is touched."""
        return self._log_start + len(self._log)

    def names(self) -> Mapping[str, object]:
        """Return the nodes."""
        return self._inventory.places

    def nodes_of(self, device: DeviceId) -> Iterator[str]:
        """Yield the nodes on which the device may be found."""
        return self._inventory.nodes_of(device)

    def since(self, cursor: int) -> tuple[int, Mapping[str, None] | None]:
        """Return the end of the log, and the nodes touched after the cursor (None: too long ago)."""
        end = self._log_start + len(self._log)
        if cursor < self._log_start:
            return end, None
        return end, dict.fromkeys(self._log[cursor - self._log_start :])

    def answers(self, text: str) -> SelectorResults:
        """Return what a selector answers, remembered by what it reads."""
        return self.recall.answers(text)

    def _compare(self, meaning: Query | None, ladder: Ladder | None) -> None:
        kinds = self._kinds
        if meaning is not None:
            kinds.compare([rule.attribute for rule in meaning.rules])
        if ladder is not None:
            kinds.compare(ladder.names)
        if kinds.era != self._era:
            self._unlearn()

    def _unlearn(self) -> None:
        """Start over: it changed which attributes are personal, or matter where they are."""
        self._era = self._kinds.era
        self.recall.forget()
        self._standings.clear()
        for built in self._views.values():
            built.kind = None
        self._moved = dict.fromkeys(self._inventory.places)

    def _consumption(self, pool: PoolId) -> Taken:
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
            self._worn.discard(name)
            self._touch(name)

    def _wear(self, changes: Sequence[Change]) -> None:
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
            if view is not None and name not in self._worn and not view.follow(changes, self._ledger):
                self._worn.add(name)
            self._touch(name)

    def _touch(self, name: str) -> None:
        self._moved[name] = None
        self._log.append(name)
        if len(self._log) > LOG_PER_NODE * (len(self._inventory.places) + 64):
            self._log_start += len(self._log)
            self._log.clear()
