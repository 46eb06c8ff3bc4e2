"""An agent with generic devices: published, prepared, and kept apart from what else the node has."""

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from testbed.api import Json
from testbed.eventually import eventually
from testbed.fakes.fpga import FpgaHost
from tests.agent.generic.places import FIRST, FPGA, described
from tests.agent.killedagent import killed_agent
from tests.agent.places import H100
from tests.agent.simulatednode import MakeNode, SimulatedNode

VIDEO = {"type": "video", "driver": "video.example.com", "match": {"path": "/sys/class/video4linux/*"}}
_START = 60
"""Seconds for an agent that is a process of its own."""


def configure(node: SimulatedNode, host: FpgaHost, *kinds: Any) -> Path:
    """Have the node's agents take these kinds of devices beside its simulated cards."""
    file = node.folder / "devices.yaml"
    file.write_text(yaml.safe_dump({"devices": [*kinds]}))
    node.options = replace(node.options, backend="simulated", generic_devices=file, host_root=host.root)
    return file


async def served(node: SimulatedNode) -> None:
    """Wait until kubelet would find the driver: plugins are started one after the other."""
    socket = node.folder / f"r/{FPGA}-reg.sock"

    async def there() -> bool:
        return socket.exists()

    await eventually(there, bool)


async def prepared(node: SimulatedNode, claim: Json) -> str:
    """Prepare a claim of an FPGA; returns the error."""
    await served(node)
    return await node.prepared(claim, driver=FPGA)


async def test_an_fpga_is_published_and_prepared_beside_a_gpu(
    make_node: MakeNode, namespace: str, host: FpgaHost
) -> None:
    """Under its own driver, with a plugin and a health stream of its own, by the rights of an agent."""
    async with make_node(cards=[H100]) as node:
        configure(node, host, described())
        async with node.agent():
            await served(node)
            assert (await node.registered(FPGA)).name == FPGA
            devices = await eventually(lambda: node.devices(FPGA), bool)
            assert set(devices) == {"fpga-0", "fpga-1"}
            assert [taint["key"] for taint in devices["fpga-1"]["taints"]] == ["apportion.dev/guard"]
            assert "gpu-0" in await node.devices()
            claim = await node.claim(namespace, "mine", "fpga-1", driver=FPGA)
            assert await prepared(node, claim) == ""
            ((name, file),) = node.cdi().items()
            assert name == f"{FPGA}_{claim['metadata']['uid']}.json"
            given = file["devices"][0]["containerEdits"]
            assert given["deviceNodes"] == [
                {"path": "/dev/example/example_fpga121", "type": "c", "major": 10, "minor": 121}
            ]
            assert f"EXAMPLE_FPGA={FIRST}" in given["env"]
            assert "APPORTION_R0_UUID=FPGA-XF-9d" in given["env"]
            async with node.health(driver=FPGA) as lists:
                assert {name: row.health for name, row in (await anext(lists)).items()} == {
                    "fpga-0": 1,
                    "fpga-1": 1,
                }
            assert await node.unprepared(claim, driver=FPGA) == ""
            assert node.cdi() == {}


async def test_files_of_a_prepared_claim_follow_the_device_number(
    make_node: MakeNode, namespace: str, host: FpgaHost
) -> None:
    """A container that restarts after a reload of the driver gets the number of then."""
    async with make_node() as node:
        configure(node, host, described())
        async with killed_agent_of(node):
            await eventually(lambda: node.devices(FPGA), bool, within=_START)
            claim = await node.claim(namespace, "mine", "fpga-1", driver=FPGA)
            assert await prepared(node, claim) == ""
            host.number(FIRST)

            async def minors() -> list[int]:
                return [
                    row["minor"]
                    for file in node.cdi().values()
                    for row in file["devices"][0]["containerEdits"]["deviceNodes"]
                ]

            assert await eventually(minors, lambda found: found == [123])


def killed_agent_of(node: SimulatedNode) -> AbstractAsyncContextManager[Any]:
    """Run the agent as a process of its own, which `node.agent` does only for simulated cards."""
    return killed_agent(node, "never")


