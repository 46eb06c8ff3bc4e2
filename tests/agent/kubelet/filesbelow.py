"""What serves kubelet on one card without a control plane, with all its files below one folder."""

from collections.abc import Callable
from pathlib import Path

from apportion.agent.cdi import CdiFolder
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.kubelet.claimstatus import ClaimStatusWriter
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.kubelet.metadata import MetadataFolder
from apportion.agent.kubelet.prepare import Preparer
from apportion.agent.network.nodenetworks import NodeNetworks
from apportion.agent.rows import ClaimRow
from apportion.agent.sharing.setups import Setups
from apportion.cluster.client import Object
from apportion.cluster.kinds import CLAIMS
from tests.agent.lifecycle.onecard import OneCard
from tests.agent.places import GPU

REF = ClaimRef("default", "c", "00000000-0000-4000-8000-00000000000c")


def written(*devices: str, pool: str = "n", uid: str = REF.uid) -> Object:
    """Return the claim as the API has it, allocated to devices of a node and reserved."""
    results = [{"request": "r0", "driver": GPU, "pool": pool, "device": device} for device in devices]
    user = {"resource": "pods", "name": "p", "uid": "p"}
    return {
        "metadata": {"namespace": REF.namespace, "name": REF.name, "uid": uid},
        "spec": {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "any"}}]}},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": [user]},
    }


def preparer(
    folder: Path,
    node: OneCard,
    *devices: str,
    known: bool = True,
    claim_status: ClaimStatusWriter | None = None,
    try_now: Callable[[str, str], None] = lambda _card, _partition: None,
) -> Preparer:
    """Return what serves kubelet, with its files in a folder; the API has the claim if it is `known` there."""
    if known:
        node.server.put(CLAIMS, written(*devices))
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
        try_now=try_now,
        networks=networks.pods,
        claim_status=claim_status,
    )


def held_claims(folder: Path, node: OneCard) -> HeldClaims:
    """Return what undoes the agent's own unfinished preparations."""

    async def abandon(row: ClaimRow) -> bool:
        return await preparer(folder, node, known=False).abandon(ClaimRef(row.namespace, row.name, row.uid))

    return HeldClaims(node.context, abandon=abandon)
