"""kubelet and agent come and go; the pods that run do not notice, and new ones are served."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from testbed.api import Json
from testbed.eventually import eventually
from testbed.realnode.bed import RealBed
from testbed.realnode.workload import Running, Workload, mig

_WIPING_SECONDS = 30.0
"""After that long without a plugin kubelet deletes the driver's slices (K8S defaultWipingDelay)."""


@pytest.fixture
async def bystander(bed: RealBed, work: Workload) -> AsyncIterator[Running]:
    """Run a pod that must not notice anything: same container, same process, first run, told nothing."""
    seen = await work.run("bystander", mig("1g.10gb"), restart="Always")
    before = bed.node.processes()
    yield seen
    pod = await work.pod("bystander")
    assert _containers(pod) == _containers(seen.pod)
    assert pod["status"]["phase"] == "Running"
    assert before <= bed.node.processes()
    assert bed.node.output(pod)[-1] == "ready"


def _containers(pod: Json) -> list[tuple[str, int]]:
    return [(each["containerID"], each["restartCount"]) for each in pod["status"]["containerStatuses"]]


async def _devices(bed: RealBed) -> set[str]:
    return {device["name"] for each in await bed.slices() for device in each["spec"].get("devices", ())}


async def _slices(bed: RealBed) -> set[str]:
    return {each["metadata"]["uid"] for each in await bed.slices()}


@pytest.mark.parametrize("how", ["told", "killed"])
async def test_kubelet_restarts_beside_a_running_pod(
    bed: RealBed, work: Workload, bystander: Running, how: str
) -> None:
    """Kubelet deletes the node's slices when it starts; they are back, it finds the agent, and the next pod runs."""
    devices, slices = await _devices(bed), await _slices(bed)
    await (bed.node.kubelet.stop() if how == "told" else bed.node.kubelet.kill())
    await bed.node.kubelet.start()
    await eventually(lambda: _slices(bed), lambda found: found and not found & slices)
    await eventually(lambda: _devices(bed), lambda found: found == devices, within=5)
    await work.run("later", mig("1g.10gb"))
    await work.delete("later")


@pytest.mark.parametrize("how", ["told", "killed"])
async def test_the_agent_restarts_beside_a_running_pod(
    bed: RealBed, work: Workload, bystander: Running, how: str
) -> None:
    """A pod that comes while the agent is away waits for it; one that goes meanwhile is unprepared when it is back."""
    slices = await _slices(bed)
    await work.run("leaver", mig("1g.10gb"))
    agent = bed.agents.pop()
    await (agent.stop() if how == "told" else agent.kill())
    await work.create("waiter", mig("1g.10gb"))
    await work.ask_to_go("leaver")
    await asyncio.sleep(1.0)
    assert (await work.pod("waiter"))["status"]["phase"] == "Pending"
    await bed.agent()
    await work.delete("leaver")
    await work.running("waiter")
    assert await _slices(bed) == slices, "kubelet keeps them for a while, and the new agent takes them over"


async def test_an_upgrade_with_two_agents_at_once(bed: RealBed, work: Workload, bystander: Running) -> None:
    """Old and new serve side by side; pods come and go all the time; long after the old one left, the slices are there."""
    old = bed.agents.pop()
    await old.stop()
    first = await bed.agent("pod-1")
    slices = await _slices(bed)
    served = await _while(work, lambda: bed.agent("pod-2"))
    assert served, "a pod ran while there were two"
    await _while(work, first.stop)
    left = time.monotonic()
    for number in range(2):
        await work.run(f"after-{number}", mig("1g.10gb"))
        await work.delete(f"after-{number}")
    await asyncio.sleep(_WIPING_SECONDS + 2 - (time.monotonic() - left))
    assert await _slices(bed) == slices
    await work.run("much-later", mig("1g.10gb"))
    await work.delete("much-later")
    sockets = sorted(path.name for path in (bed.node.cell.library("kubelet") / "plugins_registry").iterdir())
    assert [name for name in sockets if "pod-1" in name] == [], "the old one cleaned up"
    await bed.agents.pop().stop()
    await bed.agent()


async def _while(work: Workload, change: Callable[[], Awaitable[object]]) -> list[Running]:
    """Run and delete pods while something changes; returns what ran."""
    changing = asyncio.ensure_future(change())
    seen: list[Running] = []
    while not changing.done() or not seen:
        name = f"stream-{len(seen)}"
        seen.append(await work.run(name, mig("1g.10gb")))
        await work.delete(name)
    await changing
    return seen
