"""Whether the Node asks the agent to let go of NVIDIA's driver, for an upgrade or a reset.

In: labels of the Node. Out: sessions that end, and the end of the agent when the driver is there again. Rules:
NVIDIA/k8s-driver-manager bd62ca7d, cmd/driver-manager/main.go:590-640: while it exchanges a driver, the labels
`nvidia.com/gpu.deploy.<component>` of the Node are `paused-for-driver-upgrade`, or end so.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from apportion.agent.devices.hardware import Hardware
from apportion.agent.ownnode import OwnNode
from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES
from apportion.errors import ApiError, NotReady

_PREFIX = "nvidia.com/gpu.deploy."
_PAUSED = "paused-for-driver-upgrade"
_log = structlog.get_logger()


def pause(labels: Mapping[str, str]) -> str:
    """Return which label asks for the pause, "" for none."""
    asking = (key for key, value in sorted(labels.items()) if key.startswith(_PREFIX) and _PAUSED in value)
    return next((f"the Node has the label {key}={labels[key]}" for key in asking), "")


async def asked_pause(client: Client, node: str) -> str:
    """Read the Node and return why the driver is to be let go of, "" if it is not, or that is unknown."""
    try:
        # As the API server remembers it (resourceVersion 0), which costs etcd nothing.
        found = await client.get(NODES, node, resourceVersion="0")
    except ApiError as error:
        _log.warning("driver.pause_unknown", error=str(error))
        return ""
    return pause(found["metadata"].get("labels") or {})


class DriverPause:
    """Looks at the Node's labels now and then, and whether a driver that was let go of answers."""

    def __init__(
        self,
        node: OwnNode,
        hardware: Hardware,
        *,
        why: str,
        interval: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`why` is the pause that the agent began in, "" for none."""
        self._node = node
        self._hardware = hardware
        self.why = why
        self._interval = interval
        self._sleep = sleep
        self._released = False

    async def run(self) -> None:
        """Look until cancelled. Raises NotReady when a driver that was let go of answers."""
        while True:
            await self.look()
            await self._sleep(self._interval)

    async def look(self) -> None:
        """Look once; what is unknown changes nothing."""
        if self._node.labels is None:
            return
        why = self.why = pause(self._node.labels)
        if why and not self._released:
            self._released = await self._hardware.release(why)
        elif not why and self._released and await self._hardware.answers():
            # Everything that was read of the former driver, and its library, goes with the process.
            raise NotReady(
                "the NVIDIA driver that was let go of answers: the agent starts anew to serve its cards"
            )
