"""An agent's token reaches as far as its own node: slices, Partitions, their status and their finalizers."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from apportion.api.contract import AGENT_FINALIZER
from testbed.api import Json
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from tests.install.refusal import refused
from tests.install.users import (
    EVENTS,
    OTHERS,
    OURS,
    PARTITIONS,
    SLICES,
    Users,
    device_slice,
    event,
    forget,
    partition,
    refusal_of,
    users_of,
)


class Bounds:
    async def test_an_agent_writes_slices_of_its_own_node(self, users: Users) -> None:
        """Create, update, delete; with a token bound to the node or to the agent's pod; also pools below its name."""
        for index, agent in enumerate((users.agent, users.in_pod)):
            for pool in (OURS, f"{OURS}/numa-1"):
                made = await agent.create(SLICES, device_slice(f"own-{index}", OURS, pool))
                made["spec"]["devices"].append({"name": "gpu-1"})
                await agent.replace(f"{SLICES}/own-{index}", made)
                await agent.delete(f"{SLICES}/own-{index}")
                assert (await agent.get(SLICES, fieldSelector=f"spec.nodeName={OURS}"))["items"] == []

    async def test_an_agent_cannot_write_slices_of_another_node(self, users: Users) -> None:
        """Neither create, nor update, nor delete them."""
        made = await users.admin.create(SLICES, device_slice("others", OTHERS))

        for agent in (users.agent, users.in_pod):
            with refused("slices of its own node only"):
                await agent.create(SLICES, device_slice("foreign", OTHERS))
            with refused("slices of its own node only"):
                await agent.replace(
                    f"{SLICES}/others", {**made, "metadata": {**made["metadata"], "labels": {"x": "y"}}}
                )
            with refused("slices of its own node only"):
                await agent.delete(f"{SLICES}/others")
        await users.admin.delete(f"{SLICES}/others")

    async def test_an_agent_cannot_publish_for_many_nodes_or_into_anothers_pool(self, users: Users) -> None:
        """A slice for all nodes would be everybody's; a newer generation would hide the other node's devices."""
        everywhere = device_slice("everywhere", OURS)
        del everywhere["spec"]["nodeName"]
        everywhere["spec"]["allNodes"] = True

        with refused("slices of its own node only"):
            await users.agent.create(SLICES, everywhere)
        for pool in (OTHERS, f"{OURS}-2", "shared"):
            with refused("pools of its own node only"):
                await users.agent.create(SLICES, device_slice("pool", OURS, pool))

    async def test_a_token_without_a_node_writes_nothing(self, users: Users) -> None:
        """A token that somebody made by hand for the ServiceAccount has no node in it."""
        await users.admin.create(SLICES, device_slice("unbound", OURS))
        await users.admin.create(PARTITIONS, partition("unbound", OURS))

        with refused("the agent's token names no node"):
            await users.unbound.create(SLICES, device_slice("unbound-2", OURS))
        with refused("the agent's token names no node"):
            await users.unbound.delete(f"{SLICES}/unbound")
        with refused("the agent's token names no node"):
            await users.unbound.patch(f"{PARTITIONS}/unbound/status", {"status": {"phase": "Ready"}})
        with refused("the agent's token names no node"):
            await users.unbound.patch(f"{PARTITIONS}/unbound", {"metadata": {"finalizers": []}})
        await users.admin.delete(f"{SLICES}/unbound")
        await forget(users, "unbound")

    async def test_an_agent_reports_on_partitions_of_its_own_node_only(self, users: Users) -> None:
        """The status of another node's Partition is not its to write."""
        for name, node in (("own", OURS), ("others", OTHERS)):
            await users.admin.create(PARTITIONS, partition(name, node))
        report = {"status": {"phase": "Ready", "uuid": "MIG-1"}}

        for agent in (users.agent, users.in_pod):
            reported = await agent.patch(f"{PARTITIONS}/own/status", report)
            assert reported["status"] == report["status"]
            with refused("Partitions of its own node only"):
                await agent.patch(f"{PARTITIONS}/others/status", report)
        await forget(users, "own", "others")

    async def test_an_agent_removes_its_own_finalizer_from_a_partition_that_goes(self, users: Users) -> None:
        """Nobody else's, none is added, not on another node, and not before the Partition is being deleted."""
        for name, node in (("going", OURS), ("going-others", OTHERS)):
            await users.admin.create(PARTITIONS, partition(name, node))
        without_own = {"metadata": {"finalizers": ["example.com/other"]}}

        with refused("only when the Partition is being deleted"):
            await users.agent.patch(f"{PARTITIONS}/going", without_own)
        for name in ("going", "going-others"):
            await users.admin.delete(f"{PARTITIONS}/{name}")
        with refused("removes its own finalizer only"):
            await users.agent.patch(f"{PARTITIONS}/going", {"metadata": {"finalizers": []}})
        with refused("removes its own finalizer only"):
            await users.agent.patch(f"{PARTITIONS}/going", {"metadata": {"finalizers": [AGENT_FINALIZER]}})
        with refused("Partitions of its own node only"):
            await users.agent.patch(f"{PARTITIONS}/going-others", without_own)
        gone = await users.agent.patch(f"{PARTITIONS}/going", without_own)

        assert gone["metadata"]["finalizers"] == ["example.com/other"]
        await forget(users, "going", "going-others")

    async def test_an_agent_adds_no_finalizer(self, users: Users) -> None:
        """It could keep a Partition from going for ever."""
        await users.admin.create(PARTITIONS, partition("kept", OURS))

        with refused("and adds none"):
            await users.agent.patch(
                f"{PARTITIONS}/kept",
                {"metadata": {"finalizers": [AGENT_FINALIZER, "example.com/other", "example.com/mine"]}},
            )
        await forget(users, "kept")

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(
                {"spec": {"holder": {"kind": "ResourceClaim", "namespace": "n", "name": "c", "uid": "u"}}},
                id="holder",
            ),
            pytest.param({"metadata": {"labels": {"a": "c"}}}, id="labels"),
            pytest.param({"metadata": {"annotations": {"a": "c"}}}, id="annotations"),
            pytest.param(
                {
                    "metadata": {
                        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": OURS, "uid": "u"}]
                    }
                },
                id="owners",
            ),
        ],
    )
    async def test_an_agent_changes_nothing_else_of_its_partitions(self, users: Users, change: Json) -> None:
        """What is wanted is the operator's to say, on the agent's own node too."""
        await users.admin.create(PARTITIONS, partition("fixed", OURS))

        with refused("changes nothing of a Partition but its own finalizer"):
            await users.agent.patch(f"{PARTITIONS}/fixed", change)
        await forget(users, "fixed")

    async def test_an_agent_neither_makes_nor_deletes_partitions(self, users: Users) -> None:
        """RBAC says so already; its own node makes no difference."""
        await users.admin.create(PARTITIONS, partition("stays", OURS))

        with refused("cannot create", status=403):
            await users.agent.create(PARTITIONS, partition("mine", OURS))
        with refused("cannot delete", status=403):
            await users.agent.delete(f"{PARTITIONS}/stays")
        await forget(users, "stays")

    async def test_even_with_the_right_to_delete_an_agent_may_not(self, users: Users) -> None:
        """Somebody who binds the agent to more rights does not open this."""
        await users.admin.create(PARTITIONS, partition("safe", OURS))
        bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        await users.admin.create(
            bindings,
            {
                "metadata": {"name": "too-much"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "cluster-admin",
                },
                "subjects": [
                    {"kind": "ServiceAccount", "name": "apportion-agent", "namespace": "apportion-system"}
                ],
            },
        )
        try:
            # RBAC needs a moment to see the new binding.
            await eventually(
                lambda: refusal_of(users.agent.delete(f"{PARTITIONS}/safe")),
                lambda said: "neither makes nor deletes Partitions" in said,
            )
            with refused("neither makes nor deletes Partitions"):
                await users.agent.create(PARTITIONS, partition("mine", OURS))
            with refused("Partitions of its own node only"):
                made = await users.admin.create(PARTITIONS, partition("safe-others", OTHERS))
                await users.agent.replace(f"{PARTITIONS}/safe-others", made)
        finally:
            await users.admin.delete(f"{bindings}/too-much")
        await forget(users, "safe", "safe-others")

    async def test_an_agent_writes_events_about_its_own_node_only(self, users: Users) -> None:
        """Its Node and that node's Partitions; nobody else's objects, and in no namespace of a tenant."""
        for agent in (users.agent, users.in_pod):
            for kind, name in (("Node", OURS), ("Partition", f"{OURS}-gpu-0-mig-1g10gb-19-3")):
                made = await agent.create(EVENTS, event(kind, name))
                await agent.patch(f"{EVENTS}/{made['metadata']['name']}", {"count": 2})
            # The last is one of the node `bounds-ours-gpu-b`.
            theirs = ("Partition", f"{OURS}-gpu-b-gpu-0-mig-1g10gb-19-3")
            for kind, name in (("Node", OTHERS), ("Partition", f"{OTHERS}-gpu-0"), ("Pod", OURS), theirs):
                with refused("Events about its own node only"):
                    await agent.create(EVENTS, event(kind, name))
            with refused("Events about its own node only"):
                await agent.create(
                    EVENTS.replace("default", "apportion-system"), event("Node", OURS, "apportion-system")
                )
            with refused("in its own name only"):
                await agent.create(EVENTS, event("Node", OURS, component="kubelet"))
            kubelets = await users.admin.create(EVENTS, event("Node", OURS, component="kubelet"))
            with refused("changes nobody else's"):
                await agent.patch(f"{EVENTS}/{kubelets['metadata']['name']}", {"count": 2})
            with refused("about one object"):
                await agent.create(
                    EVENTS, event("Node", OURS) | {"related": {"kind": "Node", "name": OTHERS}}
                )
            others = await users.admin.create(EVENTS, event("Node", OTHERS))
            with refused("Events about its own node only"):
                await agent.patch(f"{EVENTS}/{others['metadata']['name']}", {"count": 2})

    async def test_the_bounds_hold_in_whatever_namespace_the_agents_are(self, users: Users) -> None:
        """They go by the name of the ServiceAccount."""
        with refused("slices of its own node only"):
            await users.elsewhere.create(SLICES, device_slice("foreign", OTHERS))

    async def test_everybody_else_is_unaffected(self, users: Users) -> None:
        """The operator makes, changes and deletes Partitions; kubelet wipes slices; administrators do as they like."""
        await users.operator.create(PARTITIONS, partition("free", OTHERS))
        holder = {"kind": "ResourceClaim", "namespace": "n", "name": "c", "uid": "u"}
        held = await users.operator.patch(f"{PARTITIONS}/free", {"spec": {"holder": holder}})
        assert held["spec"]["holder"] == holder
        await users.operator.delete(f"{PARTITIONS}/free")
        lifted = await users.operator.patch(
            f"{PARTITIONS}/free", {"metadata": {"finalizers": ["example.com/other"]}}
        )
        assert lifted["metadata"]["finalizers"] == ["example.com/other"]
        await forget(users, "free")

        await users.admin.create(SLICES, device_slice("wiped", OTHERS, "any-pool"))
        await users.kubelet.delete(f"{SLICES}/wiped")
        with refused("not found", status=404):
            await users.admin.get(f"{SLICES}/wiped")


@pytest.fixture(scope="module")
async def newest_users(installed: ControlPlane) -> AsyncIterator[Users]:
    """Connect everybody to the default version."""
    async with AsyncExitStack() as stack:
        yield await users_of(installed, stack)


@pytest.fixture(scope="module")
async def oldest_users(oldest_installed: ControlPlane) -> AsyncIterator[Users]:
    """Connect everybody to the oldest supported version."""
    async with AsyncExitStack() as stack:
        yield await users_of(oldest_installed, stack)


class TestBounds(Bounds):
    @pytest.fixture
    def users(self, newest_users: Users) -> Users:
        return newest_users


class TestBoundsOnOldest(Bounds):
    @pytest.fixture
    def users(self, oldest_users: Users) -> Users:
        return oldest_users
