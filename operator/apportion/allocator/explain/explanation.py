"""Explanation: why no node can serve a demand, as a value; `render` makes text of it.

Numbers, names and texts only. One group of nodes per reason; its figures are sums over the nodes of the group.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

RefusalReason: TypeAlias = Literal[
    "nothing",
    "selector",
    "taint",
    "busy",
    "capacity",
    "counters",
    "constraint",
    "together",
    "budget",
    "error",
    "pool",
]
"""What a node lacks first, in the order of the checks: any devices; devices that pass the selectors; without untolerated
taints; not held; with consumable capacity left; with counters left; that satisfy a constraint; for all requests together.
budget: the search ran out of steps. error: a selector failed. pool: broken pools were left out."""
LISTED = 5
"""Holders, taints, counters and values listed at most."""


@dataclass(frozen=True, slots=True)
class Step:
    """One selector, and how many devices passed it and all selectors before it."""

    owner: Literal["class", "request"]
    number: int
    text: str
    passed: int


@dataclass(frozen=True, slots=True)
class Shortage:
    """A counter that is short for devices that pass all other checks."""

    counter: str
    missing: str
    """The least amount missing for one of the devices (a quantity)."""
    devices: int


@dataclass(frozen=True, slots=True)
class RequestReport:
    """How many devices of the nodes pass each check for one request; each count includes only devices that passed the checks before."""

    claim: str
    request: str
    device_class: str
    wanted: int | None
    """Devices asked for; None: all that match."""
    looked: int
    steps: tuple[Step, ...]
    matching: int
    untainted: int
    unheld: int
    roomy: int
    """Devices that are not held and have enough consumable capacity left."""
    free: int
    """Of these, devices whose shared counters suffice."""
    on_one_node: int = 0
    """The most devices of one node that passed the failed check: all devices of a claim come from one node."""
    taints: tuple[tuple[str, int], ...] = ()
    """Untolerated taints, each with its number of devices."""
    holders: tuple[str, ...] = ()
    """Some holders of matching devices, or of the counters of matching devices."""
    shortages: tuple[Shortage, ...] = ()
    unusable: tuple[tuple[str, int], ...] = ()
    """Why matching devices are never allocated there, each reason with its number of devices."""


@dataclass(frozen=True, slots=True)
class ConstraintReport:
    """A constraint that the free devices cannot satisfy."""

    claim: str
    attribute: str
    distinct: bool
    wanted: int
    """Devices that it covers."""
    values: tuple[tuple[str, int], ...]
    """Some values, each with its number of free devices on the nearest node, the most frequent first."""
    without: int
    """Free devices of that node without the attribute."""
    different: int = 0
    """How many values there are."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that cannot serve for the same reason."""

    kind: RefusalReason
    count: int
    nodes: tuple[str, ...]
    """The first few names."""
    request: RequestReport | None = None
    constraint: ConstraintReport | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class NearestMiss:
    """The node and the device that failed the fewest conditions."""

    node: str
    device: str
    """Empty where a constraint over several devices failed."""
    claim: str
    request: str
    missing: tuple[str, ...]
    """The failed conditions, one sentence each."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why no node can serve a demand."""

    claims: tuple[str, ...]
    nodes: int
    """Number of candidate nodes."""
    examined: int
    """Of these, the nodes examined for this explanation."""
    groups: tuple[NodeGroup, ...]
    """The nearest to success first."""
    nearest: NearestMiss | None = None

    def named(self, claims: tuple[str, ...]) -> "Explanation":
        """Return the explanation for other claims that request the same; texts in it must name no claim."""
        if claims == self.claims:
            return self
        new = dict(zip(self.claims, claims, strict=True))
        groups = tuple([
            replace(
                group,
                request=group.request and replace(group.request, claim=new[group.request.claim]),
                constraint=group.constraint and replace(group.constraint, claim=new[group.constraint.claim]),
            )
            for group in self.groups
        ])  # fmt: skip
        nearest = self.nearest and replace(self.nearest, claim=new[self.nearest.claim])
        return replace(self, claims=claims, groups=groups, nearest=nearest)

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without empty fields."""
        plain = _plain(asdict(self))
        return plain if isinstance(plain, dict) else {}


def _plain(value: object) -> object:
    if isinstance(value, dict):
        kept = {_camel(key): _plain(entry) for key, entry in value.items()}
        return {key: entry for key, entry in kept.items() if entry not in (None, "", [], {})}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
