"""NamespaceIndex: the namespaces that terms of pod affinity choose by labels.

In: namespaces as they come and go; selections of pods. Out: the same selections with the namespaces that they choose, and whether they select a pod. What was found
is kept, and only namespaces that changed since are compared again. Rules: k8s.io/kubernetes pkg/scheduler/framework/plugins/interpodaffinity.
"""

from collections import OrderedDict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from apportion.allocator.changelog import ChangeLog
from apportion.cluster.changes import most_changes
from apportion.dra.namespace import Namespace
from apportion.dra.pod import Pod
from apportion.dra.podrelations import KnownNamespaces, NamespaceChoice, PodSelection

MOST_KEPT = 8192
"""Choices of which the namespaces are kept: a bit for each namespace."""
_AT_ONCE = 2048
"""Requirements that are compared in one piece, a fifth of a millionth of a second each."""
_MOST_GONE = 1024
"""Numbers of namespaces that are gone and not given to others, if there are more of them than namespaces."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """The namespaces of a choice."""

    seen: int
    """How far the changes of namespaces were read."""
    known: KnownNamespaces


class NamespaceIndex:
    """Namespaces by label."""

    def __init__(self) -> None:
        self._namespaces: dict[str, Namespace] = {}
        """By name."""
        self._by_label: dict[tuple[str, str], dict[str, None]] = {}
        """Their names."""
        self._changes: ChangeLog[str] = ChangeLog()
        self._versions: dict[str, int] = {}
        """By name: how many changes there were when one had its labels."""
        self._numbers: dict[str, int] = {}
        """By name; they grow, so that no namespace has the number of one that is gone."""
        self._next, self._counting = 0, 0
        """The next number, and how often they began anew."""
        self._kept: OrderedDict[NamespaceChoice, _Kept] = OrderedDict()
        """The least recently used first."""
        self._compared = 0
        """Requirements that were compared since others could run."""
        self._asked = False
        """Whether anybody has ever asked for namespaces by their labels."""

    def put(self, old: Namespace | None, new: Namespace | None) -> bool:
        """Replace a namespace; says whether pods may get another answer. `old` None: it is new; `new` None: it is deleted."""
        if old is not None and self._namespaces.get(old.name) is old:
            del self._namespaces[old.name], self._versions[old.name]
            if new is None:
                del self._numbers[old.name]
            for label in old.labels.items():
                del self._by_label[label][old.name]
                if not self._by_label[label]:
                    del self._by_label[label]
        if (found := new or old) is not None:
            self._changes.add(found.name, most=most_changes(len(self._namespaces)))
        if new is not None:
            self._namespaces[new.name], self._versions[new.name] = new, self._changes.end
            if new.name not in self._numbers:
                self._numbers[new.name] = self._next
                self._next += 1
            for label in new.labels.items():
                self._by_label.setdefault(label, {})[new.name] = None
        if self._next > 2 * len(self._numbers) + _MOST_GONE:
            self._numbers = {name: number for number, name in enumerate(self._numbers)}
            self._next, self._counting = len(self._numbers), self._counting + 1
            self._kept.clear()
        return self._asked and new is not None

    def version(self, namespace: str) -> int:
        """Return what changes whenever the labels of a namespace do."""
        return self._versions.get(namespace, 0)

    def selects(self, asked: PodSelection, pod: Pod) -> bool:
        """Say whether a pod is selected; a namespace that was not observed yet has no labels."""
        if not asked.matches(pod.namespace, pod.labels, deleting=pod.deleting):
            return False
        if not asked.chosen:
            return True
        self._asked = True
        labels = self._labels(pod.namespace)
        return all(choice.matches(pod.namespace, labels) for choice in asked.chosen)

    def named(self, asked: PodSelection) -> PodSelection:
        """Return the selection with the namespaces that it chooses, of those that exist."""
        known = []
        for choice in asked.chosen:
            steps = self._known(choice)
            try:
                while True:
                    next(steps)
            except StopIteration as end:
                known.append(end.value)
        return replace(asked, chosen=(), known=tuple(known)) if known else asked

    def steps(self, selections: Iterable[PodSelection]) -> Iterator[None]:
        """Find what `named` returns; yields where others may run."""
        for choice in dict.fromkeys(choice for asked in selections for choice in asked.chosen):
            yield from self._known(choice)

    def _known(self, choice: NamespaceChoice) -> Generator[None, None, KnownNamespaces]:
        """Return the namespaces of a choice as they were at the beginning or are now; yields where others may run."""
        self._asked = True
        kept, counting = self._kept.get(choice), self._counting
        end, changed = self._changes.since(kept.seen if kept is not None else -1)
        mask = kept.known.mask if kept is not None and changed is not None else 0
        bits = bytearray(mask.to_bytes(self._next // 8 + 1, "little"))
        for name in self._around(choice) if changed is None else changed:
            self._compared += 1 + len(choice.labels)
            if self._compared >= _AT_ONCE:
                self._compared = 0
                yield
            number = self._numbers.get(name)
            if number is None or number // 8 >= len(bits):
                continue  # it is gone, or has come meanwhile
            bit = 1 << number % 8
            if choice.matches(name, self._labels(name)):
                bits[number // 8] |= bit
            else:
                bits[number // 8] &= ~bit
        mask = int.from_bytes(bits, "little")
        if counting != self._counting:
            return (yield from self._known(choice))
        known = kept.known if kept is not None and kept.known.mask == mask else None
        known = known or KnownNamespaces(choice.named, mask, counting, self._numbers)
        self._kept[choice] = _Kept(end, known)
        self._kept.move_to_end(choice)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return known

    def _around(self, choice: NamespaceChoice) -> Collection[str]:
        """Return namespaces among which all are that a choice selects by labels: by the rarest label of one value of which they all have one."""
        rows = [
            [self._by_label.get((row.key, value), {}) for value in row.values]
            for row in choice.labels
            if row.operator == "In"
        ]
        if not rows:
            return tuple(self._namespaces)
        return tuple({name for found in min(rows, key=lambda row: sum(map(len, row))) for name in found})

    def _labels(self, namespace: str) -> Mapping[str, str]:
        found = self._namespaces.get(namespace)
        return found.labels if found is not None else {}
