"""Claims of a lost journal: their files alone say what containers have, also on cards that do not answer when the next agent starts."""

from contextlib import closing
from pathlib import Path

import pytest

from apportion.agent.backends import Found
from apportion.agent.cdi import CdiFolder
from apportion.agent.devices.cardcalls import CardCalls
from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.discovery import Discovery
from apportion.agent.driverpause import DriverPause
from apportion.agent.kubelet.claimfiles import prepared_cards
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.kubelet.metadata import MetadataFolder
from apportion.agent.kubelet.recoverclaims import recover_claims
from apportion.agent.ownnode import OwnNode
from apportion.agent.settings import AgentOptions
from apportion.cluster.client import Object
from apportion.cluster.kinds import CLAIMS
from apportion.errors import NotReady
from testbed.eventually import eventually
from tests.agent.journal.smalldisk import small_disk
from tests.agent.kubelet.filesbelow import REF, preparer, written
from tests.agent.lifecycle.onecard import DEVICE, OneCard, one_card
from tests.agent.lifecycle.test_silent_cards import silence
from tests.agent.nvml.nodes import Nodes
from tests.agent.places import GPU, H100, MakeBackend
from tests.cluster.apiserver import failed

OWNER = ClaimRef("default", "c", "f0000000-0000-4000-8000-00000000000c")
MONITOR = ClaimRef("default", "monitor", "00000000-0000-4000-8000-000000000000")
"""Files are read in the order of UIDs."""


async def recollected(folder: Path, node: OneCard) -> int:
    """Recover as an agent does that starts."""
    metadata = MetadataFolder(folder / "p" / GPU, GPU)
    return await recover_claims(node.context, CdiFolder(folder / "cdi"), metadata, driver=GPU, node="n")


async def cut_for_claim(node: OneCard) -> None:
    """Cut a partition that the claim holds."""
    node.partition(
        "p1", holder={"kind": "ResourceClaim", "namespace": REF.namespace, "name": REF.name, "uid": REF.uid}
    )
    await node.work()


async def test_a_claim_whose_card_does_not_answer_is_recollected(tmp_path: Path, make_gpus: Nodes) -> None:
    """Its partition is unknown, not gone: a container that restarts needs the files, and nobody else gets the partition."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        await cut_for_claim(node)
        await preparer(tmp_path, node, DEVICE).prepare(REF)
        seen = node.items
    async with one_card(tmp_path, gpu.anew(), "lost", seen=seen) as node:
        silence(gpu)
        assert await recollected(tmp_path, node) == 1
        await preparer(tmp_path, node, DEVICE).remove_orphans()
        assert CdiFolder(tmp_path / "cdi").claims(GPU) == {REF.uid}
        (row,) = node.context.users("p1")
        assert row.key == REF.key


async def test_a_claim_is_not_forgotten_because_its_card_is_not_there_yet(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """Another card answers. Its claim has a row before the card comes, which needs no new start: nobody else may have it for a moment."""
    gpus = make_gpus(["H100-80GB"] * 3)
    async with one_card(tmp_path, gpus.backend) as node:
        await preparer(tmp_path, node, "gpu-1").prepare(REF)
        uuid = node.context.hardware.cards["gpu-1"].uuid
    gpus.backend.close()
    # The third one stays away: there may be more to find all the time.
    gpus.fake.lose(2)
    gpus.fake.hang("*", card=1)
    with closing(NvmlBackend(gpus.root, calls=CardCalls(3.0))) as backend:
        async with one_card(tmp_path, backend, "lost") as node:
            assert [*node.context.hardware.cards] == ["gpu-0"]
            assert await recollected(tmp_path, node) == 1
            (row,) = node.context.journal.claims()
            assert [(each.device, each.card, each.card_uuid) for each in row.devices] == [
                ("gpu-1", "gpu-1", uuid)
            ]
            assert await preparer(tmp_path, node, "gpu-1").remove_orphans() == 0
            options = AgentOptions("n", cdi_dir=tmp_path / "cdi", plugins_dir=tmp_path / "p")
            pause = DriverPause(OwnNode(node.api, "n"), node.context.hardware, why="", interval=1.0)
            discovery = Discovery(options, node.context, Found((backend,)), pause)
            assert await discovery.later() == frozenset()
            gpus.fake.drop_rules()
            assert await eventually(discovery.later, bool) == {"gpu-1"}
            with pytest.raises(NotReady, match=f"is held by ResourceClaim {REF.key}"):
                node.prepared("other", "gpu-1", card="gpu-1")
            await preparer(tmp_path, node, "gpu-1").prepare(REF)


@pytest.mark.slow
async def test_files_that_a_reboot_left_are_removed_before_their_card_is_there(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """The folder is on a disk and the driver comes late: the agent that starts anew for it would take the files for a claim's that runs."""
    gpu = make_gpus()
    async with one_card(tmp_path, gpu.backend) as node:
        await preparer(tmp_path, node, "gpu-0").prepare(REF)
    gpu.fake.unload()
    async with one_card(tmp_path, gpu.anew(), boot="next") as node:
        assert node.context.hardware.cards == {}
        assert await preparer(tmp_path, node, "gpu-0").remove_orphans() == 1
    gpu.fake.unload(loaded=True)
    async with one_card(tmp_path, gpu.anew(), boot="next") as node:
        assert [*node.context.hardware.cards] == ["gpu-0"]
        assert await recollected(tmp_path, node) == 0


