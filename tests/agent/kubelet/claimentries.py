"""Reads `status.devices` of a claim."""

from testbed.api import Api, Json
from tests.agent.places import GPU


def path(claim: Json) -> str:
    """Return where a claim is."""
    meta = claim["metadata"]
    return f"/apis/resource.k8s.io/v1/namespaces/{meta['namespace']}/resourceclaims/{meta['name']}"


async def entries(api: Api, claim: Json) -> dict[str, Json]:
    """Return the entries of `status.devices` by device."""
    found = (await api.get(path(claim)))["status"].get("devices", ())
    return {f"{entry['driver']}/{entry['device']}": entry for entry in found}


def states(entry: Json) -> dict[str, tuple[str, str]]:
    """Return status and reason of an entry's conditions by type."""
    return {row["type"]: (row["status"], row["reason"]) for row in entry.get("conditions", ())}


async def says(api: Api, claim: Json, device: str = "gpu-0") -> tuple[str, str] | None:
    """Return what a claim says of the health of its GPU."""
    return states((await entries(api, claim)).get(f"{GPU}/{device}", {})).get("Healthy")
