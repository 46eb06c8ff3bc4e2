"""`apportion why`: why a claim or pod waits, and what would make it fit; or why it is where it is.

In: the name of a claim or pod; a cluster, live or from a file. Out: the reason in one word and in the words of the operator's Event, the
nodes by what they lack, the nearest miss, and changes each of which would be enough. Exit status: 0 it is served or would be now, 1 it is
not, or is not there, 2 bad input.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console

from apportion.allocator.decision import Decision
from apportion.cli.answers.decisions import Decisions, Reason
from apportion.cli.answers.fit import plain_reason, say_reason
from apportion.cli.answers.knownfields import meant
from apportion.cli.answers.output import NOT_SERVED, Output, require_format, say, show, table
from apportion.cli.answers.remedies import Remedies, Remedy
from apportion.cli.answers.situation import Situation, claim_situation, pod_situation
from apportion.cli.world.options import (
    AddNodes,
    Drivers,
    File,
    Kubeconfig,
    Schedulers,
    Source,
    WithoutNode,
    open_world,
)
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim


class What(StrEnum):
    """What can be asked about."""

    CLAIM = "claim"
    POD = "pod"


def why(
    what: Annotated[What, typer.Argument(help="claim or pod.")],
    name: Annotated[str, typer.Argument(help="Its name, or NAMESPACE/NAME.")],
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="Its namespace.")] = "default",
    world: File = None,
    kubeconfig: Kubeconfig = None,
    output: Output = "table",
    without_node: WithoutNode = None,
    add_nodes: AddNodes = None,
    schedulers: Schedulers = None,
    drivers: Drivers = None,
) -> None:
    """Say why a claim or pod waits and what would help, or why it is where it is."""
    require_format(output)
    if "/" in name:
        namespace, name = name.split("/", 1)
    opened = open_world(Source(world, kubeconfig, without_node, add_nodes, schedulers, drivers))
    decisions = Decisions(opened.snapshot)
    situation = _situation(opened.snapshot, decisions, what, namespace, name)
    title = f"{what.value} {namespace}/{name}"
    if situation.demand is None and situation.reason is None:
        _show_served(output, title, situation.claims, opened.snapshot)
        return
    reason = situation.reason
    remedies: list[Remedy] = []
    if situation.demand is not None:
        answer = decisions.decide(situation.demand)
        if isinstance(answer, Decision):
            reason = Reason(
                "Fits",
                f"it fits on node {answer.node} now, so the operator is about to decide, or pauses after a failure",
            )
        else:
            reason = answer
            remedies = [*Remedies(opened, decisions, situation.demand, answer).find()]
    if reason is not None:
        _show_waiting(output, title, reason, remedies)


def _situation(snapshot: Snapshot, decisions: Decisions, what: What, namespace: str, name: str) -> Situation:
    if what is What.CLAIM:
        claim = snapshot.claim(namespace, name)
        if claim is not None:
            return claim_situation(snapshot, decisions, claim)
        known = [each.name for each in snapshot.claims.values() if each.namespace == namespace]
    else:
        pods = [each for each in snapshot.pods.values() if each.namespace == namespace]
        for pod in pods:
            if pod.name == name:
                return pod_situation(snapshot, decisions, pod)
        known = [each.name for each in pods]
    typer.echo(f"error: there is no {what.value} {namespace}/{name}{meant(name, known)}", err=True)
    raise typer.Exit(NOT_SERVED)


def _show_waiting(output: str, title: str, reason: Reason, remedies: Sequence[Remedy]) -> None:
    found: dict[str, Any] = {"object": title, "served": False, **plain_reason(reason)}
    found["remedies"] = [{"remedy": each.name, "message": each.text, "node": each.node} for each in remedies]

    def draw(console: Console) -> None:
        say(console, f"{title} waits")
        say_reason(console, reason)
        if remedies:
            say(console, "each of these by itself would make it fit:")
            for each in remedies:
                say(console, f"- {each.name}: {each.text} (on {each.node})")
        elif reason.name != "Fits":
            say(console, "nothing that was tried would make it fit")

    show(output, found, [reason.name], draw)
    if reason.name != "Fits":
        raise typer.Exit(NOT_SERVED)


def _show_served(output: str, title: str, claims: Sequence[Claim], snapshot: Snapshot) -> None:
    rows = [row for claim in claims for row in _devices(claim, snapshot)]

    def draw(console: Console) -> None:
        say(console, f"{title} is served")
        shown = [(row["node"], row["claim"], row["request"], row["device"]) for row in rows]
        console.print(table(("node", "claim", "request", "device"), shown))
        for text in dict.fromkeys(
            f"allocated by {row['allocatedBy']}; strategy {row['strategy']}"
            + (f" of AllocationPolicy {row['policy']}" if row["policy"] != "-" else "")
            for row in rows
        ):
            say(console, text)

    show(
        output,
        {"object": title, "served": True, "devices": rows},
        dict.fromkeys(row["node"] for row in rows),
        draw,
    )


def _devices(claim: Claim, snapshot: Snapshot) -> list[dict[str, str]]:
    allocation = claim.allocation
    own = [name for each in claim.classes if (name := snapshot.managed.policy_names.get(each))]
    return [
        {
            "claim": claim.key,
            "request": result.request,
            "device": str(result.device),
            "node": (allocation.node if allocation is not None else None) or "-",
            "allocatedBy": claim.allocated_by or "-",
            "strategy": snapshot.managed.policy(claim).strategy.value,
            "policy": own[0] if own else "-",
        }
        for result in (allocation.results if allocation is not None else ())
    ]
