"""The whole agent on the fake driver and a real API server: killed inside the driver's calls, nothing is lost or left."""

import pytest

from testbed.eventually import eventually
from tests.agent.ascend.nodes import MakeFake
from tests.agent.killedagent import journal_steps, killed_agent
from tests.agent.places import NPU
from tests.agent.simulatednode import holder

DEVICE = "npu-0-vir05-1c-8g-2"
TEMPLATE = "vir05_1c_8g"
CALLS = [
    *(
        (call, False, after)
        for call in ("dcmi_set_vnpu_config_recover_mode", "dcmi_create_vdevice", "dcmi_set_destroy_vdevice")
        for after in (False, True)
    ),
    # Somebody else's vNPU keeps the driver's recovery on: then each call also writes its file. A removal killed before that
    # leaves a line that nobody but the host's npu-smi strikes out.
    ("dcmi_create_vdevice.save", True, False),
    ("dcmi_create_vdevice.save", True, True),
    ("dcmi_set_destroy_vdevice.save", True, True),
]


@pytest.mark.parametrize(("call", "foreign", "after"), CALLS, ids=str)
async def test_a_kill_inside_a_driver_call_is_made_good(
    faked: MakeFake, namespace: str, call: str, *, foreign: bool, after: bool
) -> None:
    """One vNPU, never two; its device file in the container; at the end only what is not ours is left, and comes back."""
    async with faked("910B4", recover=True, mounted=True) as (node, fake):
        if foreign:
            fake.create_by_hand(0, TEMPLATE, 115)
        theirs = fake.vnpus()
        fake.kill(call, after=after)
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "lives", DEVICE, driver=NPU)
            uid = claim["metadata"]["uid"]
            await node.partition(DEVICE, TEMPLATE, holder=holder(claim), driver=NPU)
            ready = await agent.insist(lambda: node.phase(DEVICE, "Ready"))
            (live,) = (row for row in fake.vnpus() if row not in theirs)
            assert live.template == TEMPLATE
            assert ready["status"]["instance"] == {"vnpu": str(live.id)}
            assert ready["status"]["uuid"].endswith(f"-{live.id}")
            answer = await agent.insist(lambda: node.prepare(claim, driver=NPU))
            assert answer[uid].error == ""
            (cdi,) = node.cdi().values()
            edits = cdi["devices"][0]["containerEdits"]
            assert {
                "path": f"/dev/davinci{live.id}", "hostPath": f"/dev/vdavinci{live.id}"
            } in edits["deviceNodes"]  # fmt: skip
            assert "ASCEND_VISIBLE_DEVICES=void" in edits["env"]
            await agent.insist(lambda: node.unprepare(claim, driver=NPU))
            assert live in fake.vnpus()
            await node.remove(DEVICE)
            await agent.insist(lambda: eventually(lambda: node.see(DEVICE), lambda item: item == {}))
            assert fake.vnpus() == theirs
            assert fake.recovers == foreign
            fake.reboot()
            assert [row.id for row in fake.vnpus()] == [row.id for row in theirs]
            assert journal_steps(node) == ([], [])
            assert agent.deaths == 1


@pytest.mark.parametrize("mounted", [False, True], ids=["a file of its own", "the host's file"])
@pytest.mark.parametrize("model", ["310P", "910A"])
async def test_after_a_reboot_there_is_one_vnpu_for_its_claim_and_none_without_one(
    faked: MakeFake, namespace: str, model: str, *, mounted: bool
) -> None:
    """The agent cuts in a privileged container; with the host's vnpu.cfg there, the driver makes the vNPU before the agent looks."""
    device = "npu-0-vir02-2"
    async with faked(model, recover=True, mounted=mounted) as (node, fake):
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "lives", device, driver=NPU)
            uid = claim["metadata"]["uid"]
            await node.partition(device, "vir02", holder=holder(claim), driver=NPU)
            assert (await agent.insist(lambda: node.prepare(claim, driver=NPU)))[uid].error == ""
            (before,) = fake.vnpus()
        fake.reboot()
        assert len(fake.vnpus()) == int(mounted)
        (node.folder / "boot").write_text("second boot", encoding="utf-8")
        for path in (node.folder / "cdi").iterdir():
            path.unlink()
        async with killed_agent(node, "never") as agent:
            assert (await agent.insist(lambda: node.prepare(claim, driver=NPU)))[uid].error == ""
            (after,) = fake.vnpus()
            assert (after.id, after.template) == (before.id, before.template)
            await agent.insist(lambda: node.unprepare(claim, driver=NPU))
            await node.remove(device)
            await agent.insist(lambda: eventually(lambda: node.see(device), lambda item: item == {}))
        fake.reboot()
        assert fake.vnpus() == ()


