"""Goals: what a DefragPolicy wants to be free, as the planner takes it.

In: the policy's `free`, a state. Out: the planner's goal; BrokenInput where it can never be met as it is written, which names the field.
"""

from apportion.allocator.bits import bits
from apportion.allocator.defrag.moves import FreeCards, Goal, RoomFor
from apportion.allocator.demand import Demand
from apportion.allocator.state import State
from apportion.api.defrag import ClaimRoom, DefragPolicySpec, WholeCards
from apportion.cel import Programs
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.deviceclass import DeviceClass
from apportion.errors import BrokenInput, SelectorError
from apportion.scheduling.candidates import TOLERATIONS

_REQUEST = "defrag"


def check_goal(spec: DefragPolicySpec, classes: dict[str, DeviceClass], programs: Programs) -> None:
    """Raise BrokenInput for a class that does not exist, and for a selector that does not compile."""
    at, wanted = _wanted(spec)
    if wanted.device_class not in classes:
        raise BrokenInput(
            f"DeviceClass {wanted.device_class} does not exist", field=f"spec.free.{at}.deviceClass"
        )
    for index, selector in enumerate(wanted.selectors):
        program = programs.get(selector.cel.expression)
        if isinstance(program, SelectorError):
            raise BrokenInput(
                program.reason, field=f"spec.free.{at}.selectors[{index}].cel.expression"
            ) from None


def goal_of(spec: DefragPolicySpec, state: State) -> Goal:
    """Return the goal on a state that has the nodes that count. Raises BrokenInput if no state could meet it as it is written."""
    _, wanted = _wanted(spec)
    claim = Claim.from_json(
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
    if isinstance(wanted, ClaimRoom):
        return RoomFor(Demand((claim,), tolerations=TOLERATIONS, seed=_REQUEST))
    return FreeCards(wanted.count, spec.max_restarts, _selected(state, claim))


def _wanted(spec: DefragPolicySpec) -> tuple[str, WholeCards | ClaimRoom]:
    """Return the field's name, and what is in it."""
    if spec.free.room_for is not None:
        return "roomFor", spec.free.room_for
    if spec.free.whole_cards is not None:
        return "wholeCards", spec.free.whole_cards
    raise BrokenInput("exactly one of wholeCards and roomFor is needed", field="spec.free")


def _selected(state: State, claim: Claim) -> frozenset[DeviceId]:
    """Return the devices that the only request of a claim matches."""
    query = state.queries.of((claim,), state.classes, state.features, TOLERATIONS)
    state.settle(query)
    found: set[DeviceId] = set()
    for name in state.names():
        view = state.view(name)
        for alternative in query.alternatives:
            mask, _ = view.selected(alternative, state.selectors)
            found.update(view.id_of(index) for index in bits(mask))
    return frozenset(found)
