"""A claim on the API server, as the writer finds it and leaves it."""

from typing import Any

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.scheduling.writing.writer import Writer


async def claim(client: Client, namespace: str, **metadata: Any) -> Claim:
    requests = [{"name": "r", "exactly": {"deviceClassName": "none"}}]
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", **metadata},
        "spec": {"devices": {"requests": requests}},
    }
    return Claim.from_json(await client.create(CLAIMS, body, namespace=namespace))


async def read(client: Client, namespace: str) -> Claim:
    return Claim.from_json(await client.get(CLAIMS, "c", namespace=namespace))


async def allocate(writer: Writer, claim: Claim, answer: Allocation) -> None:
    await writer.allocate(claim, answer, await writer.protect(claim))
