"""Plans for large clusters: what is in the way goes where the allocator sends it.

In: a replay on a state with all that may move, a goal. Out: the moves, on the replay, and what they lead to. Nobody makes room for those who move, so a plan
may be missed or be longer than the shortest; what is found is right, because the allocator has decided every step.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from apportion.allocator.decision import Decision
from apportion.allocator.defrag.cards import Card
from apportion.allocator.defrag.moves import FreeCards, Movable, RoomFor
from apportion.allocator.defrag.refusedcards import RefusedCards
from apportion.allocator.defrag.replay import Replay
from apportion.allocator.preemption.findvictims import find_victims
from apportion.allocator.preemption.nodesearch import Budget, NodeSearch
from apportion.allocator.preemption.victims import NodeVictims, Victim
from apportion.allocator.terms import Terms

MOST_BOUNDS = 1024
"""Nodes of which a plan for a demand looks at what would have to go at least."""
MOST_NODES = 128
"""Those of them, the best first, for which it looks at who could go where."""
MOST_SETS = 8
"""Sets of those in the way that it looks at on a node: the next ones spare who found no place."""
ROOM = "defrag:room"
"""Key of what is kept for the demand."""
_MOST_COST = (1 << 40) - 1
"""Costs beyond it count as it: a victim's weight has so much place for them."""


def free_cards(replay: Replay, found: Sequence[Card], goal: FreeCards, terms: Terms) -> list[Card]:
    """Free the cards of which the fewest pods have to go; return those that are free then and were not."""
    for card in found:
        if card.free:
            replay.keep(card.key, card.holds)
    rest = sorted(
        (card for card in found if not card.free), key=lambda card: (card.pods, card.cost, card.device)
    )
    # All that are to be free are kept free from the start: otherwise those of one move to the next one.
    chosen = deque(_affordable(rest, goal))
    for card in chosen:
        replay.keep(card.key, card.holds)
    freed: list[Card] = []
    while chosen:
        card = chosen.popleft()
        asked = _in_order(replay, card.movables)
        while (staying := _move_all(replay, asked, terms)) is not None and chosen:
            # Who finds no place finds one perhaps where the dearest of the others was to be free.
            replay.let_go(chosen.pop().key)
        if staying is None:
            freed.append(card)
        else:
            replay.let_go(card.key)
    refused = RefusedCards(replay.state, terms)
    for card in rest:
        spent = sum(move.movable.pods for move in replay.moved)
        if len(freed) >= goal.count or (goal.most_pods is not None and spent + card.pods > goal.most_pods):
            break
        if (
            card in freed
            or _received(replay, card)
            or refused.cover(asked := _in_order(replay, card.movables))
        ):
            continue
        replay.keep(card.key, card.holds)
        if _move_all(replay, asked, terms, refused) is None:
            freed.append(card)
            refused.forget()
        else:
            replay.let_go(card.key)
    return freed


def _affordable(rest: Sequence[Card], goal: FreeCards) -> Iterator[Card]:
    """Yield the first cards, as many as are wanted and as the budget is enough for."""
    spent = 0
    for card in rest[: goal.count]:
        spent += card.pods
        if goal.most_pods is not None and spent > goal.most_pods:
            return
        yield card


