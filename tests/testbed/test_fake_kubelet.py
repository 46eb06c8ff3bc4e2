"""The fake kubelet against a small real plugin, the stock scheduler and the stock controllers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.node import NodeShape
from testbed.nodes import simulated_nodes
from tests.testbed.kubeletnode import SLICES, KubeletNode
from tests.testbed.smallplugin import DRIVER, SmallPlugin

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
WIPING_SECONDS = 1.5


@pytest.fixture
async def node(control_plane: ControlPlane, namespace: str) -> AsyncIterator[KubeletNode]:
    """Make a simulated node with two devices of the small driver."""
    await control_plane.api.patch(
        f"{CLASSES}/{DRIVER}",
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
        },
        "apply",
        fieldManager="test",
    )
    name = f"node-{namespace}"
    async with simulated_nodes(control_plane, [name], wiping_delay=WIPING_SECONDS) as kubelets:
        node = KubeletNode(control_plane, namespace, kubelets[name])
        await node.publish()
        yield node
        await control_plane.api.delete_all(SLICES, fieldSelector=f"spec.nodeName={name}")


async def test_a_pod_gets_its_device_and_gives_it_back(node: KubeletNode) -> None:
    """Registration, prepare, injection, Running; then unprepare, deletion and deallocation."""
    async with SmallPlugin(node.kubelet) as plugin:
        await node.claim("mine")
        await node.pod("user", "mine")
        running = await node.phase("user", "Running")
        assert running["status"]["podIP"]
        record = node.kubelet.record("user", node.namespace)
        assert record.injected["main"].environment == {"DEVICE": "mine"}
        assert record.injected["main"].device_nodes == ["/dev/null"]
        assert record.injected["beside"].environment == {}, "it does not name the claim"

        # The record follows the answer to the status that others see already.
        async def noted() -> float | None:
            return record.running

        ran = await eventually(noted)
        assert record.bound <= (record.prepared or 0) <= (ran or 0)

        await node.cluster.api.delete(node.path("pods", "user"))
        await node.gone("pods", "user")
        assert plugin.calls == [("prepare", "mine"), ("unprepare", "mine")]
        await eventually(
            lambda: node.cluster.api.get(node.path("resourceclaims", "mine")),
            lambda claim: "allocation" not in claim.get("status", {}),
        )


async def test_a_refused_prepare_is_shown_and_retried(node: KubeletNode) -> None:
    """The plugin's own words reach the pod's Events; once the plugin agrees, the pod runs."""
    async with SmallPlugin(node.kubelet, refusal="the device is on fire") as plugin:
        await node.claim("mine")
        await node.pod("user", "mine")
        events = await eventually(lambda: node.events("user"))
        assert [reason for reason, _ in events] == ["FailedPrepareDynamicResources"]
        assert "the device is on fire" in events[0][1]
        plugin.refusal = ""
        await node.phase("user", "Running")
        await node.cluster.api.delete(node.path("pods", "user"))
        await node.gone("pods", "user")


async def test_a_shared_claim_is_prepared_once_and_unprepared_after_the_last_pod(node: KubeletNode) -> None:
    """Two pods with one claim both see the device; the first one's end takes nothing from the second."""
    async with SmallPlugin(node.kubelet) as plugin:
        await node.claim("ours")
        await asyncio.gather(node.pod("first", "ours"), node.pod("second", "ours"))
        for pod in ("first", "second"):
            await node.phase(pod, "Running")
            assert node.kubelet.record(pod).injected["main"].environment == {"DEVICE": "ours"}
        await node.cluster.api.delete(node.path("pods", "first"))
        await node.gone("pods", "first")
        assert plugin.calls == [("prepare", "ours")]
        await node.cluster.api.delete(node.path("pods", "second"))
        await node.gone("pods", "second")
        assert plugin.calls == [("prepare", "ours"), ("unprepare", "ours")]


async def test_an_id_that_no_spec_file_defines_keeps_the_pod_from_running(node: KubeletNode) -> None:
    """As a container runtime would: the id is named, and the pod waits until it can be resolved."""
    async with SmallPlugin(node.kubelet, writes_cdi=False):
        await node.claim("mine")
        await node.pod("user", "mine")
        events = await eventually(lambda: node.events("user"))
        assert events[0][0] == "Failed"
        assert f"unresolvable CDI devices {DRIVER}/device=" in events[0][1]
        found = await node.cluster.api.get(node.path("pods", "user"))
        assert found["status"]["phase"] == "Pending"
        await node.cluster.api.delete(node.path("pods", "user"))
        await node.gone("pods", "user")


async def test_a_plugin_that_leaves_during_a_call_does_not_take_the_pod_with_it(node: KubeletNode) -> None:
    """Its connection is dropped with the call on it; the pod goes on with the plugin that comes next."""
    async with SmallPlugin(node.kubelet, hangs=True) as plugin:
        await node.claim("mine")
        await node.pod("user", "mine")

        async def called() -> list[tuple[str, str]]:
            return plugin.calls

        await eventually(called)
        for socket in node.kubelet.registry.iterdir():
            socket.unlink()
        problems = node.kubelet.record("user").problems

        async def complained() -> list[str]:
            return problems

        await eventually(complained)
        assert "the plugin has left" in problems[0]
    async with SmallPlugin(node.kubelet):
        await node.phase("user", "Running")
        await node.cluster.api.delete(node.path("pods", "user"))
        await node.gone("pods", "user")


