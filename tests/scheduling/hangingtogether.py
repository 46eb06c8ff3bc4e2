"""Pods and claims that hang together, because pods share claims."""

from apportion.api.contract import GATE
from tests.observedcluster import ObservedCluster


def chain(world: ObservedCluster, count: int) -> None:
    """Each pod names its claim and that of the next one."""
    for number in range(count + 1):
        world.claim(f"c{number}")
    for number in range(count):
        world.pod(f"p{number}", f"c{number}", f"c{number + 1}", gates=(GATE,))


def star(world: ObservedCluster, count: int) -> None:
    """Each pod names its own claim and one that all name."""
    world.claim("c0")
    for number in range(count):
        world.claim(f"c{number + 1}")
        world.pod(f"p{number}", f"c{number + 1}", "c0", gates=(GATE,))
