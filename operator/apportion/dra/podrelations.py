"""What a pod asks of the pods beside it: required affinity and anti-affinity, spread, host ports (core/v1).

In: metadata and spec of a Pod. Out: frozen values. Preferences are left to kube-scheduler.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_

from apportion.dra import reading
from apportion.dra.reading import Json
from apportion.dra.selection import Requirement

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ANY = frozenset({"", "0.0.0.0"})  # noqa: S104 - compared, not bound to
"""Of IPv6, `::` is an address like others to kube-scheduler (`HostPortInfo`)."""


@dataclass(frozen=True, slots=True)
class NamespaceChoice:
    """Namespaces by name and, beside these, by their labels (`namespaceSelector`)."""

    named: frozenset[str]
    labels: tuple[Requirement, ...]
    """At least one."""

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Say whether a namespace with these labels is one of them."""
        return namespace in self.named or all(row.matches(labels.get(row.key)) for row in self.labels)


@dataclass(frozen=True, slots=True)
class KnownNamespaces:
    """Namespaces that were chosen, as bits: thousands of choices of thousands of namespaces are kept."""

    named: frozenset[str]
    mask: int
    """Which of the numbers have been chosen by their labels."""
    counting: int
    """Who has which number."""
    numbers: Mapping[str, int] = field(compare=False, repr=False)
    """By name of a namespace."""

    def __contains__(self, namespace: str) -> bool:
        """Say whether a namespace is one of them."""
        number = self.numbers.get(namespace)
        return namespace in self.named or (number is not None and bool(self.mask >> number & 1))

    def __len__(self) -> int:
        """Return about how many there are."""
        return len(self.named) + self.mask.bit_count()

    def __iter__(self) -> Iterator[str]:
        """Yield their names."""
        yield from self.named
        yield from (name for name in self.numbers if name not in self.named and name in self)


@dataclass(frozen=True, slots=True)
class PodSelection:
    """Pods of some namespaces with some labels."""

    namespaces: frozenset[str] | None
    """None: all."""
    labels: tuple[Requirement, ...] | None
    """None: no pod."""
    terminating: bool = True
    """Whether it selects pods that are being deleted."""
    chosen: tuple[NamespaceChoice, ...] = ()
    """Of those namespaces the ones that each of these has: `NamespaceIndex` knows which."""
    known: tuple[KnownNamespaces, ...] = ()
    """The same, once they are known."""

    def matches(self, namespace: str, labels: Mapping[str, str], *, deleting: bool = False) -> bool:
        """Say whether it selects a pod, or would if what it has `chosen` had the pod's namespace."""
        if self.labels is None or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        if deleting and not self.terminating:
            return False
        for each in self.known:
            if namespace not in each:
                return False
        return all(requirement.matches(labels.get(requirement.key)) for requirement in self.labels)

    def __and__(self, other: "PodSelection") -> "PodSelection":
        """Select the pods that both select."""
        if self.labels is None or other.labels is None:
            return replace(self, labels=None)
        both = [each.namespaces for each in (self, other) if each.namespaces is not None]
        namespaces = frozenset.intersection(*both) if both else None
        return PodSelection(namespaces, (*self.labels, *other.labels), chosen=(*self.chosen, *other.chosen))


@dataclass(frozen=True, slots=True)
class VolumeUse:
    """Pods of a namespace that use any of some PersistentVolumeClaims."""

    namespace: str
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodTerm:
    """One required term of pod affinity or anti-affinity: same value of a node's label as selected pods."""

    topology_key: str
    pods: PodSelection


@dataclass(frozen=True, slots=True)
class Spread:
    """One topology spread constraint that must hold (`whenUnsatisfiable: DoNotSchedule`)."""

    topology_key: str
    pods: PodSelection
    most_skew: int
    least_domains: int = 1
    any_affinity: bool = False
    """Whether nodes count that the pod's selector or affinity excludes (`nodeAffinityPolicy: Ignore`)."""
    any_taint: bool = True
    """Whether nodes count whose taints the pod does not tolerate (`nodeTaintsPolicy: Ignore`, the default)."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a container takes."""

    protocol: str
    address: str
    port: int


def conflict(some: Iterable[HostPort], others: Iterable[HostPort]) -> bool:
    """Say whether a node cannot have all of them: two have the same protocol and port, and the same address, or one of them any."""
    addresses: dict[tuple[str, int], set[str]] = {}
    for each in some:
        addresses.setdefault((each.protocol, each.port), set()).add(each.address)
    for each in others:
        taken = addresses.get((each.protocol, each.port))
        if taken and (each.address in taken or each.address in _ANY or not taken.isdisjoint(_ANY)):
            return True
    return False


