"""A GPU keeps its name for good: indices of the driver's list shift when GPUs leave it, and names must not."""

import asyncio
import json
import os
import sys
from dataclasses import replace
from typing import Any

import pytest

from apportion.agent.devices.values import Health
from apportion.agent.settings import BOOT_ID
from apportion.errors import Lost
from testbed.api import Json
from testbed.eventually import eventually
from testbed.fakes.nvml.library import FakeNvml
from tests.agent.killedagent import KilledAgent, killed_agent
from tests.agent.kubelet.claimentries import says
from tests.agent.nvml.nodes import MakeFake, Node, Nodes
from tests.agent.places import GPU
from tests.agent.simulatednode import SimulatedNode, holder

MODEL = "H100-80GB"
PARTITION = "gpu-2-mig-1g10gb-19-0"


def _uuid(fake: FakeNvml, gpu: int) -> str:
    return str(fake.read().gpu[gpu].uuid.decode())


async def _names(node: SimulatedNode) -> dict[str, str]:
    """Return the published whole GPUs: UUIDs by name."""
    found = await node.devices()
    facts = {name: device["attributes"] for name, device in found.items()}
    return {name: one["uuid"]["string"] for name, one in facts.items() if one["type"]["string"] == "gpu"}


def _gpu_files(node: SimulatedNode, claim: Json) -> list[str]:
    """Return the device files of GPUs that the container of a claim gets."""
    (file,) = (cdi for name, cdi in node.cdi().items() if claim["metadata"]["uid"] in name)
    nodes = file["devices"][0]["containerEdits"]["deviceNodes"]
    return [each["path"] for each in nodes if each["path"].removeprefix("/dev/nvidia").isdigit()]


async def _prepared(agent: KilledAgent, node: SimulatedNode, claim: Json, driver: str = GPU) -> str:
    """Have kubelet prepare a claim; returns the error's text."""
    answer = await agent.insist(lambda: node.prepare(claim, driver=driver))
    return str(answer[claim["metadata"]["uid"]].error)


async def _command(node: SimulatedNode, *words: str) -> tuple[int, Any]:
    """Run a command of people on the node; returns its exit status, and its answer or error."""
    options = node.options
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "apportion", "node", "--backend=nvml", f"--host-root={options.host_root}"),
        *(f"--state-dir={options.state_dir}", *words, "--output=json"),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, error = await command.communicate()
    return command.returncode or 0, json.loads(said) if said else error.decode()


async def test_a_gpu_that_leaves_the_drivers_list_takes_no_others_name(
    faked: MakeFake, namespace: str
) -> None:
    """Prepared claims keep their GPU and their partition, its own claims are refused, and it comes back under its name."""
    async with faked(*[MODEL] * 3) as (node, fake):
        before = {f"gpu-{number}": _uuid(fake, number) for number in range(3)}
        gone = await node.claim(namespace, "gone", "gpu-0")
        kept = await node.claim(namespace, "kept", "gpu-1")
        part = await node.claim(namespace, "part", PARTITION)
        await node.partition(PARTITION, "1g.10gb", holder=holder(part))
        async with killed_agent(node, "never") as agent:
            for claim in (gone, kept, part):
                assert await _prepared(agent, node, claim) == ""
            files = node.cdi()
            assert _gpu_files(node, kept) == [f"/dev/nvidia{fake.read().gpu[1].minor}"]
        instances = fake.instances()
        assert [one.gpu for one in instances] == [2]
        fake.take(0)
        async with killed_agent(node, "never") as agent:
            for claim in (kept, part):
                assert await _prepared(agent, node, claim) == ""
            assert _gpu_files(node, kept) == [f"/dev/nvidia{fake.read().gpu[1].minor}"]
            assert "gpu-0 does not exist on this node" in await _prepared(agent, node, gone)
            assert node.cdi() == files
            await node.phase(PARTITION, "Ready")
            assert fake.instances() == instances
            there = {name: before[name] for name in ("gpu-1", "gpu-2")}
            await eventually(lambda: _names(node), lambda found: found == there)
            _, found = await _command(node, "discover")
            assert {card["name"]: card["uuid"] for card in found["cards"]} == there
            fake.give_back(0)
            await eventually(lambda: _names(node), lambda found: found == before)
            assert await _prepared(agent, node, gone) == ""
            assert node.cdi() == files


async def test_a_partition_on_a_gpu_that_left_is_not_taken_for_gone(faked: MakeFake, namespace: str) -> None:
    """What became of it is unknown: its object stays until the GPU is back, then the partition is removed from it."""
    device = "gpu-1-mig-1g10gb-19-0"
    async with faked(*[MODEL] * 2) as (node, fake):
        claim = await node.claim(namespace, "c", device)
        await node.partition(device, "1g.10gb", holder=holder(claim))
        async with killed_agent(node, "never"):
            await node.phase(device, "Ready")
        (made,) = fake.instances()
        fake.take(1)
        async with killed_agent(node, "never"):
            await node.remove(device)
            log = node.folder / "agent.log"

            async def said() -> str:
                return log.read_text()

            await eventually(said, lambda text: "gpu-1: it was not found when GPUs were looked for" in text)
            assert "deletionTimestamp" in (await node.see(device))["metadata"]
            assert fake.instances() == (made,)
            fake.give_back(1)
            await eventually(lambda: node.see(device), lambda item: item == {})
            assert fake.instances() == ()


