"""kubelet and agent come and go; the pods that run do not notice, and new ones are served."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from testbed.api import Json
from testbed.eventually import eventually
from testbed.realnode.installation import POLICIES, RealNodeInstallation
from testbed.realnode.workload import RunningPod, Workload, mig

_WIPING_SECONDS = 30.0
"""After that long without a plugin kubelet deletes the driver's slices (K8S defaultWipingDelay)."""
_CUT = "nvmlDeviceCreateGpuInstanceWithPlacement"
_POLICY = {"apiVersion": "apportion.dev/v1alpha1", "kind": "AllocationPolicy"}


@pytest.fixture
async def bystander(installation: RealNodeInstallation, work: Workload) -> AsyncIterator[RunningPod]:
    """Run a pod that must not notice anything: same container, same process, first run, told nothing."""
    seen = await work.run("bystander", mig("1g.10gb"), restart="Always")
    before = installation.node.processes()
    yield seen
    pod = await work.pod("bystander")
    assert _containers(pod) == _containers(seen.pod)
    assert pod["status"]["phase"] == "Running"
    assert before <= installation.node.processes()
    assert installation.node.output(pod)[-1] == "ready"


def _containers(pod: Json) -> list[tuple[str, int]]:
    return [(each["containerID"], each["restartCount"]) for each in pod["status"]["containerStatuses"]]


async def _devices(installation: RealNodeInstallation) -> set[str]:
    return {
        device["name"] for each in await installation.slices() for device in each["spec"].get("devices", ())
    }


async def _slices(installation: RealNodeInstallation) -> set[str]:
    return {each["metadata"]["uid"] for each in await installation.slices()}


@pytest.mark.parametrize("how", ["told", "killed"])
async def test_kubelet_restarts_beside_a_running_pod(
    installation: RealNodeInstallation, work: Workload, bystander: RunningPod, how: str
) -> None:
    """Kubelet deletes the node's slices when it starts; they are back, it finds the agent, and the next pod runs."""
    devices, slices = await _devices(installation), await _slices(installation)
    await (installation.node.kubelet.stop() if how == "told" else installation.node.kubelet.kill())
    await installation.node.kubelet.start()
    await eventually(lambda: _slices(installation), lambda found: found and not found & slices)
    await eventually(lambda: _devices(installation), lambda found: found == devices)
    await work.run("later", mig("1g.10gb"))
    await work.delete("later")


@pytest.mark.parametrize("how", ["told", "killed"])
async def test_the_agent_restarts_beside_a_running_pod(
    installation: RealNodeInstallation, work: Workload, bystander: RunningPod, how: str
) -> None:
    """A pod that comes while the agent is away waits for it; one that goes meanwhile is unprepared when it is back."""
    slices = await _slices(installation)
    await work.run("leaver", mig("1g.10gb"))
    agent = installation.agents.pop()
    await (agent.stop() if how == "told" else agent.kill())
    await work.create("waiter", mig("1g.10gb"))
    await work.ask_to_go("leaver")
    await asyncio.sleep(1.0)
    assert (await work.pod("waiter"))["status"]["phase"] == "Pending"
    await installation.agent()
    await work.delete("leaver")
    await work.running("waiter")
    assert await _slices(installation) == slices, (
        "kubelet keeps them for a while, and the new agent takes them over"
    )


@pytest.fixture
async def waits_in_kubelet(installation: RealNodeInstallation) -> AsyncIterator[None]:
    """Have pods bound while their partition is still being cut, so that kubelet's call waits for it."""
    api, path = installation.cluster.api, f"{POLICIES}/early"
    spec = {"deviceClasses": {"names": ["mig.apportion.dev"]}, "partitions": {"waitForReady": False}}
    await api.create(POLICIES, {**_POLICY, "metadata": {"name": "early"}, "spec": spec})
    await eventually(lambda: api.get(path), lambda found: found.get("status", {}).get("managedClasses"))
    yield
    await api.delete(path)


@pytest.mark.usefixtures("waits_in_kubelet")
async def test_an_agent_that_ends_finishes_what_kubelet_waits_for(
    installation: RealNodeInstallation, work: Workload, bystander: RunningPod
) -> None:
    """Kubelet drops the call of a plugin that has left, and tries the pod again after a minute."""
    nvml = installation.hardware.nvml
    nvml.hang(_CUT)
    # No other test asks for this profile: an idle partition would be taken without a cut.
    await work.create("waits", mig("3g.40gb"))

    async def claims() -> list[tuple[str, ...]]:
        return installation.journal()["claims"]

    try:
        await eventually(claims, lambda rows: ("waits", "Preparing") in rows)
        ending = asyncio.ensure_future(installation.agents.pop().stop())
        await asyncio.sleep(1.0)
    finally:
        nvml.drop_rules()
    await ending
    # Idle partitions in its way take a second cut, by the same agent.
    cuts = nvml.calls()[_CUT]
    await installation.agent()
    await work.running("waits")
    failures = [each for each in (await work.events("waits")).split("\n") if "Failed to prepare" in each]
    # The API server's node authorizer may hear of a pod after kubelet does (plugin/pkg/auth/authorizer/node); kubelet then asks a second time.
    assert [each for each in failures if "no relationship found between node" not in each] == []
    assert nvml.calls()[_CUT] == cuts, "the next agent has cut nothing"
    await work.delete("waits")


async def test_an_upgrade_with_two_agents_at_once(
    installation: RealNodeInstallation, work: Workload, bystander: RunningPod
) -> None:
    """Old and new serve side by side; pods come and go all the time; long after the old one left, the slices are there."""
    old = installation.agents.pop()
    await old.stop()
    first = await installation.agent("pod-1")
    slices = await _slices(installation)
    served = await _while(work, lambda: installation.agent("pod-2"))
    assert served, "a pod ran while there were two"
    await _while(work, first.stop)
    left = time.monotonic()
    for number in range(2):
        await work.run(f"after-{number}", mig("1g.10gb"))
        await work.delete(f"after-{number}")
    await asyncio.sleep(_WIPING_SECONDS + 2 - (time.monotonic() - left))
    assert await _slices(installation) == slices
    await work.run("much-later", mig("1g.10gb"))
    await work.delete("much-later")
    sockets = sorted(
        path.name for path in (installation.node.host.library("kubelet") / "plugins_registry").iterdir()
    )
    assert [name for name in sockets if "pod-1" in name] == [], "the old one cleaned up"
    await installation.agents.pop().stop()
    await installation.agent()


async def _while(work: Workload, change: Callable[[], Awaitable[object]]) -> list[RunningPod]:
    """Run and delete pods while something changes; returns what ran."""
    changing = asyncio.ensure_future(change())
    seen: list[RunningPod] = []
    while not changing.done() or not seen:
        name = f"stream-{len(seen)}"
        seen.append(await work.run(name, mig("1g.10gb")))
        await work.delete(name)
    await changing
    return seen