@dataclass(frozen=True, slots=True)
class PodRelations:
    """All of it."""

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    ports: tuple[HostPort, ...] = ()

    @property
    def selections(self) -> tuple[PodSelection, ...]:
        """Return which pods count where this one goes, those with ports aside."""
        apart = [term.pods for term in self.anti_affinity]
        company = [self.company] if self.affinity else []
        return (*company, *apart, *[spread.pods for spread in self.spread if spread.pods.labels])

    @property
    def looks(self) -> int:
        """Return how often all nodes are looked at for it: once for a term of affinity or anti-affinity, and some four times for a spread."""
        return len(self.affinity) + len(self.anti_affinity) + 4 * len(self.spread)

    @property
    def company(self) -> PodSelection:
        """Return which pods match all terms of affinity, of which there are some."""
        return reduce(and_, (term.pods for term in self.affinity))

    @classmethod
    def from_json(cls, namespace: str, spec: Json) -> "PodRelations":
        """Read a pod's spec; raises BrokenInput naming the field."""
        affinity = reading.table(spec, "affinity", at="spec")
        return cls(
            tuple(_terms(affinity, "podAffinity", namespace)) if affinity else (),
            tuple(_terms(affinity, "podAntiAffinity", namespace)) if affinity else (),
            tuple(_spreads(spec, namespace)) if spec.get("topologySpreadConstraints") else (),
            tuple(_ports(spec)),
        )


def _terms(affinity: Json, kind: str, namespace: str) -> Iterator[PodTerm]:
    at = f"spec.affinity.{kind}"
    for path, row in reading.rows(reading.table(affinity, kind, at="spec.affinity"), _REQUIRED, at=at):
        named = frozenset(reading.words(row, "namespaces", at=path))
        chosen = label_selector(row, "namespaceSelector", at=path)
        choices = (NamespaceChoice(named, chosen),) if chosen else ()
        namespaces = None if chosen is not None else named or frozenset({namespace})
        pods = PodSelection(namespaces, _labels(row, path), chosen=choices)
        yield PodTerm(reading.text(row, "topologyKey", at=path), pods)


def _spreads(spec: Json, namespace: str) -> Iterator[Spread]:
    for path, row in reading.rows(spec, "topologySpreadConstraints", at="spec"):
        if row.get("whenUnsatisfiable") == "DoNotSchedule":
            yield Spread(
                reading.text(row, "topologyKey", at=path),
                # A pod that is being deleted counts no more (podtopologyspread, `countPodsMatchSelector`): on a lost node it stays.
                PodSelection(frozenset({namespace}), _labels(row, path), terminating=False),
                reading.number(row, "maxSkew", at=path, default=1),
                reading.number(row, "minDomains", at=path, default=1),
                any_affinity=row.get("nodeAffinityPolicy") == "Ignore",
                any_taint=row.get("nodeTaintsPolicy") != "Honor",
            )


def with_ports(spec: Json) -> Iterator[tuple[str, Json]]:
    """Yield the containers whose ports the node has to have, each with its path: those that run as long as the pod (k8s.io/kubernetes pkg/scheduler/util, `GetHostPorts`).

    Init containers that end before the others start are not among them, those with restartPolicy Always (sidecars) are.
    """
    for path, row in reading.rows(spec, "initContainers", at="spec"):
        if row.get("restartPolicy") == "Always" and "ports" in row:
            yield path, row
    for path, row in reading.rows(spec, "containers", at="spec"):
        if "ports" in row:
            yield path, row


def _ports(spec: Json) -> Iterator[HostPort]:
    for path, container in with_ports(spec):
        for at, row in reading.rows(container, "ports", at=path):
            port = reading.number(row, "hostPort", at=at, default=0)
            if port:
                protocol = reading.text(row, "protocol", at=at, default="TCP")
                yield HostPort(protocol, reading.text(row, "hostIP", at=at, default=""), port)


def _labels(row: Json, at: str) -> tuple[Requirement, ...] | None:
    return label_selector(row, "labelSelector", at=at)


def label_selector(row: Json, name: str, *, at: str) -> tuple[Requirement, ...] | None:
    """Read a label selector (meta/v1) in the field of this name: absent (None) selects nothing, empty everything."""
    if row.get(name) is None:
        return None
    path = reading.join(at, name)
    selector = reading.table(row, name, at=at)
    equal = reading.table(selector, "matchLabels", at=path)
    found = [Requirement(key, "In", (str(value),)) for key, value in sorted(equal.items())]
    found += [
        Requirement.from_json(each, where)
        for where, each in reading.rows(selector, "matchExpressions", at=path)
    ]
    return tuple(found)
