"""IMEX channels: devices of nodes whose GPUs are in a clique of an NVLink fabric, if the administrator offers them."""

from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.backends import backends, find
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.imex.backend import CHANNEL, ImexBackend
from apportion.agent.devices.values import Card, CardKind, Health
from apportion.agent.settings import AgentOptions
from testbed.eventually import eventually
from testbed.fakes.nvml.host import IMEX_MAJOR
from tests.agent.killedagent import killed_agent
from tests.agent.nvml.nodes import MakeFake, Node
from tests.agent.nvml.test_fabric import CLUSTER, COMPLETED, IN_PROGRESS

DRIVER = "imex.apportion.dev"


def options(node: Node, channels: int) -> AgentOptions:
    """Return the options of an agent that offers so many channels."""
    return AgentOptions(node="n", backend="nvml", host_root=node.root, imex_channels=channels)


async def offered(node: Node, channels: int) -> tuple[Hardware, list[Card]]:
    """Discover the node's cards as an agent does; returns the channels, too."""
    hardware = Hardware(backends(options(node, channels)))
    cards = await hardware.discover()
    return hardware, [card for card in cards.values() if card.kind == CHANNEL]


async def test_channels_are_offered_where_they_are_asked_for_and_gpus_are_in_a_clique(node: Node) -> None:
    """Named, numbered and typed as NVIDIA's driver does; with the clique, which all nodes that reach each other share."""
    for gpu in range(2):
        node.fake.fabric(gpu, COMPLETED, clique=7, cluster=CLUSTER)
    _, found = await offered(node, 2)
    assert [(card.name, dict(card.attributes)) for card in found] == [
        (f"channel-{number}", {"id": number, "cliqueID": f"{CLUSTER}.7"}) for number in range(2)
    ]
    assert (await offered(node, 0))[1] == []


@pytest.mark.parametrize("cause", ["no fabric", "one node", "not joined", "two cliques", "no module"])
async def test_no_channel_is_offered_where_it_would_be_of_no_use(node: Node, cause: str) -> None:
    """A fabric of one node has no clique; a kernel module without channels cannot make any."""
    clusters = {"one node": "", "no fabric": ""}
    for gpu in range(2):
        state = {"no fabric": 0, "not joined": IN_PROGRESS}.get(cause, COMPLETED)
        clique = gpu if cause == "two cliques" else 7
        node.fake.fabric(gpu, state, clique=clique, cluster=clusters.get(cause, CLUSTER))
    if cause == "no module":
        devices = node.root / "proc/devices"
        devices.write_text(devices.read_text().replace(f"{IMEX_MAJOR} nvidia-caps-imex-channels\n", ""))
    hardware, found = await offered(node, 2)
    assert found == []
    assert len(hardware.cards) == 2, "the GPUs"


async def test_no_more_channels_are_offered_than_the_module_has(node: Node) -> None:
    """Its parameter says how many (NVreg_ImexChannelCount)."""
    node.fake.fabric(0, COMPLETED, cluster=CLUSTER)
    params = node.root / "proc/driver/nvidia/params"
    params.parent.mkdir(parents=True, exist_ok=True)
    params.write_text("EnableMSI: 1\nImexChannelCount: 1\n")
    _, found = await offered(node, 8)
    assert [card.name for card in found] == ["channel-0"]


async def test_channels_are_offered_when_the_gpus_have_joined(node: Node) -> None:
    """They join after the agent's start, as the Fabric Manager gets to them; another clique is published, too."""
    node.fake.fabric(0, IN_PROGRESS)
    hardware, found = await offered(node, 1)
    await hardware.fabric()
    assert (found, hardware.incomplete) == ([], False)
    for clique in (7, 8):
        node.fake.fabric(0, COMPLETED, clique=clique, cluster=CLUSTER)
        await hardware.fabric()
        assert await hardware.look()
        await hardware.discover()
        assert hardware.cards["channel-0"].attributes["cliqueID"] == f"{CLUSTER}.{clique}"


async def test_a_gpu_that_does_not_answer_keeps_nobody_from_the_channels(node: Node) -> None:
    """The others tell the clique."""
    for gpu in range(2):
        node.fake.fabric(gpu, COMPLETED, clique=7, cluster=CLUSTER)
    node.fake.fail("*", 999, times=-1, card=0)
    _, found = await offered(node, 1)
    assert [card.name for card in found] == ["channel-0"]


