"""list_all(): all objects of a kind, for who reads them once.

In: a client, a kind. Out: its objects. They are asked for in parts: in one answer, tens of thousands of pods take either side gigabytes, and
longer than the server gives any request.
"""

from typing import Final

from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import ResourceKind
from apportion.errors import Expired

_PART: Final = 500
"""Objects of one answer."""


async def list_all(client: Client, kind: ResourceKind, *, namespace: str = "") -> list[Object]:
    """Return the objects of a kind in a namespace (empty: in all), as they were at one moment. Raises ApiError.

    What the API server has given up between two parts (410, after some minutes) is asked for once more in one piece, as client-go's pager does.
    """
    found: list[Object] = []
    token = ""
    while True:
        page = {"limit": str(_PART)} | ({"continue": token} if token else {})
        try:
            part = await client.list(kind, namespace=namespace, most=0, **page)
        except Expired:
            if not token:
                raise
            whole = await client.list(kind, namespace=namespace)
            return [*(whole.get("items") or ())]
        found += part.get("items") or ()
        token = part["metadata"].get("continue") or ""
        if not token:
            return found