async def test_a_pod_waits_while_its_plugin_is_away(node: KubeletNode) -> None:
    """A pod that ends while the plugin restarts is released by the plugin that comes back under the same paths."""
    async with SmallPlugin(node.kubelet):
        await node.claim("mine")
        await node.pod("user", "mine")
        await node.phase("user", "Running")
    await node.cluster.api.delete(node.path("pods", "user"))
    problems = node.kubelet.record("user").problems

    async def complained() -> list[str]:
        return problems

    await eventually(complained)
    assert (await node.cluster.api.get(node.path("pods", "user")))["metadata"]["deletionTimestamp"]
    async with SmallPlugin(node.kubelet) as second:
        await node.gone("pods", "user")
        assert second.calls == [("unprepare", "mine")]


async def test_slices_are_wiped_when_a_plugin_stays_away(node: KubeletNode) -> None:
    """A short absence costs nothing; a longer one makes the devices disappear, as with the real kubelet."""
    plugins = node.kubelet.plugins
    # However long a busy machine takes until the plugin is back: that absence is the short one.
    plugins._wiping_delay = 60.0
    async with SmallPlugin(node.kubelet):
        await node.registered()
    await node.registered(there=False)
    async with SmallPlugin(node.kubelet):
        await node.registered()
        plugins._wiping_delay = WIPING_SECONDS
        await asyncio.sleep(WIPING_SECONDS + 0.4)
        assert len(await node.slices()) == 1, "it came back in time"
    await eventually(node.slices, lambda found: not found)


async def test_a_restarted_kubelet_repeats_prepare_and_releases_what_vanished(node: KubeletNode) -> None:
    """Prepare must be idempotent; a pod that was deleted by force meanwhile is unprepared afterwards."""
    async with SmallPlugin(node.kubelet) as plugin:
        await node.claim("kept")
        await node.claim("lost")
        await node.pod("stays", "kept")
        await node.pod("leaves", "lost")
        await node.phase("stays", "Running")
        await node.phase("leaves", "Running")
        await node.kubelet.stop()
        await node.cluster.api.delete(node.path("pods", "leaves"), grace=0)
        plugin.calls.clear()
        await node.kubelet.start()

        async def calls() -> set[tuple[str, str]]:
            return set(plugin.calls)

        await eventually(calls, lambda seen: seen == {("prepare", "kept"), ("unprepare", "lost")})
        await node.cluster.api.delete(node.path("pods", "stays"))
        await node.gone("pods", "stays")


async def test_an_annotated_pod_succeeds_by_itself(node: KubeletNode) -> None:
    """Job-like pods end after the seconds that they name, and their claims are released first."""
    async with SmallPlugin(node.kubelet) as plugin:
        await node.claim("mine")
        await node.pod("job", "mine", **{"testbed/complete-after": "0.3"})
        await node.phase("job", "Succeeded")
        assert plugin.calls == [("prepare", "mine"), ("unprepare", "mine")]

        async def succeeded() -> float | None:
            return node.kubelet.record("job").succeeded

        # The kubelet notes the time after the API server has answered.
        assert (await eventually(succeeded) or 0) - (node.kubelet.record("job").running or 0) >= 0.3
        await node.cluster.api.delete(node.path("pods", "job"))
        await node.gone("pods", "job")


async def test_twenty_nodes_run_in_one_process(control_plane: ControlPlane, namespace: str) -> None:
    """Every pod lands on the node that its selector names, by the labels of the Node's shape."""
    names = [f"many-{index}-{namespace}" for index in range(20)]
    shapes = [NodeShape(name, labels={"apportion.dev/rack": "a"}) for name in names]
    async with simulated_nodes(control_plane, shapes) as kubelets:
        pods = f"/api/v1/namespaces/{namespace}/pods"
        for name in names:
            spec = {
                "nodeSelector": {"kubernetes.io/hostname": name, "apportion.dev/rack": "a"},
                "containers": [{"name": "main", "image": "none"}],
            }
            await control_plane.api.create(pods, {"metadata": {"name": name}, "spec": spec})

        async def running() -> set[str]:
            found, _ = await control_plane.api.items(pods, fieldSelector="status.phase=Running")
            assert all(pod["spec"]["nodeName"] == pod["metadata"]["name"] for pod in found)
            return {pod["metadata"]["name"] for pod in found}

        await eventually(running, lambda found: len(found) == len(names))

        async def noted() -> bool:
            return all(kubelets[name].record(name).running for name in names)

        await eventually(noted)
        await control_plane.api.delete_all(pods)
        await eventually(lambda: control_plane.api.items(pods), lambda found: not found[0])


def test_sockets_of_simulated_nodes_have_short_paths(control_plane: ControlPlane) -> None:
    """The path of a Unix socket has at most 107 bytes."""
    longest = Path("nodes") / "node-123456" / "plugins_registry" / f"{'d' * 20}.apportion.dev-reg.sock"
    assert len(str(control_plane.folder / longest)) <= 107
