"""Goals: what a DefragPolicy wants to be free, as the planner takes it.

In: the policy's `free`, a state. Out: the planner's goal; BrokenInput where it can never be met as it is written, which names the field.
"""

from collections.abc import Iterator

from apportion.allocator.bits import bits
from apportion.allocator.defrag.cards import whole_device
from apportion.allocator.defrag.moves import FreeCards, Goal, RoomFor
from apportion.allocator.demand import Demand
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.node.selection import Selected
from apportion.allocator.state import State
from apportion.api.defrag import ClaimRoom, DefragPolicySpec, WholeCards
from apportion.api.meant import meant
from apportion.cel import Programs
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.deviceclass import DeviceClass
from apportion.errors import BrokenInput, SelectorError
from apportion.scheduling.candidates.candidates import TOLERATIONS

_REQUEST = "defrag"


def check_goal(spec: DefragPolicySpec, classes: dict[str, DeviceClass], programs: Programs) -> None:
    """Raise BrokenInput for what no plan could meet: a class that does not exist, a selector that does not compile, more cards or less time than can be."""
    at, wanted = _wanted(spec)
    if isinstance(wanted, WholeCards) and spec.threshold > wanted.count:
        raise BrokenInput(
            f"no plan is for {spec.threshold} cards, because spec.free.wholeCards.count is {wanted.count}",
            field="spec.threshold",
        )
    if not spec.move_timeout:
        raise BrokenInput("no move would ever end in time within 0s", field="spec.moveTimeout")
    if wanted.device_class not in classes:
        raise BrokenInput(
            f"DeviceClass {wanted.device_class} does not exist{meant(wanted.device_class, classes)}",
            field=f"spec.free.{at}.deviceClass",
        )
    for index, selector in enumerate(wanted.selectors):
        program = programs.get(selector.cel.expression)
        if isinstance(program, SelectorError):
            raise BrokenInput(
                program.reason, field=f"spec.free.{at}.selectors[{index}].cel.expression"
            ) from None


def goal_of(spec: DefragPolicySpec, state: State) -> Goal:
    """Return the goal on a state that has the nodes that count. Raises BrokenInput if no state could meet it as it is written."""
    claim, (_, wanted) = _claim(spec), _wanted(spec)
    if isinstance(wanted, ClaimRoom):
        return RoomFor(Demand((claim,), tolerations=TOLERATIONS, seed=_REQUEST))
    return FreeCards(wanted.count, spec.max_restarts, _selected(state, claim))


def failing(spec: DefragPolicySpec, state: State) -> BrokenInput | None:
    """Return how a selector of the goal fails on devices, of which the first is named; None: it fails on none."""
    at, wanted = _wanted(spec)
    failed = [cause for _, (_, errors) in _passed(state, _claim(spec)) for _, cause in sorted(errors.items())]
    if not failed:
        return None
    first, more = failed[0], len(failed) - 1
    reason = first.reason + (f"; it fails on {more} more" if more else "")
    if first.owner == "class":
        return BrokenInput(
            f"DeviceClass {wanted.device_class}: {reason}", field=f"spec.free.{at}.deviceClass"
        )
    return BrokenInput(reason, field=f"spec.free.{at}.{first.field}.cel.expression")


def selects_cards(state: State, goal: Goal) -> bool:
    """Say whether a device that a goal selects takes a whole card; a goal of another kind selects what it wants."""
    if not isinstance(goal, FreeCards) or goal.among is None:
        return True
    views = [state.view(name) for name in state.names()]
    return any(
        (device := whole_device(view, number, view.base)) is not None and view.id_of(device) in goal.among
        for view in views
        for number in range(len(view.groups))
    )


def _claim(spec: DefragPolicySpec) -> Claim:
    """Return a claim for a device of the goal, or for the devices of one claim."""
    _, wanted = _wanted(spec)
    return Claim.from_json(
        {
            "metadata": {"name": _REQUEST, "namespace": "", "uid": _REQUEST},
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": _REQUEST,
                            "exactly": {
                                "deviceClassName": wanted.device_class,
                                "selectors": [each.to_json() for each in wanted.selectors],
                                "count": wanted.count if isinstance(wanted, ClaimRoom) else 1,
                            },
                        }
                    ]
                }
            },
        }
    )


def _wanted(spec: DefragPolicySpec) -> tuple[str, WholeCards | ClaimRoom]:
    """Return the field's name, and what is in it."""
    if spec.free.room_for is not None:
        return "roomFor", spec.free.room_for
    if spec.free.whole_cards is not None:
        return "wholeCards", spec.free.whole_cards
    raise BrokenInput("exactly one of wholeCards and roomFor is needed", field="spec.free")


def _selected(state: State, claim: Claim) -> frozenset[DeviceId]:
    """Return the devices that the only request of a claim matches."""
    return frozenset(view.id_of(index) for view, (mask, _) in _passed(state, claim) for index in bits(mask))


def _passed(state: State, claim: Claim) -> Iterator[tuple[NodeView, Selected]]:
    """Yield what the selectors of a claim say of the devices of each node, for each alternative."""
    query = state.queries.of((claim,), state.classes, state.features, TOLERATIONS)
    state.settle(query)
    for name in sorted(state.names()):
        view = state.view(name)
        for alternative in query.alternatives:
            yield view, view.selected(alternative, state.selectors)
