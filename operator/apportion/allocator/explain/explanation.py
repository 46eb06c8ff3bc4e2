"""Why there is no solution: a value, rendered elsewhere (`explain_text`).

In and out: nothing but numbers, names and texts. One group per reason; figures are sums over the nodes of a group.
"""

from dataclasses import asdict, dataclass
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
"""What a node lacked first, in the order in which it is looked for: devices at all; devices that pass the selectors;
untainted ones; free ones; with capacity, with counters; with an agreeing attribute; for all requests at once.
budget: the search gave up. error: a selector failed. pool: broken pools were left out."""


@dataclass(frozen=True, slots=True)
class Step:
    """One selector, and how many of the devices that came to it passed."""

    owner: Literal["class", "request"]
    number: int
    text: str
    passed: int


@dataclass(frozen=True, slots=True)
class Shortage:
    """A counter that is short for devices that would do otherwise."""

    counter: str
    missing: str
    """The amount missing where least is missing (a quantity)."""
    devices: int


@dataclass(frozen=True, slots=True)
class RequestReport:
    """How far the devices of the nodes came for one request; every count is of those that passed the steps before."""

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
    """Of those not held: with enough consumable capacity left."""
    free: int
    """Of those: with enough left in the shared counters."""
    on_one_node: int = 0
    """The most that passed the step that failed on one node; a claim's devices all come from one."""
    taints: tuple[tuple[str, int], ...] = ()
    """Untolerated taints with the devices that have them."""
    holders: tuple[str, ...] = ()
    """Some of those who hold matching devices, or the counters of matching devices."""
    shortages: tuple[Shortage, ...] = ()


@dataclass(frozen=True, slots=True)
class ConstraintReport:
    """A constraint that the free devices cannot satisfy."""

    claim: str
    attribute: str
    distinct: bool
    wanted: int
    """Devices that it covers."""
    values: tuple[tuple[str, int], ...]
    """Values with the free devices that hold them, on the nearest node, the most frequent first."""
    without: int
    """Free devices there without the attribute."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that refused for the same reason."""

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
    """Empty where no single device is to blame: a constraint among several."""
    claim: str
    request: str
    missing: tuple[str, ...]
    """What it failed, one sentence each."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why no node can serve a demand."""

    claims: tuple[str, ...]
    nodes: int
    """Nodes that were candidates."""
    examined: int
    """Of those, looked at for this explanation."""
    groups: tuple[NodeGroup, ...]
    """The nearest to success first."""
    nearest: NearestMiss | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without empty fields."""
        found = _plain(asdict(self))
        return found if isinstance(found, dict) else {}


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
