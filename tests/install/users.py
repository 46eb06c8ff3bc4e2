"""Who writes slices and Partitions, and the objects that they write, for the tests of the agent's bounds."""

from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from apportion.api.contract import AGENT_FINALIZER
from testbed.api import Api, Json
from testbed.controlplane import ControlPlane
from testbed.errors import ApiError

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PARTITIONS = "/apis/apportion.dev/v1alpha1/partitions"
EVENTS = "/api/v1/namespaces/default/events"
OURS, OTHERS = "bounds-ours", "bounds-others"


@dataclass(frozen=True)
class Users:
    """Connections of those who write slices and Partitions."""

    admin: Api
    agent: Api
    """The agent of node `bounds-ours`, its token bound to that node."""
    in_pod: Api
    """The same agent, its token bound to a pod there, as kubelet gives it."""
    unbound: Api
    """An agent's token that names no node."""
    elsewhere: Api
    """An agent of node `bounds-ours` that is installed in another namespace."""
    operator: Api
    kubelet: Api
    """The kubelet of node `bounds-others`."""


def device_slice(name: str, node: str, pool: str | None = None) -> Json:
    """Return a ResourceSlice with one device."""
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.apportion.dev",
            "nodeName": node,
            "pool": {"name": pool or node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    }


def partition(name: str, node: str) -> Json:
    """Return a Partition as the operator makes it: with the agent's finalizer, and here somebody else's too."""
    return {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "Partition",
        "metadata": {
            "name": name,
            "finalizers": [AGENT_FINALIZER, "example.com/other"],
            "labels": {"a": "b"},
        },
        "spec": {
            "nodeName": node,
            "driver": "gpu.apportion.dev",
            "pool": node,
            "device": "gpu-0-mig-1g10gb-19-3",
            "parent": "gpu-0",
            "profile": "1g.10gb",
            "origin": "Warm",
        },
    }


async def users_of(cluster: ControlPlane, stack: AsyncExitStack) -> Users:
    """Make the nodes and open everybody's connection."""
    for node in (OURS, OTHERS):
        # Nobody else's pods shall land here.
        await cluster.api.create(
            "/api/v1/nodes", {"metadata": {"name": node}, "spec": {"unschedulable": True}}
        )
        stack.push_async_callback(cluster.api.delete, f"/api/v1/nodes/{node}")
    pods = "/api/v1/namespaces/apportion-system/pods"
    pod: Json = {
        "metadata": {"name": "bounds-agent"},
        "spec": {
            "serviceAccountName": "apportion-agent",
            "nodeName": OURS,
            "containers": [{"name": "agent", "image": "none"}],
        },
    }
    await cluster.api.create(pods, pod)
    stack.push_async_callback(cluster.api.delete, f"{pods}/bounds-agent", grace=0)

    async def connect(name: str, **bound: str) -> Api:
        path = await cluster.service_account_kubeconfig("apportion-system", name, **bound)
        return await stack.enter_async_context(Api.of(path))

    kubelet = cluster.client_kubeconfig(f"system:node:{OTHERS}", ["system:nodes"])
    return Users(
        admin=cluster.api,
        agent=await connect("apportion-agent", node=OURS),
        in_pod=await connect("apportion-agent", pod="bounds-agent"),
        unbound=await connect("apportion-agent"),
        elsewhere=await _elsewhere(cluster, stack),
        operator=await connect("apportion-operator"),
        kubelet=await stack.enter_async_context(Api.of(kubelet)),
    )


async def _elsewhere(cluster: ControlPlane, stack: AsyncExitStack) -> Api:
    namespace = await cluster.make_namespace("elsewhere", {})
    stack.push_async_callback(cluster.drop_namespace, namespace)
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await cluster.api.create(accounts, {"metadata": {"name": "apportion-agent"}})
    path = await cluster.service_account_kubeconfig(namespace, "apportion-agent", node=OURS)
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    name = f"apportion-agent-{namespace}"
    await cluster.api.create(
        bindings,
        {
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "apportion-agent",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "apportion-agent", "namespace": namespace}],
        },
    )
    stack.push_async_callback(cluster.api.delete, f"{bindings}/{name}")
    return await stack.enter_async_context(Api.of(path))


def event(kind: str, name: str, namespace: str = "default", component: str = "apportion-agent") -> Json:
    """Return an Event about an object, for a namespace, in the name of a component."""
    return {
        "metadata": {"generateName": "bounds-"},
        "involvedObject": {"kind": kind, "name": name, "uid": "u", "namespace": namespace},
        "reason": "Test",
        "message": "m",
        "type": "Normal",
        "source": {"component": component},
        "reportingComponent": component,
    }


async def refusal_of(request: Awaitable[object]) -> str:
    """Return why a request is refused."""
    try:
        await request
    except ApiError as error:
        return error.message
    raise AssertionError("the request was not refused")


async def forget(users: Users, *names: str) -> None:
    """Delete Partitions whatever finalizers they have."""
    for name in names:
        await users.admin.delete(f"{PARTITIONS}/{name}")
        await users.admin.patch(f"{PARTITIONS}/{name}", {"metadata": {"finalizers": None}})
