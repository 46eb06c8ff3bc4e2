"""A journal that is lost between a claim's prepare and its pod's sandbox: the interface comes to the pod all the same."""

from pathlib import Path

import pytest

from apportion.agent.cdi import CdiFolder
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.kubelet.metadata import MetadataFolder
from apportion.agent.kubelet.recoverclaims import recover_claims
from apportion.agent.network.podnetworks import INSIDE
from apportion.cluster.kinds import CLAIMS
from testbed.api import Json
from tests.agent.places import RDMA
from tests.agent.rdma.networknode import network_config
from tests.agent.rdma.rails import NICS, Rails, rails_below
from tests.agent.rdma.test_admin_networks import preparer

pytestmark = pytest.mark.usefixtures("interfaces")
REF = ClaimRef("default", "rail", "11111111-2222-3333-4444-555555555555")
CLAIM: Json = {
    "metadata": {"namespace": REF.namespace, "name": REF.name, "uid": REF.uid},
    "spec": {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "any"}}]}},
    "status": {
        "allocation": {
            "devices": {
                "results": [{"request": "r0", "driver": RDMA, "pool": "n", "device": NICS[0]}],
                "config": [network_config()],
            }
        },
        "reservedFor": [{"resource": "pods", "name": "first", "uid": "first"}],
    },
}


async def forget(rails: Rails, uid: str) -> None:
    """Have the journal know nothing of a claim and its interfaces."""
    journal = rails.node.context.journal
    for row in journal.networks():
        if row.claim == uid:
            journal.drop_network(row)
    journal.drop_claim(uid, RDMA)


@pytest.mark.parametrize("how", ["files", "prepare"])
async def test_a_claim_whose_interface_had_not_gone_yet_waits_for_its_pod_as_before(
    tmp_path: Path, how: str
) -> None:
    """Its containers never started; after kubelet had repeated prepare, which wrote their file anew, they started without the interface."""
    async with rails_below(tmp_path) as rails:
        await forget(rails, "c")
        rails.node.server.put(CLAIMS, CLAIM)
        served, cdi = preparer(tmp_path, rails), CdiFolder(tmp_path / "cdi")
        await served.prepare(REF)
        await forget(rails, REF.uid)
        metadata = MetadataFolder(tmp_path / "plugin", RDMA)
        assert await recover_claims(rails.node.context, cdi, metadata, driver=RDMA, node="n") == 1
        if how == "files":
            assert await served.restore_files(REF, {})
            assert not await served.restore_files(REF, {})
        else:
            await served.prepare(REF)
        assert cdi.mentions(f"{INSIDE}/{NICS[0]}.json")
        first, namespace = rails.sandbox("first")
        mounts = {mount.host_path for mount in rails.networks.mounts(REF.uid, RDMA).values()}
        await rails.networks.creating(first, mounts)
        assert rails.where(namespace) == 1
        await served.unprepare(REF)
        assert rails.where() == 2
