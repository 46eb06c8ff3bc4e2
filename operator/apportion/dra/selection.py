"""Node selection: on which nodes slices, devices and pods may be used.

In: v1 `NodeSelector` and the node fields of ResourceSlices and devices. Out: a value that matches nodes or not. Semantics:
k8s.io/component-helpers nodeaffinity; terms are ORed, requirements ANDed, an empty term matches nothing, matchFields accepts
metadata.name only.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from apportion.dra import reading
from apportion.dra.reading import Json
from apportion.errors import BrokenInput

NAME_FIELD = "metadata.name"
OPERATORS = frozenset(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
"""What `Requirement.operator` may be (core/v1 `NodeSelectorOperator`)."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a label, or on the node's name."""

    key: str
    operator: str
    """In, NotIn, Exists, DoesNotExist, Gt, Lt."""
    values: tuple[str, ...] = ()
    _found: Collection[str] = field(init=False, repr=False, compare=False)
    """The values as they are looked up."""

    def __post_init__(self) -> None:
        """Hash many values once: they may be the names of all hosts, and each node, or pod, is looked up among them."""
        object.__setattr__(self, "_found", self.values if len(self.values) < 8 else frozenset(self.values))

    @classmethod
    def from_json(cls, raw: Json, at: str) -> "Requirement":
        """Read one of `matchExpressions` or `matchFields`; raises BrokenInput, also for an operator that only a newer release knows."""
        operator = reading.text(raw, "operator", at=at)
        if operator not in OPERATORS:
            raise BrokenInput(f"unknown operator {operator!r}", field=reading.join(at, "operator"))
        return cls(reading.text(raw, "key", at=at), operator, reading.words(raw, "values", at=at))

    def matches(self, found: str | None) -> bool:
        """Say whether a label of this value (None: no such label) satisfies the condition."""
        match self.operator:
            case "In":
                return found is not None and found in self._found
            case "NotIn":
                return found is None or found not in self._found
            case "Exists":
                return found is not None
            case "DoesNotExist":
                return found is None
            case "Gt" | "Lt":
                if found is None or len(self.values) != 1:
                    return False
                left, right = reading.int64(found), reading.int64(self.values[0])
                if left is None or right is None:
                    return False
                return left > right if self.operator == "Gt" else left < right
            case _:
                raise BrokenInput(f"unknown operator {self.operator!r}", field=self.key)

    def to_json(self) -> dict[str, object]:
        """Write it as the API does."""
        raw: dict[str, object] = {"key": self.key, "operator": self.operator}
        if self.values:
            raw["values"] = list(self.values)
        return raw


@dataclass(frozen=True, slots=True)
class Term:
    """Requirements that must all hold."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Say whether the node satisfies every requirement; an empty term matches nothing."""
        if not self.labels and not self.fields:
            return False
        # Each term is compared with each node: a loop takes half as long as a generator.
        for row in self.labels:
            if not row.matches(labels.get(row.key)):
                return False
        return not self.fields or all(row.key == NAME_FIELD and row.matches(name) for row in self.fields)

    def to_json(self) -> dict[str, object]:
        """Write it as the API does."""
        raw: dict[str, object] = {}
        if self.labels:
            raw["matchExpressions"] = [r.to_json() for r in self.labels]
        if self.fields:
            raw["matchFields"] = [r.to_json() for r in self.fields]
        return raw


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Terms of which one must hold (core/v1 `NodeSelector`)."""

    terms: tuple[Term, ...]

    @classmethod
    def from_json(cls, raw: Json, at: str = "") -> "NodeSelector":
        """Read a node selector; raises BrokenInput for fields of a wrong type."""
        return cls(
            tuple(term_from_json(term, path) for path, term in reading.rows(raw, "nodeSelectorTerms", at=at))
        )

    @classmethod
    def of_name(cls, name: str) -> "NodeSelector":
        """Select exactly one node, in the only form that `associated-node` authorization accepts."""
        return cls((Term(fields=(Requirement(NAME_FIELD, "In", (name,)),)),))

    @property
    def only_name(self) -> str | None:
        """The node's name, if this selector can match one node by name only."""
        if len(self.terms) == 1:
            for requirement in self.terms[0].fields:
                if requirement.operator == "In" and len(requirement.values) == 1:
                    return requirement.values[0]
        return None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Say whether some term holds for the node."""
        return any(term.matches(name, labels) for term in self.terms)

    def to_json(self) -> dict[str, object]:
        """Write it as the API does."""
        return {"nodeSelectorTerms": [term.to_json() for term in self.terms]}


def term_from_json(raw: Json, at: str = "") -> Term:
    """Read one term of a node selector."""
    return Term(
        labels=_requirements(raw, "matchExpressions", at), fields=_requirements(raw, "matchFields", at)
    )


def _requirements(raw: Json, key: str, at: str) -> tuple[Requirement, ...]:
    return tuple(Requirement.from_json(row, path) for path, row in reading.rows(raw, key, at=at))


@dataclass(frozen=True, slots=True)
class Availability:
    """On which nodes a slice or a device is available: exactly one of the fields is set, or none (nowhere)."""

    node: str | None = None
    everywhere: bool = False
    selector: NodeSelector | None = None
    per_device: bool = False
    """Slices only: every device has an availability of its own (`perDeviceNodeSelection`)."""

    @classmethod
    def from_json(cls, raw: Json, at: str = "") -> "Availability":
        """Read nodeName, allNodes, nodeSelector, perDeviceNodeSelection."""
        selector = reading.table(raw, "nodeSelector", at=at)
        return cls(
            node=reading.text(raw, "nodeName", at=at, default="") or None,
            everywhere=reading.flag(raw, "allNodes", at=at),
            selector=NodeSelector.from_json(selector, reading.join(at, "nodeSelector")) if selector else None,
            per_device=reading.flag(raw, "perDeviceNodeSelection", at=at),
        )

    def covers(self, name: str, labels: Mapping[str, str]) -> bool:
        """Say whether the node is among them; False for `per_device`, where the devices decide."""
        if self.node is not None:
            return self.node == name
        return self.everywhere or (self.selector is not None and self.selector.matches(name, labels))
