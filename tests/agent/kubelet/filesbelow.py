"""What serves kubelet on one card without a control plane, with all its files below one folder."""

from pathlib import Path

from apportion.agent.cdi import CdiFolder
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.kubelet.claimstatus import ClaimStatusWriter
from apportion.agent.kubelet.metadata import MetadataFolder
from apportion.agent.kubelet.prepare import Preparer
from apportion.agent.network.nodenetworks import NodeNetworks
from apportion.agent.sharing.setups import Setups
from apportion.dra.claim import Claim
from tests.agent.lifecycle.onecard import OneCard
from tests.agent.places import GPU

REF = ClaimRef("default", "c", "00000000-0000-4000-8000-00000000000c")


def allocated(*devices: str) -> Claim:
    """Return the claim, allocated to devices of the node and reserved."""
    results = [{"request": "r0", "driver": GPU, "pool": "n", "device": device} for device in devices]
    user = {"resource": "pods", "name": "p", "uid": "p"}
    return Claim.from_json(
        {
            "metadata": {"namespace": REF.namespace, "name": REF.name, "uid": REF.uid},
            "spec": {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "any"}}]}},
            "status": {"allocation": {"devices": {"results": results}}, "reservedFor": [user]},
        }
    )


def preparer(
    folder: Path,
    node: OneCard,
    *devices: str,
    known: bool = True,
    claim_status: ClaimStatusWriter | None = None,
) -> Preparer:
    """Return what serves kubelet, with its files in a folder; the API has the claim if it is `known` there."""

    async def read(_: ClaimRef) -> Claim | None:
        return allocated(*devices) if known else None

    cdi = CdiFolder(folder / "cdi")
    networks = NodeNetworks(node.context, "n", folder, folder / "run", socket=folder / "nri.sock")
    return Preparer(
        node.context,
        cdi,
        MetadataFolder(folder / "p" / GPU, GPU),
        Setups(node.context, folder, folder / "run", cdi),
        driver=GPU,
        kind="gpu",
        node="n",
        try_now=lambda _card, _partition: None,
        networks=networks.pods,
        claims=read,
        claim_status=claim_status,
    )
