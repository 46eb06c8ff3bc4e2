"""What autoscalers get to see of pods that wait."""

from collections.abc import Callable, Container
from contextlib import nullcontext

from apportion.allocator.finished import finished
from apportion.api.contract import GATE
from apportion.cluster.kinds import PODS
from apportion.dra.pod import UNSCHEDULABLE
from apportion.scheduling.autoscaling.autoscaling import PATIENCE, Autoscaling
from apportion.scheduling.demands.waitingqueue import WaitingQueue
from tests.observedcluster import GPU, Json, ObservedCluster
from tests.scheduling.queued import MODEL

HALF = f'device.attributes["{GPU}"].?profile.orValue("") == "3g.40gb"'
H100, H200 = f'{MODEL} == "h100"', f'{MODEL} == "h200"'


def said(world: ObservedCluster, over: Container[str] = ()) -> Callable[[], dict[str, bool]]:
    """Return what looks at the queue and says which pods autoscalers are to see from now on, or no longer; `over`: demands over their quota."""
    queue = WaitingQueue(world.snapshot)
    autoscaling = Autoscaling(
        world.snapshot, world.clock, over=over, is_evaluated=lambda _: True, lifted=nullcontext
    )

    def look() -> dict[str, bool]:
        queue.demands()
        autoscaling.follow(*queue.news())
        return {pod.name: bool(why) for pod, why in finished(autoscaling.look()).values()}

    return look


def looking(world: ObservedCluster, over: Container[str] = ()) -> Callable[[], set[str]]:
    """Return what looks at the queue and names the pods that autoscalers are to see from now on."""
    look = said(world, over)
    return lambda: {name for name, visible in look().items() if visible}


def shown(world: ObservedCluster, *, after: float = PATIENCE, over: Container[str] = ()) -> set[str]:
    """Return the names of the pods that are shown once they have waited so long; `over`: demands over their quota."""
    look = looking(world, over)
    assert look() == set()
    world.clock.now += after
    return look()


def waits(world: ObservedCluster, name: str, wanted: Json, **spec: object) -> None:
    """Let a gated pod wait."""
    world.claim(name, wanted)
    world.pod(name, name, gates=[GATE], spec=spec)


def seen(world: ObservedCluster, name: str) -> None:
    """Let condition PodScheduled of a gated pod say Unschedulable."""
    raw = world.pod(name, name, gates=[GATE])
    world.see(PODS, raw | {"status": {"conditions": [{"type": "PodScheduled", "reason": UNSCHEDULABLE}]}})


def hold(world: ObservedCluster, name: str, node: str, *devices: str) -> None:
    world.allocate(world.claim(name), node, *devices)
