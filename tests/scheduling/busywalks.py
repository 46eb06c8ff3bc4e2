"""Walks through the queue that end early, as those of a busy cluster do."""

from collections.abc import Iterator

from apportion.allocator.preparation import Work
from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.debouncer import Debouncer
from apportion.cluster.kinds import PODS
from apportion.scheduling.cycle import LONGEST, Cycle
from tests.observedcluster import ObservedCluster, request


def waiting(
    world: ObservedCluster, name: str, millis: int, priority: int, team: str = "team", second: int = 0
) -> None:
    """Let a pod wait, since a second of the year, that is like no other one with other millis of a core."""
    since = {"creationTimestamp": f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"}
    world.claim(name, request("gpu"), namespace=team, **since)
    resources = {"requests": {"cpu": f"{millis + 1}m"}}
    spec = {"priority": priority, "containers": [{"name": "main", "resources": resources}]}
    pod = world.pod(name, name, gates=(GATE,), spec=spec, namespace=team)
    pod["metadata"] |= since
    world.see(PODS, pod)


def exhaust(steps: Iterator[Work | None]) -> int:
    """Make the rest of a pass; returns of how many steps it was."""
    made = 0
    for work in steps:
        made += 1
        if work is not None:
            work()
    return made


def once(cycle: Cycle) -> bool:
    """Make one pass as the operator does, of which nothing is written yet; says whether it ended early."""
    exhaust(cycle._pass(longest=LONGEST, evaluates=False))
    return cycle._queue.ended_early


def pressed(world: ObservedCluster, client: Client) -> Cycle:
    """Return a cycle whose walks end early, because something changes all the time."""
    debouncer = Debouncer(quiet=0, longest=0, clock=world.clock)
    debouncer.wake()
    cycle = world.cycle(client, debouncer=debouncer)
    cycle._deciding = True
    return cycle


def refuse(world: ObservedCluster, cycle: Cycle, name: str) -> None:
    """Make passes until one was refused."""
    while name not in dict(world.warned):
        assert once(cycle)
