"""`apportion migrate`: rehearse the move from device plugins to claims; nothing is ever written.

In: workloads, of a file or of a cluster; the cluster, live or from a file. Out: what each asks for today, which claims it would ask for,
where it would fit now, what blocks it; as a table, JSON, or YAML to apply. Exit status: 0 all would be served, 1 something would not fit, 2 bad input.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from apportion.cli import document
from apportion.cli.migrateclaims import Plan, plan, to_apply, with_own_templates
from apportion.cli.migratefit import Fit, Rehearsal
from apportion.cli.migrateworkloads import KINDS, WORKLOADS, Workload, workloads_of
from apportion.cli.terminal import visible
from apportion.cli.world.live import read_live
from apportion.cli.world.objects import as_stored, contents_of, objects_of
from apportion.cli.world.options import FROM_A_FILE, Context, Kubeconfig, keep_quiet
from apportion.cli.world.world import World
from apportion.cluster.snapshot import Snapshot
from apportion.dra.reading import Json
from apportion.errors import ApportionError, BrokenInput

_OUTPUTS = ("table", "json", "yaml")


def migrate(
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", help="Workloads (YAML or JSON); -: standard input."),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "-n", "--namespace", help="The workloads of this namespace; with -f: of objects without one."
        ),
    ] = None,
    everywhere: Annotated[  # noqa: FBT002 - typer makes a flag of it
        bool, typer.Option("-A", "--all-namespaces", help="The workloads of all namespaces.")
    ] = False,
    world: Annotated[Path | None, typer.Option("--world", "--cluster", help=FROM_A_FILE)] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Annotated[
        str, typer.Option("-o", "--output", help="table, json, or yaml: templates and workloads to apply.")
    ] = "table",
    dry_run: Annotated[  # noqa: FBT002, ARG001 - typer makes a flag of it; there is no other way
        bool, typer.Option("--dry-run", help="As always: nothing is written.")
    ] = True,
) -> None:
    """Show what workloads written for device plugins would ask for by claims, and where they would fit."""
    if output not in _OUTPUTS:
        raise document.refuse(f"-o {output}: there are {', '.join(_OUTPUTS)}")
    if sum((file is not None, everywhere, file is None and namespace is not None)) != 1:
        raise document.refuse("give one of -f FILE, -n NAMESPACE, -A")
    if str(file) == "-" and str(world) == "-":
        raise document.refuse("-f and --world cannot both be standard input")
    keep_quiet()
    try:
        snapshot, workloads = _read(file, namespace, world, kubeconfig, context)
        classes = snapshot.managed.extended_resources
        managed = {name: found for name, found in classes.items() if found in snapshot.managed.policies}
        plans = with_own_templates([*_plans(workloads, managed, whole=file is not None)])
        rehearsal = Rehearsal(snapshot)
        fits = [rehearsal.place(each) for each in plans]
    except ApportionError as error:
        raise document.refuse(str(error)) from None
    if file is not None and not workloads:
        raise document.refuse(f"{file}: no workload in it; these are read: {', '.join(KINDS)}")
    {"table": _table, "json": _json, "yaml": _yaml}[output](plans, fits)
    if not all(each.served for each in fits):
        raise typer.Exit(1)


def _plans(workloads: Iterable[Workload], classes: Mapping[str, str], *, whole: bool) -> Iterator[Plan]:
    """Yield what workloads would ask for. One that cannot be read is left out by name, of a cluster: it is one tenant's; `whole`: raises BrokenInput."""
    for each in workloads:
        try:
            found = plan(each, classes)
        except BrokenInput as error:
            if whole:
                raise
            typer.echo(f"left out: {visible(str(error))}", err=True)
            continue
        if found is not None:
            yield found


def _read(
    file: Path | None,
    namespace: str | None,
    world: Path | None,
    kubeconfig: Path | None,
    context: str | None,
) -> tuple[Snapshot, list[Workload]]:
    try:
        own = objects_of(file) if file is not None else []
        given = list(workloads_of(own, namespace or "default"))
    except BrokenInput as error:
        raise BrokenInput(str(error), field=str(file)) from None
    if world is not None:
        objects, version, _ = contents_of(world)
        snapshot = _snapshot(objects, version)
        if file is None:
            found = workloads_of(as_stored(each) for each in objects if each.get("kind") in KINDS)
            return snapshot, [each for each in found if namespace in (None, each.namespace)]
    else:
        asked = WORKLOADS if file is None else ()
        (objects, version, _), live = read_live(kubeconfig, asked, namespace or "", context)
        snapshot = _snapshot(objects, version)
        given += workloads_of(live)
    return snapshot, given


def _snapshot(objects: Iterable[Json], version: str) -> Snapshot:
    """Return what is known of a cluster; objects that cannot be read are named on standard error."""
    world = World(objects, version)
    for found in world.unreadable():
        typer.echo(f"left out: {visible(str(found))}", err=True)
    return world.snapshot


def _table(plans: Sequence[Plan], fits: Sequence[Fit]) -> None:
    console = Console()
    if not plans:
        console.print("no workload asks for devices of a device plugin")
        return
    table = Table("workload", "pods", "asks for", "by claims", "fits", "what blocks it")
    for each, fit in zip(plans, fits, strict=True):
        asks = "\n".join(f"{ask.container}: {ask.resource} {ask.count}" for ask in each.asks)
        claims = "\n".join(
            " ".join((ask.device_class, f"x{ask.count}", *ask.selectors)) if ask.device_class else "-"
            for ask in each.asks
        )
        places = "\n".join(f"{node}: {count}" for node, count in sorted(fit.nodes.items())) or "-"
        notes = [f"note: {ask.resource} {ask.note}" for ask in each.asks if ask.note and ask.device_class]
        blocked = "\n".join((*fit.blocked, *notes))
        cells = (each.workload.key, str(fit.wanted), asks, claims, places, blocked)
        table.add_row(*(escape(visible(cell)) for cell in cells))
    console.print(table)
    served = sum(fit.served for fit in fits)
    console.print(f"{served} of {len(fits)} workloads would be served now, one after the other as listed.")


def _json(plans: Sequence[Plan], fits: Sequence[Fit]) -> None:
    found = [_plain(each, fit) for each, fit in zip(plans, fits, strict=True)]
    document.write({"workloads": found}, indent=True)


def _plain(found: Plan, fit: Fit) -> Mapping[str, Any]:
    workload = found.workload
    return {
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
        "path": ".".join(map(str, workload.path)),
        "pods": fit.wanted,
        "asks": [
            {
                "container": ask.container,
                "resource": ask.resource,
                "count": ask.count,
                "claim": ask.claim,
                "template": found.template_name(ask) if ask.device_class else None,
                "deviceClass": ask.device_class or None,
                "selectors": list(ask.selectors),
                "note": ask.note,
            }
            for ask in found.asks
        ],
        "nodes": dict(fit.nodes),
        "blocked": list(fit.blocked),
        "served": fit.served,
    }


def _yaml(plans: Sequence[Plan], fits: Sequence[Fit]) -> None:
    """Print what to apply; a workload that cannot be moved as a whole is a comment."""
    for each, fit in zip(plans, fits, strict=True):
        for reason in fit.blocked:
            typer.echo(visible(f"# {each.workload.key}: {' '.join(reason.split())}"))
    for found in to_apply(plans):
        typer.echo(f"---\n{yaml.safe_dump(found, sort_keys=False)}", nl=False)
