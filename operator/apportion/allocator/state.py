"""Everything that the allocator knows: nodes, classes, slices, taint rules, and who holds what.

In: facts, one at a time, in any order. Out: a view per node, built when first asked for, and a log of touched nodes.
A fact costs work in proportion to what it touches. Not for several threads.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from apportion.allocator.answers import Answers, Selectors
from apportion.allocator.candidates import Piece, blocking_taints
from apportion.allocator.counters import GroupTypes
from apportion.allocator.decision import Finding
from apportion.allocator.features import DEFAULT_FEATURES, Features
from apportion.allocator.kind import Kinds
from apportion.allocator.ledger import Change, Consumption, Ledger
from apportion.allocator.pools import Place, PoolView, consumption, view
from apportion.allocator.ranking import Ranking
from apportion.allocator.roster import Roster
from apportion.allocator.score.least_fragmentation import LeastFragmentation
from apportion.allocator.score.strategy import Strategy
from apportion.allocator.shape import Meaning
from apportion.allocator.standing import Standings
from apportion.allocator.view import NodeView
from apportion.allocator.worth.expected import Expected
from apportion.allocator.worth.mix import Mix
from apportion.cel.programs import Programs
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import Device, DeviceId
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.slice import PoolId, Slice
from apportion.dra.taint import Taint
from apportion.dra.taintrule import DeviceTaintRule

MOST_SHAPES = 256
"""Shapes whose rankings are kept; the one used least recently leaves first."""

MOST_TEXTS = 2048
"""Selectors whose answers are kept; the oldest leaves first."""

LOG_PER_NODE = 8
"""Entries of the log kept per node; who lags further behind looks at every node again."""


class State:
    """What is known now. Changed by facts, read by `allocate`."""

    def __init__(self, features: Features = DEFAULT_FEATURES, programs: Selectors | None = None) -> None:
        self.features = features
        self.programs: Selectors = programs if programs is not None else Programs()
        self.classes: dict[str, DeviceClass] = {}
        self._places: dict[str, Place] = {}
        self._slices: dict[str, Slice] = {}
        self._pieces: dict[str, Piece] = {}
        self._by_name: dict[str, dict[str, Device]] = {}
        self._pools: dict[PoolId, dict[str, Slice]] = {}
        self._node_pools: dict[str, dict[PoolId, int]] = {}
        self._wide: dict[PoolId, int] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._ledger = Ledger()
        self._types = GroupTypes()
        self._views: dict[str, NodeView] = {}
        self._worn: set[str] = set()
        self._log: list[str] = []
        self._log_start = 0
        self._answers: OrderedDict[str, Answers] = OrderedDict()
        self._rankings: OrderedDict[tuple[object, str, bool], Ranking | Roster] = OrderedDict()
        self._kinds = Kinds()
        self._personal = self._kinds.personal
        self._standings = Standings()
        self._shared: dict[Meaning, bool] = {}
        self._moved: dict[str, None] = {}
        """Nodes to be stood anew."""
        self._taken: dict[PoolId, dict[str, Consumption | None]] = {}
        """What devices that were held once take from counters."""
        self._pool_nodes: dict[PoolId, tuple[str, ...]] = {}
        self.meanings: dict[object, Meaning] = {}
        """Claims read before, by what they say; emptied when classes change."""
        self.expected = Expected(self.answers)
        """The demand that is to come, as far as it can be told from what was asked for."""

    def put_node(self, name: str, labels: Mapping[str, str], declared_features: Sequence[str] = ()) -> None:
        """Learn of a node, or of its new labels."""
        place = Place(name, dict(labels), frozenset(declared_features))
        if self._places.get(name) != place:
            self._places[name] = place
            self._pool_nodes.clear()
            self._rebuild(name)

    def drop_node(self, name: str) -> None:
        """Forget a node; its slices stay known."""
        if self._places.pop(name, None) is not None:
            self._pool_nodes.clear()
            self._rebuild(name)

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
        key = _key(piece)
        former = self._slices.get(key)
        if former is not None:
            self._take_out(key, former)
        self._slices[key] = piece
        self._pools.setdefault(piece.pool, {})[key] = piece
        self._forget_pool(piece.pool)
        node = piece.availability.node
        if node is None:
            self._wide[piece.pool] = self._wide.get(piece.pool, 0) + 1
        else:
            pools = self._node_pools.setdefault(node, {})
            pools[piece.pool] = pools.get(piece.pool, 0) + 1
        self._ledger.resolve(piece.pool, self._consumption)
        self._rebuild_pool(piece.pool)

    def drop_slice(self, uid: str) -> None:
        """Forget a ResourceSlice."""
        former = self._slices.pop(uid, None)
        if former is not None:
            self._take_out(uid, former)
            self._rebuild_pool(former.pool)

    def put_taint_rule(self, rule: DeviceTaintRule) -> None:
        """Learn of a DeviceTaintRule, or of its new version."""
        if self._rules.get(rule.name) != rule:
            former = self._rules.get(rule.name)
            self._rules[rule.name] = rule
            self._retaint(rule if former is None else None)

    def drop_taint_rule(self, name: str) -> None:
        """Forget a DeviceTaintRule."""
        rule = self._rules.pop(name, None)
        if rule is not None:
            self._retaint(rule)

    def hold(self, key: str, results: Sequence[DeviceResult]) -> None:
        """Let an allocation occupy its devices; replaces what the same key held before."""
        self._wear(self._ledger.hold(key, results, self._consumption))

    def release(self, key: str) -> None:
        """Let what the key held be free again; an unknown key holds nothing."""
        self._wear(self._ledger.release(key))

    def learn(self, asked: Meaning) -> None:
        """Learn what was asked for (`Decision.asked`, `Refusal.asked`), granted or not; once per claim."""
        self.expected.learn(asked)

    def scorer(self, mix: Mix | None = None) -> LeastFragmentation:
        """Return the strategy that keeps room for a mix; None: for the one that was learnt."""
        return self.expected.scorer(self, self.settle(), mix)

    def holders(self, device: DeviceId) -> tuple[str, ...]:
        """Return who holds the device: several keys where it is shared, or given twice."""
        return self._ledger.holders(device)

    def findings(self) -> tuple[Finding, ...]:
        """Return what is wrong with pools, sorted; broken pools are left out and stop nothing else."""
        found: dict[Finding, None] = {}
        for name in self._places:
            for pool in self._pool_views(name):
                if pool.incomplete:
                    reason = "not all slices of the newest generation are there yet"
                    found[Finding(f"pool {pool.id}", "spec.pool.resourceSliceCount", reason)] = None
                elif pool.invalid:
                    piece, _, field = pool.field.partition(": ")
                    found[Finding(f"pool {pool.id}, slice {piece}", field, pool.invalid)] = None
        return tuple(sorted(found, key=lambda finding: (finding.object, finding.field, finding.reason)))

    def view(self, name: str) -> NodeView:
        """Return a node's view as things stand; raises KeyError for an unknown node."""
        found = self._views.get(name)
        if found is None:
            found = self._views[name] = NodeView(
                self._places[name], self._pool_views(name), self._piece, self._types, self.features
            )
            self._worn.add(name)
        if name in self._worn:
            found.refresh(self._ledger)
            self._worn.discard(name)
        return found

    def settle(self) -> Standings:
        """Return every node on its standing, as things stand."""
        while self._moved:
            name, _ = self._moved.popitem()
            if name not in self._places:
                self._standings.drop(name)
                continue
            view = self.view(name)
            if view.kind is None:
                view.kind = self._kinds.of(view)
                if self._kinds.personal is not self._personal:
                    self._unlearn()
                    continue
            self._standings.put(name, view.kind, view)
        return self._standings

    @property
    def moment(self) -> int:
        """Return a number that grows with every node that is touched."""
        return self._log_start + len(self._log)

    def shared(self, meaning: Meaning) -> bool:
        """Say whether nodes that stand alike give the same answer to claims of this meaning."""
        found = self._shared.get(meaning)
        if found is None:
            reads = [self.answers(text).reads for text in meaning.texts]
            found = meaning.plain and self._kinds.covers(reads)
            if len(self._shared) > MOST_TEXTS:
                self._shared.clear()
            self._shared[meaning] = found
        return found

    def _unlearn(self) -> None:
        """Start over: an attribute that seemed to be the same on many nodes is personal."""
        self._personal = self._kinds.personal
        self._shared.clear()
        self._standings.clear()
        for built in self._views.values():
            built.kind = None
        self._moved = dict.fromkeys(self._places)

    def names(self) -> Mapping[str, object]:
        """Return the nodes."""
        return self._places

    def nodes_of(self, device: DeviceId) -> Iterator[str]:
        """Yield the nodes on which the device may be found."""
        pool = PoolId(device.driver, device.pool)
        if pool in self._wide:
            yield from self._places
            return
        for piece in self._pools.get(pool, {}).values():
            if piece.availability.node in self._places:
                yield piece.availability.node or ""

    def since(self, cursor: int) -> tuple[int, Mapping[str, None] | None]:
        """Return the end of the log, and the nodes touched after the cursor (None: too long ago)."""
        end = self._log_start + len(self._log)
        if cursor < self._log_start:
            return end, None
        return end, dict.fromkeys(self._log[cursor - self._log_start :])

    def ranking(self, meaning: Meaning, strategy: Strategy, *, shared: bool) -> Ranking | Roster | None:
        """Return what is remembered of a meaning: a roster if the nodes that stand alike share answers."""
        key = meaning.token, strategy.value, shared
        found = self._rankings.get(key)
        if found is not None:
            self._rankings.move_to_end(key)
        return found

    def remember(self, meaning: Meaning, strategy: Strategy, ranking: Ranking | Roster) -> None:
        """Keep a ranking for the next claim that asks the same."""
        self._rankings[meaning.token, strategy.value, isinstance(ranking, Roster)] = ranking
        if len(self._rankings) > MOST_SHAPES:
            self._rankings.popitem(last=False)

    def answers(self, text: str) -> Answers:
        """Return what a selector answers, remembered by what it reads."""
        found = self._answers.get(text)
        if found is None:
            found = self._answers[text] = Answers(self.programs, text)
            if len(self._answers) > MOST_TEXTS:
                self._answers.popitem(last=False)
        return found

    def _forget_pool(self, pool: PoolId) -> None:
        self._pool_nodes.pop(pool, None)
        self._taken.pop(pool, None)

    def _consumption(self, pool: PoolId, device: str) -> Consumption | None:
        """Return what a device takes from counters, by the newest slice that has it."""
        taken = self._taken.get(pool)
        if taken is None:
            taken = self._taken[pool] = {}
        if device not in taken:
            taken[device] = self._look_up(pool, device)
        return taken[device]

    def _look_up(self, pool: PoolId, name: str) -> Consumption | None:
        best: Slice | None = None
        taken: Consumption | None = None
        for key, piece in self._pools.get(pool, {}).items():
            if best is None or (piece.generation, piece.name) > (best.generation, best.name):
                candidate = self._named(key).get(name)
                if candidate is not None:
                    best, taken = piece, consumption(candidate)
        return taken

    def _named(self, key: str) -> Mapping[str, Device]:
        """Return the devices of a slice by name."""
        found = self._by_name.get(key)
        if found is None:
            found = self._by_name[key] = {device.name: device for device in self._slices[key].devices}
        return found

    def _take_out(self, key: str, former: Slice) -> None:
        self._pieces.pop(key, None)
        self._by_name.pop(key, None)
        self._forget_pool(former.pool)
        pool = self._pools[former.pool]
        pool.pop(key, None)
        if not pool:
            del self._pools[former.pool]
        node = former.availability.node
        counts = self._wide if node is None else self._node_pools[node]
        counts[former.pool] -= 1
        if not counts[former.pool]:
            del counts[former.pool]
        self._rebuild_pool(former.pool, (node,) if node else None)

    def _piece(self, cut: Slice) -> Piece:
        key = _key(cut)
        found = self._pieces.get(key)
        if found is None:
            more: dict[int, tuple[Taint, ...]] = {}
            for rule in self._rules.values():
                for index, device in enumerate(cut.devices):
                    if rule.covers(device.id):
                        more[index] = (*more.get(index, ()), rule.taint)
            found = self._pieces[key] = Piece(cut, blocking_taints(cut, more))
        return found

    def _pool_views(self, name: str) -> list[PoolView]:
        place = self._places[name]
        ids = dict.fromkeys((*self._node_pools.get(name, {}), *self._wide))
        views = (view(pool, self._pools[pool].values(), place, self.features) for pool in ids)
        return [found for found in views if found is not None]

    def _retaint(self, rule: DeviceTaintRule | None) -> None:
        """Compile the slices anew that a rule may cover (None: all)."""
        for key, piece in self._slices.items():
            if rule is None or any(rule.covers(device.id) for device in piece.devices):
                self._pieces.pop(key, None)
                self._rebuild_pool(piece.pool)

    def _nodes(self, pool: PoolId) -> Iterable[str]:
        if pool in self._wide:
            return self._places
        found = self._pool_nodes.get(pool)
        if found is None:
            found = self._pool_nodes[pool] = tuple(
                dict.fromkeys(
                    piece.availability.node
                    for piece in self._pools.get(pool, {}).values()
                    if piece.availability.node
                )
            )
        return found

    def _rebuild_pool(self, pool: PoolId, more: tuple[str, ...] | None = ()) -> None:
        for name in dict.fromkeys((*self._nodes(pool), *(self._places if more is None else more))):
            self._rebuild(name)

    def _rebuild(self, name: str) -> None:
        self._views.pop(name, None)
        self._touch(name)

    def _wear(self, changes: Sequence[Change]) -> None:
        names: Iterable[str] = ()
        last: PoolId | None = None
        for pool, _, _, _ in changes:
            if pool is not last:
                last = pool
                more = self._nodes(pool)
                if not names:
                    names = more
                elif names != more:
                    names = dict.fromkeys((*names, *more))
        for name in names:
            if name not in self._worn:
                view = self._views.get(name)
                if view is None or not view.follow(changes, self._ledger):
                    self._worn.add(name)
            self._touch(name)

    def _touch(self, name: str) -> None:
        self._moved[name] = None
        self._log.append(name)
        if len(self._log) > LOG_PER_NODE * (len(self._places) + 64):
            self._log_start += len(self._log)
            self._log.clear()


def _key(piece: Slice) -> str:
    return piece.uid or f"{piece.pool}/{piece.name}"
