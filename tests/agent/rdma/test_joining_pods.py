"""A claim with a network interface that several pods have reserved: one of them gets it, and the others do not run without it."""

from testbed.eventually import eventually
from testbed.hostnetwork import ip, seen
from tests.agent.rdma.networknode import NIC, NetworkNode


async def test_the_first_of_two_pods_that_reserved_the_claim_before_its_preparation_gets_the_interface(
    rail: NetworkNode,
) -> None:
    """Reservations end with their pods only: if both were refused, it would be for ever."""
    async with rail.node.agent():
        await rail.heard()
        claim = await rail.claim()
        first, second = rail.pod, await rail.joined(claim, rail.pod)
        assert await rail.prepare(claim) == ""
        await rail.begun(second)
        assert f"is in the network of another pod (UID {first})" in await rail.create(claim, second)
        namespace = await rail.begun(first)
        assert await rail.create(claim, first) == ""
        assert seen(rail.network.name, namespace)["addresses"] == rail.before["addresses"]
        await rail.runtime.end(first)
        await rail.delete(first)
        await rail.follows(claim, second)


async def test_both_interfaces_of_a_claim_go_to_one_pod_whichever_is_named_first_later(
    rail: NetworkNode,
) -> None:
    """The second one was not to be had at the first try. Two pods that have one each would wait for each other for ever."""
    other = rail.beside()
    async with rail.node.agent():
        await rail.heard()
        claim = await rail.claim(devices=(NIC, "nic-mlx5-1"))
        first, second = rail.pod, await rail.joined(claim, rail.pod)
        stacked = f"{rail.network.peer}m"
        ip("link", "add", stacked, "link", rail.network.peer, "type", "macvlan")
        assert f"{stacked} is stacked on it" in await rail.prepare(claim)
        ip("link", "delete", stacked)
        await rail.reserve(claim, second, first)
        assert await rail.prepare(claim) == ""
        namespace = await rail.begun(first)
        mounts = [rail.mount(claim), other.mount(claim)]
        assert await rail.runtime.create(first, *mounts) == ""
        assert {row["ifname"] for row in ip("link", "show", namespace=namespace)} >= {
            rail.network.name,
            rail.network.peer,
        }


async def test_a_claim_that_no_pod_has_reserved_gets_no_interface(rail: NetworkNode) -> None:
    """Something else may reserve a claim, and it has no network."""
    async with rail.node.agent():
        await rail.heard()
        claim = await rail.claim()
        await rail.delete(rail.pod)
        await rail.reserve(claim)
        assert (
            "status.reservedFor: a network device is in the network of a pod, and no pod has reserved"
            in await rail.prepare(claim)
        )


async def test_a_pod_that_reserves_the_claim_after_its_preparation_does_not_run_without_the_interface(
    rail: NetworkNode,
) -> None:
    """Kubelet prepares a claim once, and gives the second pod's containers the same files: they are refused, with the reason."""
    async with rail.node.agent():
        claim, first, second = await rail.shared()
        namespace = await rail.begun(first)
        assert await rail.create(claim, first) == ""
        await rail.begun(second)
        why = await rail.create(claim, second)
        assert f"ResourceClaim {claim['metadata']['namespace']}/rail: its network device {NIC} is in" in why
        assert "cannot be in that of pod team/train" in why
        assert seen(rail.network.name, namespace)["addresses"] == rail.before["addresses"]
        # One that has no part in the claim, whatever it mounts by its path, and one without the file.
        rail.runtime.note("stranger", rail.network.pod()[1])
        assert await rail.create(claim, "stranger") == ""
        assert await rail.runtime.create(second) == ""


async def test_a_pod_that_joined_while_no_agent_ran_is_named_at_the_node(rail: NetworkNode) -> None:
    """Nobody was there to refuse its container; it gets the interface as soon as the first pod is over, as others do."""
    async with rail.node.agent():
        claim, first, second = await rail.shared()
        await rail.begun(first)
    namespace, other = rail.network.pod()
    rail.runtime.note(second, other)
    for pod in (first, second):
        rail.runtime.note_container(pod, rail.mount(claim))
    async with rail.node.agent():
        (event,) = await eventually(lambda: rail.node.events("NetworkDeviceMissing"), bool)
        assert "pod team/train runs without its network device: ResourceClaim" in event["message"]
        assert "in the network of another pod" in event["message"]
        await rail.heard()
        await rail.runtime.end(first)
        await rail.delete(first)
        await rail.follows(claim, second)
        assert seen(rail.network.name, namespace)["addresses"] == rail.before["addresses"]


async def test_the_interface_goes_to_the_second_pod_once_the_first_is_over(rail: NetworkNode) -> None:
    """Kubelet does not unprepare a claim that another pod on the node has, and nobody would prepare it for that one."""
    async with rail.node.agent():
        claim, first, second = await rail.shared()
        await rail.begun(first)
        namespace = await rail.begun(second)
        await rail.runtime.end(first)
        # Its reservation goes only when it is over: it may have another sandbox.
        assert "in the network of another pod" in await rail.create(claim, second)
        await rail.delete(first)
        await rail.follows(claim, second)
        assert seen(rail.network.name, namespace)["addresses"] == rail.before["addresses"]
        assert rail.shown(claim) is not None
    async with rail.node.agent():
        await rail.heard()
        assert seen(rail.network.name, namespace)["addresses"] == rail.before["addresses"]
        assert await rail.unprepare(claim) == ""
        assert rail.network.on_host() == rail.before
