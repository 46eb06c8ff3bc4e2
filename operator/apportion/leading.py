"""Leading: this replica acts while it holds the lease, and only after everything was observed that the server had accepted when it was gained.

In: the lease, and what is done in each term. Out: that is done, from when all was observed until the lease is lost.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from apportion.cluster.lease import Lease

Work = Callable[[], Coroutine[Any, Any, None]]


async def lead(lease: Lease, *, catch_up: Work, warm_up: Callable[[], None], act: Work) -> None:
    """Act in each term of the lease, until cancelled.

    `catch_up` ends when all was observed that happened before; `warm_up` computes what the first pass needs, and may take long;
    `act` goes on until it is cancelled, which it is when the lease is lost.
    """
    while True:
        await lease.gained.wait()
        term = lease.terms
        if not await _while_held(lease, catch_up()):
            continue
        warm_up()
        await asyncio.sleep(0)  # what the lease's thread has said meanwhile
        if not lease.lost.is_set() and lease.terms == term:
            await _while_held(lease, act())


async def _while_held(lease: Lease, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work until it ends or the lease is lost; says whether it has ended before that."""
    task, lost = asyncio.ensure_future(work), asyncio.ensure_future(lease.lost.wait())
    try:
        await asyncio.wait((task, lost), return_when=asyncio.FIRST_COMPLETED)
        ended = task.done() and not lost.done()
    finally:
        lost.cancel()
        task.cancel()
        await asyncio.wait((task,))
    if not task.cancelled():
        task.result()
    return ended
