"""Autoscaling: pods that wait for a node that is not there, and that cluster autoscalers are to see as unschedulable.

In: the demands that wait, their policies, which of them a quota keeps waiting, the clock. Out: pods, with the reason, and without one those that are no
longer to be seen. An autoscaler goes by condition PodScheduled, and kube-scheduler does not try a pod behind a gate. So the condition is ours to write, and
the gate stays: thousands of pods that nothing can serve would let kube-scheduler try them again and again, and nobody else.
The pods of a group are shown together: with the one that no node could serve, or where all nodes together have too little for enough of them.
"""

from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import islice, takewhile
from typing import TypeAlias

from apportion.allocator.gang.count import MOST_KINDS
from apportion.api.contract import GATE
from apportion.api.policy import Autoscale
from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod
from apportion.scheduling.autoscaling.emptynodes import EmptyNodes, Shape
from apportion.scheduling.autoscaling.shownpods import ShownPods
from apportion.scheduling.autoscaling.unanswered import Unanswered
from apportion.scheduling.demands.groups import group_of
from apportion.scheduling.demands.waiting import WaitingDemand, ready

PATIENCE = 10.0
"""Seconds for which a demand waits before anybody asks: an agent that starts anew has no slices for a moment."""
_REPEATED = 10.0
"""Seconds after which all is asked anew, if nodes or slices changed."""
_AT_ONCE = 64
"""Demands that are looked at in one pass."""
_LONGEST = 0.1
"""Seconds after which a look begins no further question: each walks through all nodes, and a tenant may have thousands of shapes."""
_TOGETHER = 1.0
"""Seconds for which nobody asks again about a group: its pods come and change one after the other, and each question counts all of them."""
NOTHING_FITS = (
    "no node of the cluster could serve this pod even if everything were free: autoscalers see it as unschedulable; when a node with such"
    " devices comes, it gets them"
)
FULL = (
    "the pod has waited for devices: its policy lets autoscalers see it as unschedulable (spec.queue.autoscale: WhenFull); it gets devices"
    " when some are free, or a node with such devices comes"
)

_Group: TypeAlias = tuple[str, str]
"""Namespace and name."""


