"""The API server's version, and the oldest one that will do."""

import re

from apportion.cluster.client import Client
from apportion.errors import ApportionError, Unanswered

OLDEST = (1, 36)
"""Before, device taints and shared counters are off by default (dra.md 4.8): the guard taint would have no effect."""


async def require_version(client: Client) -> tuple[int, int]:
    """Return the server's version; raises ApportionError when it is older than 1.36."""
    answer = await client.raw("/version")
    try:
        found = int(answer["major"]), int(re.sub(r"\D.*", "", str(answer["minor"])))
    except (LookupError, TypeError, ValueError):
        raise Unanswered(f"GET /version: that is no version, but {answer!r:.200}") from None
    if found < OLDEST:
        raise ApportionError(
            f"Kubernetes {answer.get('gitVersion')} is too old: apportion needs 1.36 or later, because before that"
            " device taints and shared counters are switched off"
        )
    return found
