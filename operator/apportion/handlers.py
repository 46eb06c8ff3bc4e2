"""All kopf handlers of the operator. kopf runs the process: settings at the start, signals, credentials, the end.

No handler is about objects: reflectors observe every kind (docs/adr/0001). One that treats objects of a kind one by one,
without a picture of the others, belongs here.
"""

import asyncio
import time
from typing import Protocol

import kopf

from apportion.cluster.kinds import OWN

_LOGIN_PAUSE = 1.0
"""Seconds between two logins, at least: after a 401 kopf asks for other credentials at once."""


class App(Protocol):
    """What handlers may call."""

    def connection(self) -> kopf.ConnectionInfo:
        """Return how to reach the API server, with a token that is valid now; no two are equal, because kopf ends where one comes again that was refused."""

    def stopping(self) -> None:
        """Learn that kopf has stopped, so that the process ends."""


def register(registry: kopf.OperatorRegistry, app: App) -> None:
    """Register all handlers."""

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: object) -> None:
        settings.scanning.disabled = True
        settings.posting.enabled = False
        settings.persistence.finalizer = f"{OWN}/finalizer"
        settings.networking.request_timeout = 30
        # Else kopf sends SIGKILL to its thread ten minutes after a part failed, whatever runs there by then. All that the end
        # of the process waits for is bounded: by the lease, and by the time-outs of requests.
        settings.process.ultimate_exiting_timeout = None

    last = float("-inf")

    @kopf.on.login(registry=registry)
    async def login(**_: object) -> kopf.ConnectionInfo:
        nonlocal last
        await asyncio.sleep(max(0.0, last + _LOGIN_PAUSE - time.monotonic()))
        last = time.monotonic()
        return app.connection()

    @kopf.on.cleanup(registry=registry)
    async def clean(**_: object) -> None:
        app.stopping()