def room_for(replay: Replay, movables: Sequence[Movable], goal: RoomFor, terms: Terms) -> Decision | None:
    """Make room for a demand on the node where the fewest pods have to go; return what it gets then."""
    state, demand = replay.state, goal.demand
    by_node: dict[str, list[Movable]] = {}
    for each in movables:
        by_node.setdefault(each.node, []).append(each)
    by_key = {each.key: each for each in movables}
    allowed = by_node.keys() if demand.nodes is None else by_node.keys() & demand.nodes
    nodes = [_node_victims(name, by_node[name], replay) for name in sorted(allowed)[:MOST_BOUNDS]]
    bounds: list[tuple[tuple[int, int], int]] = []
    for number, node in enumerate(nodes):
        bound = NodeSearch(state, demand, node, goal.requests, Budget(0)).bound()
        if bound is not None:
            bounds.append((bound, number))
    best: tuple[int, int] | None = None
    """Weight of those in the way, and the node by its position."""
    for (_, least), number in sorted(bounds)[:MOST_NODES]:
        if best is not None and least >= best[0]:
            break
        if _room_on(replay, nodes[number], by_key, goal, terms) is not None:
            moved = {move.movable.key for move in replay.moved}
            weight = sum(each.weight for each in nodes[number].victims if each.key in moved)
            best = min(best or (weight, number), (weight, number))
            _undo(replay, nodes[number].node, goal)
    return _room_on(replay, nodes[best[1]], by_key, goal, terms) if best is not None else None


def _room_on(
    replay: Replay, node: NodeVictims, by_key: Mapping[str, Movable], goal: RoomFor, terms: Terms
) -> Decision | None:
    """Make room on one node."""
    for _ in range(MOST_SETS):
        found = find_victims(replay.state, goal.demand, [node], wanted=goal.requests, terms=terms)
        if found is None:
            return None
        kept = tuple(result for each in found.decision.allocations for result in each.results)
        replay.keep(ROOM, kept)
        replay.take(found.node, goal.requests)
        staying = _move_all(replay, _in_order(replay, [by_key[each.key] for each in found.victims]), terms)
        if staying is None:
            return found.decision
        _undo(replay, node.node, goal)
        node = replace(node, victims=tuple(each for each in node.victims if each.key != staying.key))
    return None


def _undo(replay: Replay, node: str, goal: RoomFor) -> None:
    replay.back(0)
    replay.take(node, {name: -amount for name, amount in goal.requests.items()})
    replay.let_go(ROOM)


def _node_victims(name: str, movables: Sequence[Movable], replay: Replay) -> NodeVictims:
    victims = tuple(
        Victim(each.key, 0, each.pods, min(each.cost, _MOST_COST), each.holds, each.requests)
        for each in movables
    )
    left: Mapping[str, int] | None = replay.room.get(name)
    return NodeVictims(name, victims, left=_Plenty() if left is None else left)


class _Plenty(dict[str, int]):
    """More of every resource than anybody requests."""

    def get(self, _name: str, _default: int = 0) -> int:  # type: ignore[override]
        return 1 << 62


def _in_order(replay: Replay, movables: Sequence[Movable]) -> list[Movable]:
    """Return those that have not moved yet, the large ones first: they have fewer places."""
    moved = {move.movable.key for move in replay.moved}
    return sorted(
        (each for each in movables if each.key not in moved),
        key=lambda each: (-_size(replay, each), each.key),
    )


def _move_all(
    replay: Replay, asked: Sequence[Movable], terms: Terms, refused: RefusedCards | None = None
) -> Movable | None:
    """Move all of them, one after the other; or none, and return the one that finds no place, which `refused` takes note of."""
    before = len(replay.moved)
    for number, each in enumerate(asked):
        if replay.move(each, terms, nodes=replay.state.names().keys()) is None:
            if refused is not None:
                refused.note(asked[: number + 1])
            replay.back(before)
            return each
    return None


def _size(replay: Replay, movable: Movable) -> int:
    view, size = replay.state.view(movable.node), 0
    for device in movable.devices:
        index = view.find(device)
        if index is not None and index in view.group_of:
            group, local = view.group_of[index]
            size += view.groups[group].group_type.weights[local]
    return size


def _received(replay: Replay, card: Card) -> bool:
    """Say whether something has moved to a card: nobody moves twice."""
    group = replay.state.view(card.node).groups[card.group]
    return any(
        move.decision.node == card.node
        and (index := replay.state.view(card.node).find(device)) is not None
        and group.mask >> index & 1
        for move in replay.moved
        for device in move.devices
    )
