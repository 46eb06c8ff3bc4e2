"""The calls of kubelet that are under way: an agent that ends answers them first, and begins no preparation.

In: each call, when it comes. Out: that all are answered. Kubelet tries a pod again whose prepare broke off with its next sync, 60 to 90 s
later, and drops the connection to a plugin, with all calls on it, when its registration socket has gone (K8S:
pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go, `remove`).
"""

import asyncio
from contextlib import suppress
from typing import Any

from apportion.errors import NotReady


class Calls:
    """Of one driver."""

    def __init__(self) -> None:
        """None is under way."""
        self._out: set[asyncio.Task[Any]] = set()
        self._ending = False

    def note(self) -> None:
        """Note the call whose task this is, until it is answered."""
        task = asyncio.current_task()
        if task is not None:
            self._out.add(task)
            task.add_done_callback(self._out.discard)

    def check(self) -> None:
        """Raise NotReady when no preparation begins any more."""
        if self._ending:
            raise NotReady("the agent of this node ends; kubelet asks the next one")

    async def finish(self, seconds: float) -> None:
        """Begin no preparation from now on, and return when every call is answered, after these seconds at the latest."""
        self._ending = True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._out:
                    await asyncio.wait(self._out)
