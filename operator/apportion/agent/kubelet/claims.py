"""The claim behind a prepare call: read, checked, and reduced to the devices of one driver.

In: namespace, name and UID from kubelet. Out: the results to prepare, or an error that kubelet shows to the user.
"""

from dataclasses import dataclass, replace

from apportion.agent.rows import ClaimDevice, ClaimRow
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.errors import BrokenInput, Missing, NotReady


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim as kubelet names it."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """`namespace/name`, for people."""
        return f"{self.namespace}/{self.name}"


async def read(client: Client, ref: ClaimRef, *, latest: bool = True) -> Claim | None:
    """Return the claim, None when it is gone or another one has its name. Raises ApiError, BrokenInput.

    Not the `latest`: as the API server remembers it (resourceVersion 0), which costs etcd nothing and may be a moment old.
    """
    version = {} if latest else {"resourceVersion": "0"}
    try:
        claim = Claim.from_json(await client.get(CLAIMS, ref.name, namespace=ref.namespace, **version))
    except Missing:
        return None
    return claim if claim.uid == ref.uid else None


def allocated_devices(claim: Claim | None, ref: ClaimRef, driver: str, pool: str) -> tuple[DeviceResult, ...]:
    """Return the claim's devices of this driver on this node.

    Raises NotReady when the claim is gone, not allocated or not reserved; BrokenInput when it was allocated elsewhere.
    """
    if claim is None:
        raise NotReady(f"ResourceClaim {ref.key} with uid {ref.uid} does not exist")
    if claim.allocation is None:
        raise NotReady(f"ResourceClaim {ref.key} is not allocated")
    if not claim.reserved_for:
        raise NotReady(f"ResourceClaim {ref.key} is not reserved for any pod")
    results = tuple(result for result in claim.allocation.results if result.device.driver == driver)
    for result in results:
        if result.device.pool != pool:
            raise BrokenInput(
                f"ResourceClaim {ref.key} has device {result.device}, which is not on node {pool}",
                field="status.allocation",
            )
    return results


def still_allocated(claim: Claim | None, row: ClaimRow) -> bool:
    """Say whether the claim is still allocated to all devices of its row, which those of another node's pool are not, whatever their names."""
    if claim is None or claim.allocation is None:
        return False
    have = {
        (result.device.pool, result.device.name, result.share_id or "")
        for result in claim.allocation.results
        if result.device.driver == row.driver
    }
    return all((device.pool, *device.id) in have for device in row.devices)


def with_access(claim: Claim | None, row: ClaimRow) -> ClaimRow:
    """Return the row with the access that the claim's allocation gives to its devices (admin access or not).

    A device that the claim has by now for other requests than in the row, or not at all, keeps that of the row: containers use it so.
    """
    allocation = claim.allocation if claim is not None else None
    results = allocation.results if allocation is not None else ()

    def corrected(device: ClaimDevice) -> ClaimDevice:
        key = (row.driver, device.pool, *device.id)
        found = [each for each in results if (*each.device, each.share_id or "") == key]
        if not found or {each.request.split("/")[0] for each in found} != set(device.requests):
            return device
        return replace(device, admin=all(each.admin_access for each in found))

    return replace(row, devices=tuple(map(corrected, row.devices)))
