"""What the API server is: new enough, or a clear refusal to start."""

import re

from apportion.cluster.client import Client
from apportion.errors import ApportionError

OLDEST = (1, 36)
"""Before, device taints and shared counters are off by default (dra.md 4.8): the guard would not hold."""


async def require_version(client: Client) -> tuple[int, int]:
    """Return the server's version; raises ApportionError when it is older than 1.36."""
    answer = await client.raw("/version")
    found = int(answer["major"]), int(re.sub(r"\D.*", "", str(answer["minor"])))
    if found < OLDEST:
        raise ApportionError(
            f"Kubernetes {answer.get('gitVersion')} is too old: apportion needs 1.36 or later, because before that"
            " device taints and shared counters are switched off"
        )
    return found
