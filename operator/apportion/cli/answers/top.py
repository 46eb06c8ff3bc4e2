"""`apportion top`: the cluster as it changes.

In: a cluster, live or from a file. Out: on a terminal a picture that is drawn anew every few seconds until Ctrl-C: what is left, the map of
the cards, the demands that have waited longest; elsewhere one such picture. Where the cluster cannot be read for a while the last picture stays, with
the reason. Exit status: 0 shown, 2 bad input, or no cluster at the beginning.
"""

import textwrap
import time
from collections.abc import Sequence
from io import StringIO
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from apportion.cli.answers import free, status
from apportion.cli.answers.cards import cards
from apportion.cli.answers.counts import counts_of
from apportion.cli.answers.left import left_of
from apportion.cli.answers.output import say, table
from apportion.cli.terminal import visible
from apportion.cli.world.options import (
    Context,
    Drivers,
    File,
    Kubeconfig,
    Schedulers,
    Source,
    open_world,
    read_world,
)
from apportion.cli.world.world import World
from apportion.errors import ApportionError
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.demands.waitingqueue import waiting_demands

MOST = 10
"""Demands of the queue that are shown."""


def top(
    world: File = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    interval: Annotated[
        float, typer.Option(help="Seconds between two pictures; each reads the cluster anew.", min=1.0)
    ] = 5.0,
    schedulers: Schedulers = None,
    drivers: Drivers = None,
) -> None:
    """Show what is left, the cards and the queue, again and again; once without a terminal."""
    source = Source(world, kubeconfig, schedulers=schedulers, drivers=drivers, context=context)
    console = Console(soft_wrap=False, highlight=False)
    if not console.is_terminal:
        draw(console, open_world(source))
        return
    try:
        shown, error = open_world(source), ""
        with Live(console=console, auto_refresh=False, screen=True) as live:
            while True:
                live.update(_frame(console, shown, interval, error), refresh=True)
                time.sleep(interval)
                try:
                    shown, error = read_world(source), ""
                except ApportionError as found:
                    error = f"Not read since, which is tried again: {found}"
    except KeyboardInterrupt:
        return


def draw(console: Console, world: World) -> None:
    """Write one picture."""
    snapshot = world.snapshot
    snapshot.state.settle()
    demands, unservable = waiting_demands(snapshot)
    free.draw(console, left_of(snapshot, world.holds), world.holds)
    console.print()
    status.draw(console, [*cards(snapshot, world.holds)], counts_of(snapshot, demands, unservable))
    if demands:
        console.print()
        _draw_queue(console, demands)


def _frame(console: Console, world: World, interval: float, error: str) -> Text:
    """Return one picture that fits the terminal, and how to end it; what does not fit is counted. `error`: why it is not the present one."""
    # A console of its own: what is written to that of the picture on the screen is drawn around it.
    written = StringIO()
    draw(Console(file=written, force_terminal=True, width=console.width, highlight=False), world)
    lines = written.getvalue().splitlines()
    said = textwrap.wrap(visible(error), console.width)
    room = max(1, console.height - 2 - len(said))
    rest = len(lines) - room
    more = f"{rest} more lines: `apportion status` has them. " if rest > 0 else ""
    return Text.from_ansi("\n".join((*lines[:room], *said, f"{more}Every {interval:g} s; Ctrl-C ends it.")))


def _draw_queue(console: Console, demands: Sequence[WaitingDemand]) -> None:
    rows = [
        (
            number,
            ", ".join(pod.key for pod in demand.pods) or "-",
            ", ".join(claim.key for claim in demand.claims),
            ", ".join(sorted({name for claim in demand.claims for name in claim.classes})),
        )
        for number, demand in enumerate(demands[:MOST], 1)
    ]
    console.print(table(("waits", "pod", "claim", "class"), rows, ("waits",)))
    if len(demands) > MOST:
        say(console, f"and {len(demands) - MOST} more")
    say(console, "`apportion why pod NAME` says why one of them waits.")