async def test_a_gpu_that_left_is_not_taken_for_well(faked: MakeFake, namespace: str) -> None:
    """Its claims keep what their statuses say, also under the next agent: nobody knows how it is."""
    sick = ("False", "Sick")
    async with faked(MODEL, MODEL) as (node, fake):
        async with killed_agent(node, "never") as agent:
            claims = [await node.claim(namespace, f"claim-{n}", f"gpu-{n}") for n in range(2)]
            assert [await _prepared(agent, node, claim) for claim in claims] == ["", ""]
            fake.ecc(0, 3)
            await eventually(lambda: says(node.api, claims[0]), lambda found: found == sick)
        fake.take(0)
        fake.ecc(1, 3)
        async with killed_agent(node, "never"):
            await eventually(lambda: says(node.api, claims[1], "gpu-1"), lambda found: found == sick)
            assert await says(node.api, claims[0]) == sick


async def test_a_person_says_that_a_gpu_left_for_good(faked: MakeFake, namespace: str) -> None:
    """Its partitions go with it, and the next new GPU gets its name; not while a claim has it, nor one that is there."""
    device = "gpu-1-mig-1g10gb-19-0"
    async with faked(*[MODEL] * 3) as (node, fake):
        # The command has no option for it, and another boot means that no claim is prepared.
        node.options = replace(node.options, boot_id=BOOT_ID)
        fake.take(2)
        claim = await node.claim(namespace, "c", device)
        await node.partition(device, "1g.10gb", holder=holder(claim))
        async with killed_agent(node, "never") as agent:
            assert await _prepared(agent, node, claim) == ""
        uuid = _uuid(fake, 1)
        assert "gpu-1 is GPU-" in (await _command(node, "forget", "gpu-1"))[1]
        fake.take(1)
        async with killed_agent(node, "never") as agent:
            status, error = await _command(node, "forget", "gpu-1")
            assert (status, "has a device of gpu-1 prepared" in error) == (1, True)
            await agent.insist(lambda: node.unprepare(claim))
            await node.remove(device)
            found = {"card": "gpu-1", "uuid": uuid, "partitions": [f"{node.name}-{device}"], "parts": []}
            assert await _command(node, "forget", "gpu-1") == (0, found)
            await eventually(lambda: node.see(device), lambda item: item == {})
        fake.give_back(2)
        async with killed_agent(node, "never"):
            names = {"gpu-0": _uuid(fake, 0), "gpu-1": _uuid(fake, 2)}
            await eventually(lambda: _names(node), lambda found: found == names)


async def test_after_the_journal_was_lost_the_slices_tell_the_names(faked: MakeFake) -> None:
    """They are what claims were allocated by; NVML's order of today is not."""
    async with faked(*[MODEL] * 2) as (node, fake):
        async with killed_agent(node, "never"):
            await eventually(lambda: _names(node), lambda found: len(found) == 2)
        fake.take(0)
        for file in (node.folder / "state").glob("journal.db*"):
            file.unlink()
        async with killed_agent(node, "never"):
            await eventually(lambda: _names(node), lambda found: found == {"gpu-1": _uuid(fake, 1)})


def test_a_new_gpu_gets_a_name_that_none_had(node_with: Nodes) -> None:
    """It stands before the others in NVML's list, and in the place of one that left: claims may still speak of that one."""
    node = node_with([MODEL] * 4)
    node.fake.take(3)
    first = {card.uuid: card.name for card in node.backend.devices()}
    assert sorted(first.values()) == ["gpu-0", "gpu-1", "gpu-2"]
    node.fake.take(1)
    node.fake.give_back(3, bus="0000:01:00.0")
    now = {card.uuid: card.name for card in node.backend.devices()}
    assert now == {**first, _uuid(node.fake, 3): "gpu-3"}
    assert node.backend.health() == {"gpu-1": Health.LOST}


def test_a_gpu_in_another_slot_keeps_its_name(node: Node) -> None:
    """Both get other indices; the name belongs to the card."""
    before = {card.name: card.uuid for card in node.backend.devices()}
    node.fake.give_back(1, bus="0000:01:00.0")
    assert {card.name: card.uuid for card in node.backend.devices()} == before


def test_nobody_knows_what_is_on_a_gpu_that_left(node: Node) -> None:
    """A list without it is no proof that its partitions are gone."""
    node.backend.devices()
    node.fake.take(0)
    node.backend.devices()
    assert node.backend.incomplete()
    with pytest.raises(Lost, match="gpu-0"):
        node.backend.partitions_of("gpu-0")