async def test_channels_fare_as_the_driver_and_the_fabric_do(node: Node) -> None:
    """Without its module they are lost; without the clique claims stay away; while the driver is let go of nobody knows."""
    node.fake.fabric(0, COMPLETED, clique=7, cluster=CLUSTER)
    hardware, _ = await offered(node, 1)
    assert await hardware.fabric() == {}
    assert (await hardware.health())["channel-0"] is Health.HEALTHY
    node.fake.fabric(0, IN_PROGRESS)
    await hardware.fabric()
    assert (await hardware.fabric())["channel-0"] == "NoClique"
    devices = node.root / "proc/devices"
    before = devices.read_text()
    devices.write_text("Character devices:\n  1 mem\n")
    assert (await hardware.health())["channel-0"] is Health.LOST
    await hardware.release("a test")
    assert (await hardware.health())["channel-0"] is Health.RELEASED
    devices.write_text(before)


async def test_a_channel_waits_while_the_gpus_of_its_node_are_in_two_cliques(node: Node) -> None:
    """Which of both it reaches is nobody's to say; a GPU that does not answer has no say."""
    for gpu in range(2):
        node.fake.fabric(gpu, COMPLETED, clique=7, cluster=CLUSTER)
    hardware, _ = await offered(node, 1)
    await hardware.fabric()
    node.fake.fabric(1, COMPLETED, clique=8, cluster=CLUSTER)
    await hardware.fabric()
    assert (await hardware.fabric())["channel-0"] == "NoClique"
    node.fake.fail("*", 999, times=-1, card=1)
    await hardware.fabric()
    assert "channel-0" not in await hardware.fabric()


def test_channels_of_a_driver_that_is_awaited_stay_published(node: Node, tmp_path: Path) -> None:
    """As its GPUs do: their slices are not deleted while the driver is exchanged."""
    bus = node.root / "sys/bus/pci/devices"
    assert any(bus.iterdir())
    found = find(options(node, 1), paused="a test")
    assert {*found.awaited} == {CardKind.GPU, CHANNEL}
    assert {*find(options(node, 0), paused="a test").awaited} == {CardKind.GPU}


async def test_a_container_gets_the_channel_of_its_claim(faked: MakeFake, namespace: str) -> None:
    """By its numbers, so that the host need not have the file; nobody else gets it meanwhile."""
    async with faked() as (node, fake):
        node.options = replace(node.options, imex_channels=3)
        fake.fabric(0, COMPLETED, clique=7, cluster=CLUSTER)
        async with killed_agent(node, "never") as agent:

            async def published() -> dict[str, int]:
                found = await node.devices(DRIVER)
                return {name: device["attributes"]["id"]["int"] for name, device in found.items()}

            assert await eventually(published, bool, within=60) == {f"channel-{n}": n for n in range(3)}
            device = (await node.devices(DRIVER))["channel-2"]
            assert device["attributes"]["type"] == {"string": "channel"}
            claim = await node.claim(namespace, "imports", "channel-2", driver=DRIVER)
            answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim, driver=DRIVER), bool))
            assert answer[claim["metadata"]["uid"]].error == ""
            (file,) = node.cdi().values()
            (row,) = file["devices"]
            (found,) = row["containerEdits"]["deviceNodes"]
            assert found["path"] == "/dev/nvidia-caps-imex-channels/channel2"
            assert (found["major"], found["minor"]) == (IMEX_MAJOR, 2)
            other = await node.claim(namespace, "other", "channel-2", driver=DRIVER)
            answer = await agent.insist(lambda: node.prepare(other, driver=DRIVER))
            assert "is held by" in answer[other["metadata"]["uid"]].error


async def test_what_a_look_at_one_channel_costs_does_not_grow_with_their_number(node: Node) -> None:
    """Each of 2,048 is looked at by itself every two seconds."""
    looked_up = 0

    class Asked(tuple[str, ...]):
        __slots__ = ()

        def __contains__(self, name: object) -> bool:
            nonlocal looked_up
            looked_up += 1
            return super().__contains__(name)

    node.fake.fabric(0, COMPLETED, clique=7, cluster=CLUSTER)
    node.fake.fabric(1, COMPLETED, clique=7, cluster=CLUSTER)
    devices = node.root / "proc/devices"
    _, *others = backends(options(node, 2048))
    (imex,) = (each for each in others if isinstance(each, ImexBackend))
    assert len(imex.devices()) == 2048
    devices.write_text("")
    assert imex.health(Asked(("channel-7",))) == {"channel-7": Health.LOST}
    assert looked_up == 0
