"""The members of a gang: one demand each, and what is asked and answered about them."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.terms import DEFAULT_TERMS, Terms


class MemberDemands(Protocol):
    """The demands of the members, each beside the pods of the members that are served already."""

    def of(self, member: int) -> Demand | None:
        """Return a member's demand; None: no node fits its pods."""

    def serve(self, member: int, node: str) -> None:
        """Count the pods of a member on the node that serves it."""

    def release(self, member: int) -> None:
        """Count the pods of a served member no longer."""

    def room(self, member: int, node: str) -> int:
        """Return for how many members like this one a node has room, devices aside; at most."""

    def awaits(self, member: int) -> bool:
        """Say whether a member may have a node only once others have theirs: its pods need company, or are spread."""

    def lost(self) -> Collection[int]:
        """Return the served members whose nodes cannot take their pods any more, after others could change things."""


@dataclass(frozen=True, slots=True)
class Member:
    """One demand of a gang."""

    pods: int = 1
    """Number of pods that the demand serves."""
    terms: Terms = DEFAULT_TERMS
    kind: object = None
    """Equal for members that request the same, so that any of them could stand for another; None: like no other."""


@dataclass(frozen=True, slots=True)
class GangServed:
    """Enough members can be served."""

    decisions: tuple[Decision | None, ...]
    """Per member, in the order given; None for a member left out because enough others are served."""


@dataclass(frozen=True, slots=True)
class GangRefused:
    """Too few members can be served; none is."""

    member: int
    """The first member refused when they are tried in the order given."""
    refusal: Refusal | None
    """Its refusal; None: no node fits its pods."""
    served: int
    """Pods that could be served in that try."""


@dataclass(frozen=True, slots=True)
class DeviceShortage:
    """Fewer devices are free than the members need together; none was tried."""

    needed: int
    """The fewest devices with which enough members could be served."""
    free: int
    """Free devices that some member could be allocated."""


@dataclass(frozen=True, slots=True)
class DomainShortage:
    """No domain can take enough members, which have to be in one."""

    labels: tuple[str, ...]
    """Keys of the node labels: nodes with equal values of all of them are one domain."""
    domain: tuple[str, ...]
    """The values of the domain that could take the most pods; empty: no node has these labels."""
    room: int
    """Pods that it could take."""


GangAnswer: TypeAlias = GangServed | GangRefused | DomainShortage