@pytest.mark.slow
async def test_files_of_a_later_release_are_read_in_the_version_that_is_known(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """After a downgrade and a lost journal the agent would end at each start, and no pod of the node with a claim could end."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        await preparer(tmp_path, node, "gpu-0").prepare(REF)
    (file,) = (tmp_path / "p" / GPU).glob(f"*/{REF.uid}/*/metadata.json")
    newest = '{"apiVersion": "metadata.resource.k8s.io/v1", "kind": "DeviceMetadata", "claims": []}'
    file.write_text(f"{newest}\n[]\n{file.read_text()}")
    async with one_card(tmp_path, backend, "lost") as node:
        assert await recollected(tmp_path, node) == 1
        (row,) = node.context.journal.claims()
        assert [device.device for device in row.devices] == ["gpu-0"]
    file.write_text(newest)
    async with one_card(tmp_path, backend, "lost-too") as node:
        assert await recollected(tmp_path, node) == 0


async def test_a_claim_that_is_recollected_while_the_api_is_silent_is_the_same_in_whatever_order_its_files_name_devices(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Files name GPUs as they form a ring, the claim as they were chosen: its files could not be made anew for the rest of its life."""
    backend = make_backend(cards=[H100 | {"count": 2}])
    async with one_card(tmp_path, backend) as node:
        await preparer(tmp_path, node, "gpu-1", "gpu-0").prepare(REF)
    async with one_card(tmp_path, backend, "lost") as node:
        node.server.fault = lambda _: failed(503, "etcd has no leader")
        assert await recollected(tmp_path, node) == 1
        node.server.fault = lambda _: None
        devices = await preparer(tmp_path, node, "gpu-1", "gpu-0").prepare(REF)
        assert {device.device for device in devices} == {"gpu-0", "gpu-1"}


def looks(*devices: str) -> Object:
    """Return the claim as the API has it, with admin access."""
    claim = written(*devices)
    for result in claim["status"]["allocation"]["devices"]["results"]:
        result["adminAccess"] = True
    return claim


@pytest.mark.parametrize("confirmed", [OWNER, MONITOR, None], ids=["owner", "monitor", "neither"])
async def test_of_two_claims_with_one_device_the_one_with_admin_access_keeps_no_other_off(
    tmp_path: Path, make_backend: MakeBackend, confirmed: ClaimRef | None
) -> None:
    """Files do not say which one it is; the API says it of those that it still has. Where it knows neither, the device is free after both."""
    backend = make_backend(cards=[H100])
    claims = {
        OWNER: written("gpu-0", uid=OWNER.uid),
        MONITOR: looks("gpu-0")
        | {"metadata": {"namespace": "default", "name": "monitor", "uid": MONITOR.uid}},
    }
    async with one_card(tmp_path, backend) as node:
        for ref, claim in claims.items():
            node.server.put(CLAIMS, claim)
            await preparer(tmp_path, node, known=False).prepare(ref)
    async with one_card(tmp_path, backend, "lost") as node:
        if confirmed is not None:
            node.server.put(CLAIMS, claims[confirmed])
        assert await recollected(tmp_path, node) == 2
        served = preparer(tmp_path, node, known=False)
        assert await served.remove_orphans() == 0
        assert CdiFolder(tmp_path / "cdi").claims(GPU) == {OWNER.uid, MONITOR.uid}
        rows = {row.uid: row.devices[0].admin for row in node.context.journal.claims()}
        assert rows == {OWNER.uid: False, MONITOR.uid: confirmed is not None}
        if confirmed is not None:
            await served.prepare(confirmed)
        await served.unprepare(OWNER)
        if confirmed is None:
            with pytest.raises(NotReady, match="is held by ResourceClaim default/monitor"):
                node.prepared("other", "gpu-0")
            await served.unprepare(MONITOR)
        node.prepared("other", "gpu-0")


async def test_a_monitor_that_is_recollected_while_the_api_is_silent_keeps_nobody_off_once_it_answers(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Its files do not say that it only looks at the card: nobody got that one as long as the monitor ran, which is for ever."""
    backend = make_backend(cards=[H100])
    claim = looks("gpu-0")
    async with one_card(tmp_path, backend) as node:
        node.server.put(CLAIMS, claim)
        await preparer(tmp_path, node, known=False).prepare(REF)
    async with one_card(tmp_path, backend, "lost") as node:
        node.server.put(CLAIMS, claim)
        node.server.fault = lambda _: failed(503, "etcd has no leader")
        assert await recollected(tmp_path, node) == 1
        held = HeldClaims(node.context)
        await held.check()
        with pytest.raises(NotReady, match=f"is held by ResourceClaim {REF.key}"):
            node.prepared("other", "gpu-0")
        node.server.fault = lambda _: None
        await held.check()
        node.prepared("other", "gpu-0")


async def test_a_claim_that_cannot_be_written_down_ends_the_start(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Its files would pass for those of a claim that is gone, and its device for free, once the disk has room. The next start tries again."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        await preparer(tmp_path, node, "gpu-0").prepare(REF)
    with small_disk(tmp_path / "disk") as disk:
        async with one_card(disk.folder, backend, "lost") as node:
            disk.fill()
            with pytest.raises(NotReady, match="cannot be written"):
                await recollected(tmp_path, node)
            disk.free()
            assert await recollected(tmp_path, node) == 1


@pytest.mark.parametrize("other", ["gpu-1", ""], ids=["with another device", "alone"])
async def test_a_claim_whose_partition_is_gone_is_recollected_for_its_other_devices(
    tmp_path: Path, make_backend: MakeBackend, other: str
) -> None:
    """Its container goes on with these, and with less in its row than the claim has it could not start anew. With none of them no container can run."""
    backend = make_backend(cards=[H100 | {"count": 2}])
    devices = [DEVICE, other] if other else [DEVICE]
    async with one_card(tmp_path, backend) as node:
        await cut_for_claim(node)
        await preparer(tmp_path, node, *devices).prepare(REF)
        (live,) = await node.live()
        await node.context.hardware.destroy(live)
    async with one_card(tmp_path, backend, "lost") as node:
        assert await recollected(tmp_path, node) == len(devices) - 1
        rows = node.context.journal.claims()
        assert [[device.device for device in row.devices] for row in rows] == ([devices] if other else [])


async def test_files_of_prepared_claims_tell_which_card_had_which_name(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """That of a partition, too. Files that are left of a claim without its CDI file may be of another time."""
    backend = make_backend(cards=[H100 | {"count": 2}])
    async with one_card(tmp_path, backend) as node:
        await cut_for_claim(node)
        await preparer(tmp_path, node, DEVICE, "gpu-1").prepare(REF)
        uuids = {card.name: card.uuid for card in node.context.hardware.cards.values()}
    cdi, metadata = CdiFolder(tmp_path / "cdi"), MetadataFolder(tmp_path / "p" / GPU, GPU)
    assert prepared_cards(cdi, metadata, GPU) == uuids
    cdi.remove(GPU, REF.uid)
    assert prepared_cards(cdi, metadata, GPU) == {}


async def test_a_claim_stays_with_the_card_that_its_files_name_by_uuid(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Another card has the name by now. Its containers do not run on that one, and no files are written for it."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        await preparer(tmp_path, node, "gpu-0").prepare(REF)
        uuid = node.context.hardware.cards["gpu-0"].uuid
    (file,) = (tmp_path / "p" / GPU).glob(f"*/{REF.uid}/*/metadata.json")
    file.write_text(file.read_text().replace(uuid, "GPU-that-left"))
    async with one_card(tmp_path, backend, "lost") as node:
        assert await recollected(tmp_path, node) == 1
        with pytest.raises(NotReady, match=f"gpu-0 was prepared on GPU-that-left, and gpu-0 is {uuid} now"):
            await preparer(tmp_path, node, "gpu-0").prepare(REF)
