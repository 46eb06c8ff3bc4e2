"""`apportion defrag plan`: which pods would have to move so that claims fit, or whole cards are free.

In: a goal: a file of claims, or a number of cards; a cluster, live or from a file. Out: moves in order, with their cost and what is regained. Nothing is moved.
Exit status: 0 a plan, or nothing to do; 1 none, or one for fewer cards than wanted; 2 bad input.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from apportion.allocator.decision import Decision
from apportion.allocator.defrag.moves import FreeCards, Goal, Move, Plan, RoomFor
from apportion.allocator.demand import Demand
from apportion.allocator.policyterms import terms_of
from apportion.allocator.pricing.cutprices import UNIT
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.cli import document
from apportion.cli.answers.copies import CLAIM, copies_of, with_volumes_of
from apportion.cli.answers.decisions import Decisions, Reason, joined
from apportion.cli.answers.fit import plain_reason, say_reason
from apportion.cli.answers.output import NOT_SERVED, Output, require_format, say, show, table
from apportion.cli.world.objects import key_of, objects_of
from apportion.cli.world.options import (
    AddNodes,
    Context,
    Drivers,
    File,
    Kubeconfig,
    Schedulers,
    Source,
    WithoutNode,
    open_world,
)
from apportion.cli.world.world import World
from apportion.cluster.snapshot import Snapshot
from apportion.errors import ApportionError, BrokenInput
from apportion.scheduling.candidates.candidates import TOLERATIONS
from apportion.scheduling.defrag.movables import Movables, movables_of
from apportion.scheduling.defrag.planning import make_plan
from apportion.scheduling.demands.podneeds import total
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.demands.waitingqueue import WaitingQueue

MOST = 256
"""Cards that may be asked for."""

app = typer.Typer(
    help="Make room by moving pods.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def defrag() -> None:
    """Make room by moving pods."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found."""

    plan: Plan | None
    movables: Movables
    reason: Reason | None = None
    """Why moves would not help."""
    cards: int = 0
    """How many more cards are to be free."""

    @property
    def reached(self) -> bool:
        """Whether the plan leads to all of the goal."""
        return self.plan is not None and len(self.plan.cards) >= self.cards


@app.command()
def plan(
    wanted: Annotated[
        Path | None,
        typer.Option(
            "--for",
            help="Make room for the claims, or the one workload, of this file (YAML or JSON); -: standard input.",
        ),
    ] = None,
    free_cards: Annotated[
        int | None, typer.Option(help="Free so many more whole cards.", min=1, max=MOST)
    ] = None,
    most_restarts: Annotated[
        int | None, typer.Option(help="With --free-cards: restart at most so many pods.", min=0)
    ] = None,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Of objects that name none.")
    ] = "default",
    at: Annotated[
        str | None,
        typer.Option(help="The time that ages of pods count to (RFC 3339); default: now."),
    ] = None,
    world: File = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Output = "table",
    without_node: WithoutNode = None,
    add_nodes: AddNodes = None,
    schedulers: Schedulers = None,
    drivers: Drivers = None,
) -> None:
    """Say which pods would have to move, and where to."""
    require_format(output)
    if (wanted is None) == (free_cards is None):
        raise document.refuse("write either --for FILE or --free-cards N")
    if most_restarts is not None and free_cards is None:
        raise document.refuse("--most-restarts goes with --free-cards")
    if wanted is not None and str(wanted) == str(world) == "-":
        raise document.refuse("--for and --world cannot both be standard input")
    try:
        now = datetime.fromisoformat(at).timestamp() if at is not None else time.time()
    except ValueError:
        raise document.refuse(f"--at {at}: not a time such as 2026-01-01T12:00:00Z") from None
    opened = open_world(
        Source(world, kubeconfig, without_node, add_nodes, schedulers, drivers, context=context)
    )
    try:
        if wanted is not None:
            found = room_for(opened, wanted, namespace, now)
        else:
            found = cards_freed(opened, FreeCards(free_cards or 0, most_restarts), now)
    except ApportionError as error:
        raise document.refuse(f"{wanted}: {error}" if wanted is not None else str(error)) from None
    steps = found.plan.moves if found.plan is not None else ()
    names = (pod.key for move in steps for pod in found.movables.pods[move.movable.key])
    show(output, _plain(found), names, lambda console: _draw(console, found, opened.snapshot))
    if not found.reached:
        raise typer.Exit(NOT_SERVED)


def cards_freed(world: World, goal: FreeCards, now: float) -> Answer:
    """Return a plan that frees whole cards."""
    decisions = Decisions(world.snapshot, world.holds)
    movables = movables_of(world.snapshot, decisions.candidates, now, ())
    terms = Terms(Strategy.LEAST_FRAGMENTATION)
    return Answer(_planned(world, movables, goal, terms), movables, cards=goal.count)


