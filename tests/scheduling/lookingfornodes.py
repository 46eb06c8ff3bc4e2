"""What autoscalers get to see of pods that wait."""

from collections.abc import Callable, Container
from contextlib import nullcontext

from apportion.api.contract import GATE
from apportion.scheduling.autoscaling import PATIENCE, Autoscaling
from apportion.scheduling.waitingqueue import WaitingQueue
from tests.observedcluster import GPU, Json, ObservedCluster
from tests.scheduling.queued import MODEL

HALF = f'device.attributes["{GPU}"].?profile.orValue("") == "3g.40gb"'
H100, H200 = f'{MODEL} == "h100"', f'{MODEL} == "h200"'


def looking(world: ObservedCluster, over: Container[str] = ()) -> Callable[[], set[str]]:
    """Return what looks at the queue and names the pods that lose their gate; `over`: demands over their quota."""
    queue = WaitingQueue(world.snapshot)
    autoscaling = Autoscaling(world.snapshot, world.clock, over=over, lifted=nullcontext)

    def look() -> set[str]:
        queue.demands()
        autoscaling.follow(*queue.news())
        found = autoscaling.look()
        while True:
            try:
                next(found)
            except StopIteration as end:
                return {pod.name for pod, _ in end.value.values()}

    return look


def shown(world: ObservedCluster, *, after: float = PATIENCE, over: Container[str] = ()) -> set[str]:
    """Return the names of the pods that lose their gate once they have waited so long; `over`: demands over their quota."""
    look = looking(world, over)
    assert look() == set()
    world.clock.now += after
    return look()


def waits(world: ObservedCluster, name: str, wanted: Json, **spec: object) -> None:
    """Let a gated pod wait."""
    world.claim(name, wanted)
    world.pod(name, name, gates=[GATE], spec=spec)


def hold(world: ObservedCluster, name: str, node: str, *devices: str) -> None:
    world.allocate(world.claim(name), node, *devices)
