"""`apportion allocate`: run the allocator without a cluster.

In: a world as JSON or YAML (nodes, classes, slices, claims). Out: what each claim would get, or why nothing fits.
Exit status: 0 answered, 2 bad input; a claim whose parameters our agents refuse is bad input, as for the operator.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.explain.render import render
from apportion.allocator.policyterms import ladder_of
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from apportion.allocator.world import FIELDS, World, read_world
from apportion.api.chosendevices import check_suitable, suiting
from apportion.api.claimconfig import as_asked, check_configuration
from apportion.api.meant import meant
from apportion.api.policy import AllocationPolicy
from apportion.cel import Programs
from apportion.cli import document
from apportion.cli.knownfields import check_fields
from apportion.cli.terminal import visible
from apportion.dra.device import DeviceId
from apportion.errors import BrokenInput, UnsuitableConfiguration
from apportion.quota.charge import first_attribute
from apportion.settings import DRIVERS

Answer = dict[str, Any]


def command(
    file: Annotated[Path, typer.Option("-f", "--file", help="The world: JSON or YAML; -: standard input.")],
    strategy: Annotated[
        Strategy | None,
        typer.Option(
            help="How to choose among places that would all do. Default: the policy's, else LeastFragmentation."
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="An AllocationPolicy (YAML): its strategy and its ladder are used. Default: no ladder."
        ),
    ] = None,
    drivers: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Further DRA drivers under whose names agents publish, beside {', '.join(sorted(DRIVERS))}: their"
            " parameters are judged. Separated by commas; may be repeated."
        ),
    ] = None,
    output: document.Output = "table",
    jsonl: Annotated[  # noqa: FBT002 - typer makes a flag of it
        bool, typer.Option("--jsonl", help="One world a line in, one JSON answer a line out, in order.")
    ] = False,
) -> None:
    """Choose devices for the claims of a world, without a cluster."""
    document.require_format(output)
    terms = _terms(policy, strategy)
    programs = Programs()
    ours = DRIVERS | document.names(drivers)
    if jsonl:
        for line in document.lines(file):
            document.write(_answer_line(line, terms, programs, ours))
        return
    try:
        raw = document.load(document.read(file))
        if isinstance(raw, Mapping) and "items" in raw:
            raise BrokenInput("a list of objects is no world; `apportion fit --world` reads it")  # noqa: TRY301 - as what else is wrong with it
        _check_fields(raw)
        world = _as_asked(read_world(raw, programs), ours)
    except BrokenInput as error:
        raise document.refuse(str(error)) from None
    if output == "json":
        try:
            document.write(_answer(world, terms, ours), indent=True)
        except UnsuitableConfiguration as error:
            raise document.refuse(str(error)) from None
        return
    _show(world, terms, ours)


def _check_fields(raw: Any) -> None:
    """Raise BrokenInput for a list that no world has, as `clames`, for a world without claims, and for a field that no claim has."""
    if not isinstance(raw, Mapping):
        return  # what reads it says what is wrong
    for name in raw:
        if name not in FIELDS:
            raise BrokenInput(f"there is no such field{meant(str(name), FIELDS)}", field=str(name))
    claims = raw.get("claims")
    if claims is None:
        raise BrokenInput("a world has a list of claims", field="claims")
    for number, claim in enumerate(claims if isinstance(claims, list) else ()):
        if isinstance(claim, Mapping):
            try:
                check_fields({"kind": "ResourceClaim", **claim})
            except BrokenInput as error:
                raise BrokenInput(error.reason, field=f"claims[{number}].{error.field}") from None


def _as_asked(world: World, drivers: Collection[str]) -> World:
    """Return the world with what the parameters of its claims ask of devices. Raises BrokenInput for parameters that agents refuse."""
    classes = world.state.classes
    for claim in world.demand:
        try:
            check_configuration(claim, classes, drivers)
        except BrokenInput as error:
            raise BrokenInput(f"claim {claim.key}: {error}") from None
    asked = tuple(as_asked(claim, classes, drivers) for claim in world.demand)
    return replace(world, demand=replace(world.demand, claims=asked))


def _terms(file: Path | None, strategy: Strategy | None) -> Terms:
    if file is None:
        return Terms(strategy or Strategy.LEAST_FRAGMENTATION)
    try:
        raw = document.load(document.read(file))
        if not isinstance(raw, Mapping) or raw.get("kind") != "AllocationPolicy":
            raise BrokenInput("this is no AllocationPolicy")  # noqa: TRY301 - as what else is wrong with it
        spec = AllocationPolicy.from_json({"metadata": {"name": file.name}, **raw}).spec
    except BrokenInput as error:
        raise document.refuse(f"--policy {file}: {error}") from None
    return Terms(strategy or Strategy(spec.strategy.value), ladder_of(spec))


def _answer_line(line: bytes, terms: Terms, programs: Programs, drivers: Collection[str]) -> Answer:
    try:
        return _answer(_as_asked(read_world(document.load_line(line), programs), drivers), terms, drivers)
    except BrokenInput as error:
        return _error("fatal", str(error))


def _allocate(world: World, terms: Terms, drivers: Collection[str]) -> Decision | Refusal:
    """Return what the allocator says. Raises BrokenInput, and UnsuitableConfiguration where there are only devices that parameters are not for."""
    found = allocate(world.state, world.demand, terms)
    try:
        _check_suitable(world, found, drivers)
    except UnsuitableConfiguration:
        asked = tuple(suiting(claim, world.state.classes, drivers) for claim in world.demand)
        found = allocate(world.state, replace(world.demand, claims=asked), terms)
        if isinstance(found, Refusal):
            raise
        _check_suitable(world, found, drivers)
    return found


def _check_suitable(world: World, found: Decision | Refusal, drivers: Collection[str]) -> None:
    if isinstance(found, Refusal):
        return
    view = world.state.view(found.node)

    def type_of(device: DeviceId) -> str:
        index = next(each for each in range(len(view.devices)) if view.id_of(each) == device)
        return first_attribute(view.devices[index], ("type",))

    for claim, allocation in zip(world.demand.claims, found.allocations, strict=True):
        try:
            check_suitable(claim, world.state.classes, allocation, drivers, type_of)
        except UnsuitableConfiguration as error:
            reason = BrokenInput(f"claim {claim.key}: {error}")
            raise UnsuitableConfiguration(reason, claim=claim.key) from None


def _answer(world: World, terms: Terms, drivers: Collection[str]) -> Answer:
    """Return the answer in the form of the conformance data. Raises UnsuitableConfiguration."""
    try:
        found = _allocate(world, terms, drivers)
    except UnsuitableConfiguration:
        raise
    except BrokenInput as error:
        return _error("fatal", str(error))
    if isinstance(found, Decision):
        return {
            "kind": "results",
            "node": found.node,
            "results": [allocation.to_json() for allocation in found.allocations],
        }
    explanation = found.explanation.to_json()
    if found.verdict == "node":
        return _error("node", _broken(world)) | {"explanation": explanation}
    answer: Answer = {"kind": "none", "explanation": explanation}
    return answer | ({"budget": True} if found.verdict == "budget" else {})


def _broken(world: World) -> str:
    found = "; ".join(f"{one.object}: {one.field}: {one.reason}" for one in world.state.findings()[:3])
    return f"invalid resource pools were encountered: {found}"


def _error(kind: str, message: str) -> Answer:
    return {"kind": "error", "error": {"kind": kind, "message": message}}


def _show(world: World, terms: Terms, drivers: Collection[str]) -> None:
    console = Console()
    try:
        found = _allocate(world, terms, drivers)
    except BrokenInput as error:
        raise document.refuse(str(error)) from None
    for finding in world.state.findings():
        said = f"left out: {finding.object}: {finding.field}: {finding.reason}"
        console.print(visible(said), markup=False)
    if isinstance(found, Refusal):
        console.print(visible(render(found.explanation)), markup=False, highlight=False, soft_wrap=True)
        return
    title = escape(visible(f"node {found.node}"))
    table = Table("claim", "request", "driver", "pool", "device", "consumed", title=title)
    for claim, allocation in zip(world.demand.claims, found.allocations, strict=True):
        for result in allocation.results:
            amounts = result.consumed.items()
            consumed = ", ".join(f"{name} {amount}" for name, amount in amounts if amount.nano)
            device = result.device
            cells = (claim.key, result.request, device.driver, device.pool, device.name, consumed)
            table.add_row(*(escape(visible(cell)) for cell in cells))
    console.print(table)