class Autoscaling:
    """Follows the demands whose pods have our gate."""

    def __init__(
        self,
        snapshot: Snapshot,
        clock: Callable[[], float],
        *,
        over: Container[str],
        is_evaluated: Callable[[WaitingDemand], bool],
        lifted: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`over`: demands (keys) that a quota keeps waiting: no node would help them. `is_evaluated`, `lifted`: as `EmptyNodes` has them."""
        self._snapshot = snapshot
        self._clock = clock
        self._over, self._empty = over, EmptyNodes(snapshot, clock, is_evaluated, lifted)
        self._young: dict[str, tuple[float, WaitingDemand]] = {}
        """Demands by key, with the time since which they wait; the oldest first."""
        self._young_of: Counter[_Group] = Counter()
        """How many of them belong to a group."""
        self._full: dict[str, WaitingDemand] = {}
        """Those that are seen as long as they wait, by key."""
        self._alike: dict[Shape, dict[str, WaitingDemand]] = {}
        """Those that were looked at, by what decides the answer and by key."""
        self._groups: dict[_Group, dict[str, WaitingDemand]] = {}
        """Those of them that belong to one pod group, by group and by key."""
        self._shapes: dict[str, Shape] = {}
        """By key of a demand."""
        self._nowhere: set[Shape] = set()
        """Those that no node could serve, when it was asked last."""
        self._pods = ShownPods(snapshot, clock)
        self._found: dict[str, tuple[Pod, str]] = {}
        """What `look` has found so far, as it returns it: where it is given up, the next one returns that, too."""
        self._unanswered, self._unanswered_groups = Unanswered[Shape](), Unanswered[_Group](_TOGETHER)
        self._asked: tuple[float, tuple[int, int]] = float("-inf"), (-1, -1)
        """When everything was asked last, and in which epoch of nodes and slices."""
        self._compared = float("-inf")
        """When it was last looked which of those that were looked at a quota keeps waiting."""

    def follow(self, gone: Iterable[str], came: Iterable[WaitingDemand]) -> None:
        """Note the demands that went or changed (by key), and those that came or changed."""
        now, since = self._clock(), dict[str, float]()
        for key in gone:
            young = self._grown(key)
            if young is not None:
                since[key] = young[0]
            self._drop(key)
        for demand in came:
            if any(GATE in pod.gates for pod in demand.pods) and demand.key not in self._young:
                self._wait(demand, since.get(demand.key, now))

    def look(self) -> Generator[None, None, dict[str, tuple[Pod, str]]]:
        """Return the pods that autoscalers are to see from now on, by UID, with the reason, and without one those that they are not to see any more.

        Yields between nodes and demands that are asked about. Asks for a part of a pass, of each namespace in turn; the next look goes on.
        """
        now = self._clock()
        self._found |= self._looked_at(now)
        if now - self._compared >= _REPEATED:
            self._compared = now
            self._within_quota([each for row in (self._full, *self._alike.values()) for each in row.values()])
        at, epoch = self._asked
        if now - at >= _REPEATED and epoch != self._empty.epoch:
            self._asked = now, self._empty.epoch
            firsts = ((shape, next(iter(alike.values()))) for shape, alike in self._alike.items())
            self._unanswered.add((shape, first.claims[0].namespace) for shape, first in firsts)
            self._unanswered_groups.add((group, group[0]) for group in self._groups)
        self._unanswered_groups.wake(now)
        while self.go_on:
            if (shape := self._unanswered.turn()) is not None:
                yield from self._ask(shape)
            if (group := self._unanswered_groups.turn()) is not None:
                yield from self._ask_together(group)
            yield
            if self._clock() - now >= _LONGEST:
                break
        found, self._found = self._found, {}
        return self._pods.news(found)

    @property
    def go_on(self) -> bool:
        """Whether the next look goes on with what this one has not asked."""
        return bool(self._unanswered or self._unanswered_groups)

    def _ask(self, shape: Shape) -> Generator[None, None, None]:
        """Ask about the demands of a shape."""
        alike = self._alike.get(shape, {})
        asked = [each for each in alike.values() if self._mode(each) is Autoscale.WHEN_NOTHING_FITS]
        served = (yield from self._empty.could_serve(asked[0], shape[0])) if asked else 1
        if served is None:
            self._put_off(asked)
        else:
            (self._nowhere.discard if served else self._nowhere.add)(shape)
            self._found |= self._answer(asked, nowhere=not served)
        self._unanswered.discard(shape)

    def _ask_together(self, group: _Group) -> Generator[None, None, None]:
        """Ask about a group, or first about a shape of its demands, so that its next turn knows more."""
        asked = list(self._groups.get(group, {}).values())
        shapes = (self._shapes[each.key] for each in asked)
        if (shape := next((each for each in shapes if each in self._unanswered), None)) is not None:
            yield from self._ask(shape)
            return
        if asked == self._within_quota(asked):
            lack = yield from self._lack(group, asked)
            if lack:
                self._found |= self._shown(asked, lack)
            elif group not in self._young_of and not self._hopeless(asked):
                # One that is young was shown a moment ago, perhaps: what it says about the group is not known.
                self._found |= self._hidden(asked)
        self._unanswered_groups.answered(group, self._clock())

    def _looked_at(self, now: float) -> dict[str, tuple[Pod, str]]:
        """Look for the first time at demands that have waited; returns what follows at once."""
        found = dict[str, tuple[Pod, str]]()
        old = takewhile(lambda row: now - row[1][0] >= PATIENCE, self._young.items())
        for key, (_, demand) in tuple(islice(old, _AT_ONCE)):
            self._grown(key)
            mode, shape = self._mode(demand), self._empty.shape(demand)
            if key in self._over or mode is Autoscale.NEVER:
                # It may be seen: it lacked a node and nothing else, or its policy said otherwise.
                found |= self._hidden([demand])
            if key in self._over:
                self._wait(demand, now)
            elif mode is Autoscale.WHEN_FULL:
                found |= self._shown([demand], FULL)
                self._full[key] = demand
            elif shape is not None:
                self._put(demand, shape)
                if shape not in self._unanswered and mode is Autoscale.WHEN_NOTHING_FITS:
                    found |= self._answer([demand], nowhere=shape in self._nowhere)
        return found

    def _hopeless(self, demands: Iterable[WaitingDemand]) -> bool:
        """Say whether no node could serve one of the demands, or that is unknown."""
        return any(self._shapes.get(each.key) in (None, *self._nowhere) for each in demands)

    def _answer(self, demands: Sequence[WaitingDemand], *, nowhere: bool) -> dict[str, tuple[Pod, str]]:
        """Return what follows for demands of one shape from whether no node could serve it; of a group others may decide, too."""
        if nowhere:
            return self._shown(self._within_quota(demands), NOTHING_FITS)
        return self._hidden(each for each in demands if not _groups_of(each))

    def _put(self, demand: WaitingDemand, shape: Shape) -> None:
        """Remember what decides about a demand."""
        self._shapes[demand.key] = shape
        if shape not in self._alike:
            self._unanswered.add([(shape, demand.claims[0].namespace)])
        self._alike.setdefault(shape, {})[demand.key] = demand
        for group in _groups_of(demand):
            self._groups.setdefault(group, {})[demand.key] = demand
            self._unanswered_groups.add([(group, group[0])])

    def _drop(self, key: str) -> None:
        """Forget what decides about a demand."""
        self._full.pop(key, None)
        shape = self._shapes.pop(key, None)
        if shape is None:
            return
        demand = self._alike[shape].pop(key)
        if not self._alike[shape]:
            del self._alike[shape]
            self._nowhere.discard(shape)
            self._unanswered.discard(shape)
        for group in _groups_of(demand):
            del self._groups[group][key]
            if not self._groups[group]:
                del self._groups[group]
                self._unanswered_groups.discard(group)

    def _mode(self, demand: WaitingDemand) -> Autoscale:
        return self._snapshot.managed.policy(demand.claims[0]).queue.autoscale

    def _within_quota(self, demands: Iterable[WaitingDemand]) -> list[WaitingDemand]:
        """Return the demands that no quota keeps waiting; the others are looked at again later."""
        asked = list(demands)
        self._put_off(each for each in asked if each.key in self._over)
        return [each for each in asked if each.key not in self._over]

    def _put_off(self, demands: Iterable[WaitingDemand]) -> None:
        """Look at demands again when they have waited once more."""
        now = self._clock()
        for each in demands:
            self._drop(each.key)
            self._wait(each, now)

    def _wait(self, demand: WaitingDemand, since: float) -> None:
        """Look at a demand when it has waited."""
        self._young[demand.key] = since, demand
        self._young_of.update(_groups_of(demand))

    def _grown(self, key: str) -> tuple[float, WaitingDemand] | None:
        """Forget that a demand is to wait; returns since when it does."""
        young = self._young.pop(key, None)
        for group in _groups_of(young[1]) if young is not None else ():
            self._young_of[group] -= 1
            if not self._young_of[group]:
                del self._young_of[group]
        return young

    def _lack(self, group: _Group, demands: Sequence[WaitingDemand]) -> Generator[None, None, str]:
        """Say what the nodes lack for a group though everything were free; empty: nothing, as far as one knows."""
        if not demands or any(self._mode(each) is not Autoscale.WHEN_NOTHING_FITS for each in demands):
            return ""
        state = group_of(demands[0].members[group[1]], self._snapshot)
        if state is None or state.flaw:
            return ""
        waiting = {pod.uid for demand in demands for pod in demand.pods}
        # Those behind our gate that have not waited long enough get nothing without the others, either.
        enough = state.least - sum(pod.uid not in waiting and GATE not in pod.gates for pod in state.pods)
        kinds: dict[Shape, list[WaitingDemand]] = {}
        for demand in demands:
            kinds.setdefault(self._shapes[demand.key], []).append(demand)
        if not 0 < enough <= len(waiting) or len(kinds) > MOST_KINDS:
            return ""
        room = 0
        for shape, alike in kinds.items():
            served = yield from self._empty.could_serve(alike[0], shape[0], len(alike))
            if served is None:
                self._put_off(demands)
                return ""
            room += served * len(alike[0].pods)
            if room >= enough:
                return ""
            yield
        return (
            f"the nodes of the cluster have room for {room} of the {enough} pods that group {state.key} needs together, even if everything were"
            " free: autoscalers see its pods as unschedulable; when nodes with such devices come, they get them"
        )

    def _shown(self, demands: Iterable[WaitingDemand], why: str) -> dict[str, tuple[Pod, str]]:
        """Return the pods of demands that wait behind our gate alone, with those of their groups: none of these starts without the others."""
        pods: dict[str, Pod] = {}
        groups: dict[_Group, Pod] = {}
        for demand in demands:
            if all(self._snapshot.allocation(claim) is None for claim in demand.claims):
                pods |= {pod.uid: pod for pod in demand.pods}
                groups |= {group: demand.members[group[1]] for group in _groups_of(demand)}
        for pod in groups.values():
            group = group_of(pod, self._snapshot)
            pods |= {each.uid: each for each in group.pods} if group is not None else {}
        return {uid: (pod, why) for uid, pod in pods.items() if GATE in pod.gates and ready(pod)}

    def _hidden(self, demands: Iterable[WaitingDemand]) -> dict[str, tuple[Pod, str]]:
        """Return the pods of demands that autoscalers see, or will see once what was said of them is written."""
        pods = (pod for demand in demands for pod in demand.pods)
        return {pod.uid: (pod, "") for pod in pods if self._pods.is_seen(pod)}


def _groups_of(demand: WaitingDemand) -> list[_Group]:
    """Return the groups of a demand's pods."""
    return [(pod.namespace, name) for name, pod in demand.members.items()]
