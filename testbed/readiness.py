"""Waiting for a component to be ready."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import aiohttp

from testbed.errors import ApiError, ComponentDiedError, NotReadyInTimeError
from testbed.process import Process

_LOOK_SECONDS = 0.05
_TIMEOUT_SECONDS = 120.0  # two control planes at once, on two busy cores, take a minute

Probe = Callable[[], Awaitable[bool]]


async def until_ready(process: Process, probe: Probe) -> None:
    """Call `probe` until it returns true; an error of the connection or the API counts as false.

    Raises ComponentDiedError as soon as the process ends, NotReadyInTimeError after two minutes.
    """
    end = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < end:
        if not process.running():
            raise ComponentDiedError(process.name, process.code, process.log)
        with suppress(aiohttp.ClientError, ApiError, TimeoutError):
            if await probe():
                return
        await asyncio.sleep(_LOOK_SECONDS)
    raise NotReadyInTimeError(
        f"{process.name} runs, but is not ready after {_TIMEOUT_SECONDS:.0f} s; see {process.log}"
    )


async def answers(address: str) -> bool:
    """Return whether a health address answers 200; its self-signed certificate is not checked."""
    timeout = aiohttp.ClientTimeout(total=2)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(address, ssl=False) as response,
    ):
        return response.status == 200