async def test_a_broken_kind_costs_nobody_the_others_and_is_on_the_node(
    make_node: MakeNode, namespace: str, host: FpgaHost
) -> None:
    """GPUs and the other kind are served; the Event names file, field and reason."""
    async with make_node(cards=[H100]) as node:
        file = configure(node, host, described(), VIDEO | {"match": {"path": "/dev/video0"}})
        async with node.agent():
            assert set(await eventually(lambda: node.devices(FPGA), bool)) == {"fpga-0", "fpga-1"}
            (event,) = await eventually(lambda: node.events("BrokenConfiguration"), bool)
            assert event["message"] == f"{file}: devices[1].match.path: '/dev/video0' is not below /sys/"
            assert await node.events("DriverMissing") == []
            claim = await node.claim(namespace, "mine", "gpu-0")
            assert await node.prepared(claim) == ""


async def test_what_a_kind_published_stays_while_its_description_is_broken(
    make_node: MakeNode, namespace: str, host: FpgaHost
) -> None:
    """The node may have the devices; a claim of one is unprepared all the same."""
    async with make_node(cards=[H100]) as node:
        configure(node, host, described())
        async with node.agent():
            before = await eventually(lambda: node.devices(FPGA), bool)
            claim = await node.claim(namespace, "mine", "fpga-0", driver=FPGA)
            assert await prepared(node, claim) == ""
        configure(node, host, described() | {"match": {}})
        async with node.agent():
            await eventually(lambda: node.events("BrokenConfiguration"), bool)
            assert await node.devices(FPGA) == before
            later = await node.claim(namespace, "later", "fpga-1", driver=FPGA)
            assert "fpga-1 does not exist on this node" in await prepared(node, later)
            assert await node.unprepared(claim, driver=FPGA) == ""
            assert node.cdi() == {}


async def test_a_kind_that_is_configured_no_more_is_published_no_more(
    make_node: MakeNode, namespace: str, host: FpgaHost
) -> None:
    """Its slices go, also when no agent knows its driver any more; kubelet unprepares what was prepared."""
    async with make_node(cards=[H100]) as node:
        configure(node, host, described())
        async with node.agent():
            await eventually(lambda: node.devices(FPGA), bool)
            claim = await node.claim(namespace, "mine", "fpga-0", driver=FPGA)
            assert await prepared(node, claim) == ""
        configure(node, host)
        async with node.agent():
            await eventually(lambda: node.slices(FPGA), lambda slices: slices == [])
            assert "gpu-0" in await node.devices()
            await served(node)
            assert await node.unprepared(claim, driver=FPGA) == ""
        async with node.agent():
            assert not (node.folder / f"r/{FPGA}-reg.sock").exists()


async def test_the_agent_starts_anew_when_the_configuration_changes(
    make_node: MakeNode, host: FpgaHost
) -> None:
    """A mounted ConfigMap is renewed in place."""
    async with make_node(cards=[H100]) as node:
        file = configure(node, host)
        async with killed_agent_of(node) as agent:
            await eventually(node.devices, bool, within=_START)
            file.write_text(yaml.safe_dump({"devices": [described()]}))
            assert await agent.ended() == 1
            await agent.start()
            found = await eventually(lambda: node.devices(FPGA), bool, within=_START)
            assert set(found) == {"fpga-0", "fpga-1"}


async def test_names_are_kept_when_the_journal_is_lost(make_node: MakeNode, host: FpgaHost) -> None:
    """By the slices: the card that is first on the bus now is not the one that was first."""
    async with make_node(cards=[H100]) as node:
        configure(node, host, described())
        async with node.agent():
            before = await eventually(lambda: node.devices(FPGA), bool)
        (node.folder / "state/journal.db").unlink()
        host.add("0000:01:00.0", bridge="00")
        async with node.agent():
            after = await eventually(lambda: node.devices(FPGA), lambda found: len(found) == 3)
        for name, device in before.items():
            assert after[name]["attributes"]["uuid"] == device["attributes"]["uuid"]
        assert after["fpga-2"]["attributes"]["uuid"] == {"string": "FPGA-XF-01"}


async def test_a_value_that_changes_is_published(make_node: MakeNode, host: FpgaHost) -> None:
    """So that a claim that asks for free regions finds them."""
    async with make_node(cards=[H100]) as node:
        configure(node, host, described())
        async with node.agent():
            await eventually(lambda: node.devices(FPGA), bool)
            host.say(FIRST, "free_regions", "2")

            async def free() -> object:
                return (await node.devices(FPGA))["fpga-1"]["attributes"]["freeRegions"]

            assert await eventually(free, lambda found: found == {"int": 2})
