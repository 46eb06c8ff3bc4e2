"""Claims that look at a NIC with admin access (KEP-5018): its interface is for the claim that has it."""

from pathlib import Path

import pytest

from apportion.agent.cdi import CdiFolder
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.kubelet.metadata import MetadataFolder
from apportion.agent.kubelet.prepare import Preparer
from apportion.agent.sharing.setups import Setups
from apportion.cluster.kinds import CLAIMS
from apportion.errors import BrokenInput
from tests.agent.places import RDMA
from tests.agent.rdma.networknode import network_config
from tests.agent.rdma.rails import NICS, Rails, rails_below

pytestmark = pytest.mark.usefixtures("interfaces")


def preparer(folder: Path, rails: Rails) -> Preparer:
    """Return what serves kubelet for NICs."""
    context, cdi = rails.node.context, CdiFolder(folder / "cdi")
    return Preparer(
        context,
        cdi,
        MetadataFolder(folder / "plugin", RDMA),
        Setups(context, folder, folder / "run", cdi),
        driver=RDMA,
        kind="nic",
        node="n",
        try_now=lambda _card, _partition: None,
        networks=rails.networks,
    )


async def test_admin_access_takes_no_interface_from_the_claim_that_has_the_nic(tmp_path: Path) -> None:
    """It came into whichever pod began first, and the other one had none; its character devices both have."""
    ref = ClaimRef("default", "monitor", "monitor")
    result = {"request": "r0", "driver": RDMA, "pool": "n", "device": NICS[0], "adminAccess": True}
    devices = {"results": [result], "config": [network_config()]}
    claim = {
        "metadata": {"namespace": ref.namespace, "name": ref.name, "uid": ref.uid},
        "spec": {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "any"}}]}},
        "status": {
            "allocation": {"devices": devices},
            "reservedFor": [{"resource": "pods", "name": "second", "uid": "second"}],
        },
    }
    async with rails_below(tmp_path) as rails:
        served, second = preparer(tmp_path, rails), rails.sandbox("second")[0]
        rails.node.server.put(CLAIMS, claim)
        with pytest.raises(BrokenInput, match=f"device {NICS[0]} is allocated with admin access"):
            await served.prepare(ref)
        await rails.networks.began(second)
        first, namespace = rails.sandbox("first")
        await rails.networks.began(first)
        assert rails.where(namespace) == 2
        del devices["config"]
        rails.node.server.put(CLAIMS, claim)
        (device,) = await served.prepare(ref)
        assert device.admin
