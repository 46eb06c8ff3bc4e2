"""Victims for a group: what the allocator is asked about its members, all of which get devices, or nobody goes.

In: a group that waits, the nodes with the claims that could be taken back there. Out: the nodes to look at, and what each member asks for there. At most
MOST_TAKEN nodes are looked at from which somebody would have to go, and MOST_OTHERS beside them.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, replace

from apportion.allocator.demand import Demand
from apportion.allocator.devicecount import free_by_node
from apportion.allocator.gang.members import Member
from apportion.allocator.policyterms import terms_of
from apportion.allocator.preemption.findgangvictims import GangVictims, gang_victim_steps
from apportion.allocator.preemption.gangroom import GangMember
from apportion.allocator.preemption.victims import NodeVictims
from apportion.allocator.state import State
from apportion.dra.claim import Claim
from apportion.dra.node import Resources
from apportion.errors import BrokenInput
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.demands.groupladder import ladder_of
from apportion.scheduling.demands.groups import WaitingGroup
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.preemption.preemptor import Preemptor, current_group
from apportion.scheduling.preemption.windows import Window
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.room.neighbours import are_related
from apportion.scheduling.room.obstacles import holds_devices

MOST_TAKEN, MOST_OTHERS = 64, 256


@dataclass(frozen=True, slots=True)
class AskedGroup:
    """A group, and what is asked about each of its members."""

    group: WaitingGroup
    preemptor: Preemptor
    demands: tuple[Demand, ...]
    """Of the members, on the nodes that suit them."""
    among: Collection[str]
    """The nodes that may be looked at."""

    @property
    def nodes(self) -> list[str]:
        """Return the nodes that suit some member."""
        return sorted(frozenset().union(*(each.nodes or () for each in self.demands)))


class MemberNeighbours:
    """The nodes that members of a group leave each other (`allocator.preemption.gangroom.Neighbours`)."""

    def __init__(self, asked: AskedGroup, decider: Decider) -> None:
        self._members = asked.preemptor.members
        self._among = asked.among
        self._candidates = decider.candidates

    def nodes(self, member: int) -> frozenset[str]:
        """Return the nodes that suit a member's pods beside those of the members that are placed."""
        candidates = self._candidates
        capacity, own = candidates.capacity(), self._members[member]
        asked = candidates.ask_with_victims(own, capacity, self._among, holds_devices)
        return (asked.nodes or frozenset()) if asked is not None else frozenset()

    def awaits(self, member: int) -> bool:
        """Say whether a member may have a node only once others have theirs: its pods need company, or are spread."""
        return any(pod.relations.affinity or pod.relations.spread for pod in self._members[member].pods)

    def place(self, member: int, node: str | None) -> None:
        """Count the pods of a member on a node; None: no longer."""
        for pod in self._members[member].pods:
            self._candidates.placed.place(pod, node)


def asked_of(
    preemptor: Preemptor, decider: Decider, capacity: HostCapacity, only: frozenset[str] | None
) -> AskedGroup | None:
    """Return what to ask about a group on the nodes of `only` (None: all); None where it or a member waits for something else, or no node suits it."""
    group = current_group(preemptor.members, decider.snapshot)
    if group is None:
        return None
    nodes = capacity.nodes if only is None else only
    ask = decider.candidates.ask_with_victims
    demands = [ask(member, capacity, nodes, holds_devices) for member in preemptor.members]
    found = tuple(each for each in demands if each is not None)
    return AskedGroup(group, preemptor, found, nodes) if len(found) == len(demands) else None


def looked_at(
    asked: AskedGroup, taken: Collection[str], window: Window, state: State
) -> tuple[list[str], list[str]]:
    """Return the nodes from which somebody may have to go, and others; `window` chooses among the former if there are too many.

    Of too many others those come first that have a free device for some member, from where the former begin on.
    """
    nodes = asked.nodes
    first = window.of([name for name in nodes if name in taken], MOST_TAKEN)
    others = [name for name in nodes if name not in taken]
    if len(others) > MOST_OTHERS:
        at, free = bisect_left(others, first[0]) if first else 0, _with_free_devices(asked.demands, state)
        others = sorted(others[at:] + others[:at], key=lambda name: name not in free)
    return first, others[:MOST_OTHERS]


def _with_free_devices(demands: Sequence[Demand], state: State) -> set[str]:
    """Return the nodes where some demand may find a free device, by counting."""
    found: set[str] = set()
    kinds: dict[object, Demand] = {}
    try:
        for each in demands:
            query = state.queries.of(each.claims, state.classes, state.features, each.tolerations)
            kinds.setdefault((query, each.nodes), each)
        for each in kinds.values():
            free = free_by_node(state, each)
            found.update(each.nodes or () if free is None else [name for name, mask in free.items() if mask])
    except BrokenInput:
        return set()  # the search for victims meets it again
    return found


def victims_of(
    asked: AskedGroup,
    claims: Iterable[Claim],
    nodes: Sequence[str],
    read: Callable[[str], NodeVictims],
    wanted: Callable[[WaitingDemand], Resources],
    decider: Decider,
    pauses: Callable[[], bool],
) -> Generator[None, None, GangVictims | None]:
    """Return victims with which all members are served; `claims`: what they ask for. Raises BrokenInput.

    `read` returns the victims of a node as they are now, `wanted` what the pods of a member want of it; yields where `pauses` says so.
    """
    snapshot = decider.snapshot
    members = [
        GangMember(
            replace(demand, claims=part.asked),
            wanted(member),
            Member(
                len(asked.group.own_pods(member)),
                terms_of(snapshot.managed.policy(member.claims[0])),
                decider.candidates.shape(part),
            ),
        )
        for member, part, demand in zip(
            asked.preemptor.members, asked.preemptor.parts(claims), asked.demands, strict=True
        )
    ]
    policy = snapshot.managed.policy(asked.preemptor.demand.claims[0])
    ladder = ladder_of(asked.group, policy, snapshot)
    related = are_related(pod for member in asked.preemptor.members for pod in member.pods)
    return gang_victim_steps(
        snapshot.state,
        members,
        nodes,
        read,
        ladder=ladder,
        prefer=decider.candidates.idle,
        neighbours=MemberNeighbours(asked, decider) if related else None,
        pauses=pauses,
    )
