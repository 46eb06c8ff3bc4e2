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
    `act` goes on until it is cancelled, which it is when the lease is lost. What it has started and leaves behind writes nothing in a later term.
    """
    while True:
        await lease.gained.wait()
        term = lease.terms
        lease.work_for(term)
        if not await _while_held(lease, term, catch_up()):
            continue
        warm_up()
        await asyncio.sleep(0)  # what the lease's thread has said meanwhile
        if not lease.lost.is_set() and lease.terms == term:
            await _while_held(lease, term, act())


async def _while_held(lease: Lease, term: int, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work until it ends or the term does; says whether it has ended before that."""
    task, lost = asyncio.ensure_future(work), asyncio.ensure_future(_end_of(lease, term))
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


async def _end_of(lease: Lease, term: int) -> None:
    """Wait until a term has ended, which it may have before the loop had its turn: `lost` is set no more where the next one has begun."""
    if lease.terms == term:
        await lease.lost.wait()