async def test_a_foreign_vnpu_is_subtracted_and_left_alone(faked: MakeFake) -> None:
    """Beside ours on one chip, and the id that it has is not asked for."""
    async with faked("910B4") as (node, fake):
        fake.create_by_hand(0, "vir10_3c_16g", 100)
        async with killed_agent(node, "never") as agent:
            await node.partition(DEVICE, TEMPLATE, driver=NPU, origin="Warm")
            await agent.insist(lambda: node.phase(DEVICE, "Idle"))
            assert [(row.id, row.template) for row in fake.vnpus()] == [
                (100, "vir10_3c_16g"),
                (101, TEMPLATE),
            ]
            counters = await eventually(lambda: node.counters("npu-0", NPU), bool)
            assert (counters["aicore"], counters["aicpu"]) == ("10", "4")
            fake.remove_by_hand(100)
            await eventually(lambda: node.counters("npu-0", NPU), lambda row: row.get("aicore") == "20")


async def test_a_chip_that_does_not_answer_has_lost_nothing(faked: MakeFake) -> None:
    """Its vNPU stays Ready and in the journal while nobody can see it, and goes only when it was seen to go."""
    async with faked("910B4", "910B4") as (node, fake), killed_agent(node, "never") as agent:
        await node.partition(DEVICE, TEMPLATE, driver=NPU, origin="Warm")
        await agent.insist(lambda: node.phase(DEVICE, "Idle"))
        (made,) = fake.vnpus()
        fake.lose(0)
        taints = await eventually(
            lambda: node.devices(NPU),
            lambda rows: any(
                taint.get("value") == "lost" for taint in rows.get("npu-0", {}).get("taints", ())
            ),
        )
        assert all(taint.get("value") != "lost" for taint in taints["npu-1"]["taints"])
        await node.remove(DEVICE)
        # A partition on the other chip shows that the agent goes on meanwhile.
        await node.partition("npu-1-vir05-1c-8g-0", TEMPLATE, driver=NPU, origin="Warm")
        await agent.insist(lambda: node.phase("npu-1-vir05-1c-8g-0", "Idle"))
        assert (await node.see(DEVICE))["metadata"]["deletionTimestamp"]
        assert journal_steps(node)[0] == ["Ready", "Ready"]
        assert made in fake.vnpus()
        fake.heal()
        await agent.insist(lambda: eventually(lambda: node.see(DEVICE), lambda item: item == {}))
        assert made not in fake.vnpus()


async def test_a_lost_chip_fails_what_is_asked_of_it(faked: MakeFake) -> None:
    """So that the claim can go elsewhere; the reason is told."""
    async with faked("910B4", "910B4") as (node, fake), killed_agent(node, "never") as agent:
        await agent.insist(lambda: eventually(lambda: node.devices(NPU), lambda rows: "npu-0" in rows))
        fake.lose(0)
        await node.partition(DEVICE, TEMPLATE, driver=NPU, origin="Warm")
        failed = await agent.insist(lambda: node.phase(DEVICE, "Failed"))
        assert "Lost" in {row["reason"] for row in failed["status"]["conditions"]}


async def test_a_chip_that_is_ready_late_is_taken_up(faked: MakeFake) -> None:
    """A driver takes its time after a boot. What the journal knows of such a chip stays until somebody can look."""
    async with faked("910B4", "910B4") as (node, fake):
        async with killed_agent(node, "never") as agent:
            await node.partition(DEVICE, TEMPLATE, driver=NPU, origin="Warm")
            await agent.insist(lambda: node.phase(DEVICE, "Idle"))
        (made,) = fake.vnpus()
        fake.lose(0)
        async with killed_agent(node, "never") as agent:
            await node.remove(DEVICE)
            await eventually(lambda: node.devices(NPU), lambda rows: "npu-1" in rows and "npu-0" not in rows)
            await node.partition("npu-1-vir05-1c-8g-0", TEMPLATE, driver=NPU, origin="Warm")
            await agent.insist(lambda: node.phase("npu-1-vir05-1c-8g-0", "Idle"))
            assert made in fake.vnpus()
            assert journal_steps(node)[0].count("Ready") == 2
            fake.heal()
            await eventually(lambda: node.devices(NPU), lambda rows: "npu-0" in rows)
            await agent.insist(lambda: eventually(lambda: node.see(DEVICE), lambda item: item == {}))
            assert made not in fake.vnpus()


async def test_a_driver_that_refuses_without_a_reason_fails_the_partition(faked: MakeFake) -> None:
    """After some patience, with the driver's words, and without a trace in the journal."""
    async with faked("910B4") as (node, fake):
        fake.fail("dcmi_create_vdevice", -8005, times=-1)
        async with killed_agent(node, "never", timeouts={"room": 2}) as agent:
            await node.partition(DEVICE, TEMPLATE, driver=NPU, origin="Warm")
            failed = await agent.insist(lambda: node.phase(DEVICE, "Failed", within=50))
            row = next(one for one in failed["status"]["conditions"] if one["reason"] == "Refused")
            assert "dcmi_create_vdevice: internal error (-8005)" in row["message"]

            async def steps() -> list[str]:
                return journal_steps(node)[0]

            # It is tried again now and then; in between nothing is written down.
            await eventually(steps, lambda rows: rows == [])