def room_for(world: World, file: Path, namespace: str, now: float) -> Answer:
    """Return a plan after which the claims of a file fit. Raises BrokenInput."""
    decisions = Decisions(world.snapshot, world.holds)
    waiting = _asked(world, file, namespace)
    answer = waiting if isinstance(waiting, Reason) else decisions.decide(waiting)
    if isinstance(answer, Decision):
        return Answer(Plan((), answer, proven=True), Movables())
    if isinstance(waiting, Reason) or answer.name != "NotAllocated":
        return Answer(None, Movables(), answer)
    requests = total(waiting.pods) if waiting.pods else {}
    movables = movables_of(world.snapshot, decisions.candidates, now, requests)
    capacity = decisions.candidates.capacity()
    nodes = decisions.candidates.possible(waiting, capacity)
    demand = Demand(waiting.asked, nodes, tolerations=TOLERATIONS, seed=waiting.key)
    terms = terms_of(world.snapshot.managed.policy(waiting.claims[0]))
    found = _planned(world, movables, RoomFor(demand, requests), terms)
    return Answer(found, movables, answer if found is None else None)


def _planned(world: World, movables: Movables, goal: Goal, terms: Terms) -> Plan | None:
    return make_plan(world.snapshot.state, movables.movables, movables.room, goal, terms)


def _asked(world: World, file: Path, namespace: str) -> WaitingDemand | Reason:
    """Put the objects of a file into the world, and return the demand that they make."""
    copies, shared = copies_of(objects_of(file), namespace)
    if len(copies) > 1:
        raise BrokenInput(f"it has {len(copies)} workloads with claims; name one")
    made = [*shared, *(with_volumes_of(each, world.objects) for each in copies[0].make(1))]
    for each in made:
        world.put(each)
    snapshot = world.snapshot
    names = {key_of(each).name for each in made if each["kind"] == CLAIM}
    mine = [
        demand
        for demand in WaitingQueue(snapshot).demands()[0]
        if any(claim.namespace == copies[0].namespace and claim.name in names for claim in demand.claims)
    ]
    if mine:
        return joined(mine)
    return Reason("NotManaged", "apportion serves none of these claims; `apportion fit` says why")


def _plain(found: Answer) -> dict[str, Any]:
    plan = found.plan
    answer: dict[str, Any] = {
        "reached": found.reached,
        "moves": [_plain_move(found, move) for move in plan.moves] if plan is not None else [],
        "leftAlone": dict(found.movables.left_alone),
    }
    if plan is not None:
        answer |= {
            "restarts": plan.pods,
            "cost": plan.cost,
            "value": round(plan.value / UNIT, 4) if plan.value is not None else None,
            "cards": [str(card) for card in plan.cards],
            "proven": plan.proven,
        }
        if plan.served is not None:
            results = [result for each in plan.served.allocations for result in each.results]
            answer["served"] = {
                "node": plan.served.node,
                "devices": [str(result.device) for result in results],
            }
    if found.reason is not None:
        answer["reason"] = plain_reason(found.reason)
    return answer


def _plain_move(found: Answer, move: Move) -> Mapping[str, Any]:
    each = move.movable
    return {
        "pods": [pod.key for pod in found.movables.pods[each.key]],
        "claims": [claim.key for claim in found.movables.claims[each.key]],
        "from": {"node": each.node, "devices": [str(device) for device in each.devices]},
        "to": {"node": move.decision.node, "devices": [str(device) for device in move.devices]},
        "cost": each.cost,
    }


def _draw(console: Console, found: Answer, snapshot: Snapshot) -> None:
    plan = found.plan
    if plan is None:
        say(console, "no moves lead there")
        if found.reason is not None:
            say_reason(console, found.reason, snapshot)
        _say_left_alone(console, found)
        return
    if not plan.moves:
        say(console, "nothing has to move: it fits now")
        return
    rows = [
        (
            step,
            ", ".join(pod.key for pod in found.movables.pods[move.movable.key]),
            f"{move.movable.node}/{_names(device.name for device in move.movable.devices)}",
            f"{move.decision.node}/{_names(device.name for device in move.devices)}",
            move.movable.cost,
        )
        for step, move in enumerate(plan.moves, 1)
    ]
    console.print(table(("step", "pods", "from", "to", "cost"), rows, ("step", "cost")))
    if plan.served is not None:
        results = [result.device.name for each in plan.served.allocations for result in each.results]
        say(console, f"then it fits on {plan.served.node}: {_names(results)}")
    else:
        wanted = f" of {found.cards}" if not found.reached else ""
        free = _names(f"{card.pool}/{card.name}" for card in plan.cards)
        say(console, f"then {len(plan.cards)}{wanted} more whole cards are free: {free}")
    value = "" if plan.value is None else f"; value of what is free: {plan.value / UNIT:+.2f} cards"
    proven = "" if plan.proven else "; fewer may do"
    say(console, f"restarts: {plan.pods}, cost: {plan.cost}{value}{proven}")
    _say_left_alone(console, found)


def _say_left_alone(console: Console, found: Answer) -> None:
    for reason, count in found.movables.left_alone.most_common():
        say(console, f"{count} claims stay: {reason}")


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)
