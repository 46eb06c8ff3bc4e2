"""What a test may expect of a control plane."""

import asyncio
from collections.abc import AsyncIterator

import psutil
import pytest

from testbed.api import Api
from testbed.binaries import Binaries
from testbed.components import APISERVER, ETCD, SCHEDULER
from testbed.controlplane import ControlPlane
from testbed.errors import ApiError, ComponentDiedError
from testbed.eventually import eventually
from tests.testbed.bearer import pod_on, user_extra


@pytest.fixture
async def node(control_plane: ControlPlane) -> AsyncIterator[str]:
    """Make a bare Node object."""
    made = await control_plane.api.create("/api/v1/nodes", {"metadata": {"generateName": "bare-"}})
    yield made["metadata"]["name"]
    await control_plane.api.delete(f"/api/v1/nodes/{made['metadata']['name']}")


async def test_the_server_is_of_the_version_that_was_asked_for(control_plane: ControlPlane) -> None:
    """The default control plane says its version, and kubectl of the same version speaks to it."""
    answer = await control_plane.kubectl("version")
    assert answer.count(f"v{control_plane.version}") == 2


@pytest.mark.timeout(200)
async def test_the_oldest_supported_version_starts_too(oldest_control_plane: ControlPlane) -> None:
    """The second version is a real server of its own, beside the first."""
    said = await oldest_control_plane.api.get("/version")
    assert said["gitVersion"] == f"v{oldest_control_plane.version}"


async def test_a_token_bound_to_a_node_carries_its_name(control_plane: ControlPlane, node: str) -> None:
    """A ValidatingAdmissionPolicy can compare this claim with spec.nodeName."""
    path = await control_plane.service_account_kubeconfig("default", "default", node=node)
    async with Api.of(path) as agent:
        assert (await user_extra(agent))["authentication.kubernetes.io/node-name"] == [node]


async def test_a_token_bound_to_a_pod_carries_the_name_of_its_node(
    control_plane: ControlPlane, namespace: str, node: str
) -> None:
    """This is the token that an agent gets as a pod of a DaemonSet."""
    pod = await pod_on(control_plane, namespace, node)
    path = await control_plane.service_account_kubeconfig(namespace, "default", pod=pod)
    async with Api.of(path) as agent:
        extra = await user_extra(agent)
    assert extra["authentication.kubernetes.io/node-name"] == [node]
    assert extra["authentication.kubernetes.io/pod-name"] == [pod]
    await control_plane.api.delete(f"/api/v1/namespaces/{namespace}/pods/{pod}", grace=0)


async def test_a_plain_token_carries_no_node(control_plane: ControlPlane) -> None:
    """Nothing but a binding makes the node's name appear."""
    path = await control_plane.service_account_kubeconfig("default", "default")
    async with Api.of(path) as client:
        assert "authentication.kubernetes.io/node-name" not in await user_extra(client)


async def test_rbac_binds_a_client_certificate_user(control_plane: ControlPlane) -> None:
    """A user without a role may do nothing, and the audit log says who was refused what."""
    path = control_plane.client_kubeconfig("nobody-in-particular", ["strangers"])
    async with Api.of(path) as stranger:
        with pytest.raises(ApiError, match="403 Forbidden") as refused:
            await stranger.get("/api/v1/namespaces/default/pods/missing")
    assert refused.value.status == 403
    (request,) = [asked for asked in control_plane.audited() if asked.user == "nobody-in-particular"]
    assert (request.verb, request.resource, request.namespace, request.name) == (
        "get",
        "pods",
        "default",
        "missing",
    )
    assert (request.decision, request.code) == ("forbid", 403)


async def test_a_node_may_not_touch_another_node(control_plane: ControlPlane, node: str) -> None:
    """Node authorization and the NodeRestriction admission plugin are on."""
    path = control_plane.client_kubeconfig("system:node:somebody-else", ["system:nodes"])
    async with Api.of(path) as other:
        with pytest.raises(ApiError, match="is not allowed to modify node"):
            await other.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"mine": "now"}}})


async def test_a_stopped_scheduler_binds_nothing_until_it_is_restarted(
    control_plane: ControlPlane, namespace: str, node: str
) -> None:
    """Tests can take one component away while the others go on."""
    await control_plane.api.patch(
        f"/api/v1/nodes/{node}/status",
        {"status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}}},
    )
    await control_plane.stop_component(SCHEDULER)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    tolerate = [{"operator": "Exists"}]
    await control_plane.api.create(
        pods,
        {
            "metadata": {"name": "waits"},
            "spec": {
                "containers": [{"name": "main", "image": "none"}],
                "tolerations": tolerate,
                "nodeSelector": {"only": node},
            },
        },
    )
    await control_plane.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"only": node}}})
    await asyncio.sleep(0.5)
    assert "nodeName" not in (await control_plane.api.get(f"{pods}/waits"))["spec"]
    await control_plane.start_component(SCHEDULER)
    await eventually(lambda: control_plane.api.get(f"{pods}/waits"), lambda pod: "nodeName" in pod["spec"])
    await control_plane.api.delete(f"{pods}/waits", grace=0)


async def test_stopping_leaves_no_process_and_no_file(
    binaries: Binaries, control_plane: ControlPlane
) -> None:
    """A second control plane runs beside the session's own; after its end only that one is left."""
    async with ControlPlane(binaries=binaries, components=(ETCD, APISERVER)) as second:
        started = [psutil.Process(process.pid) for process in second.processes.values()]
        assert len(started) == 2
        assert second.server != control_plane.server
        await second.api.create("/api/v1/namespaces", {"metadata": {"name": "only-here"}})
        folder = second.folder
    assert not any(process.is_running() for process in started)
    assert not folder.exists()
    with pytest.raises(ApiError, match="404"):
        await control_plane.api.get("/api/v1/namespaces/only-here")
    control_plane.check()


async def test_a_component_that_dies_at_start_shows_its_last_words(binaries: Binaries) -> None:
    """The error names the component and quotes its log, and what was started before it is ended."""
    broken = ControlPlane(
        binaries=binaries, components=(ETCD, APISERVER), flags={APISERVER: ["--no-such-flag"]}
    )
    with pytest.raises(ComponentDiedError, match="unknown flag: --no-such-flag") as died:
        await broken.start()
    assert died.value.component == APISERVER
    assert not broken.processes
    assert not broken.folder.exists()


async def test_a_component_that_dies_later_is_noticed(binaries: Binaries) -> None:
    """`check` tells a crash from an answer that is merely wrong."""
    async with ControlPlane(binaries=binaries, components=(ETCD,)) as lone:
        lone.check()
        lone.processes[ETCD].kill()
        await asyncio.to_thread(psutil.Process(lone.processes[ETCD].pid).wait, 10)
        with pytest.raises(ComponentDiedError, match="etcd ended by itself"):
            lone.check()
