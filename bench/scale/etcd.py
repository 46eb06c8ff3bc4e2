"""Writes objects straight into etcd, through its JSON gateway.

In: keys and values. Out: puts, many a transaction or one by one.
"""

import asyncio
import base64
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import orjson

from bench.scale.world import Row
from testbed.errors import TestbedError

_TOGETHER: Final = 8
_MOST_OPERATIONS: Final = 100
"""etcd takes 128 operations in a transaction (`--max-txn-ops`)."""
_MOST_BYTES: Final = 700_000
"""etcd takes requests of 1.5 MiB (`--max-request-bytes`); base64 adds a third."""


class Etcd:
    """`async with Etcd(address) as etcd:`."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def __aenter__(self) -> Self:
        """Open the connections."""
        self._session = aiohttp.ClientSession(
            self._address, connector=aiohttp.TCPConnector(limit=_TOGETHER), timeout=aiohttp.ClientTimeout(60)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close them."""
        await self._session.close()

    async def load(self, rows: Iterable[Row], written: Callable[[int], None] = lambda _: None) -> None:
        """Put many objects, as fast as possible: all objects of a transaction get one revision.

        Calls `written` with the number of each transaction's objects. Raises TestbedError.
        """
        await self._all(_batches(rows), self._transaction, written)

    async def put(self, rows: Iterable[Row]) -> None:
        """Put objects one by one, each with a revision of its own, as the API server does. Raises TestbedError."""
        await self._all(([row] for row in rows), self._single, lambda _: None)

    async def _all(
        self, batches: Iterator[list[Row]], write: Callable[[list[Row]], Any], written: Callable[[int], None]
    ) -> None:
        async def work() -> None:
            for batch in batches:
                await write(batch)
                written(len(batch))

        async with asyncio.TaskGroup() as group:
            for _ in range(_TOGETHER):
                group.create_task(work())

    async def _transaction(self, batch: list[Row]) -> None:
        await self._post("/v3/kv/txn", {"success": [{"requestPut": _put(row)} for row in batch]})

    async def _single(self, batch: list[Row]) -> None:
        await self._post("/v3/kv/put", _put(batch[0]))

    async def _post(self, path: str, body: dict[str, Any]) -> None:
        async with self._session.post(path, data=orjson.dumps(body)) as response:
            if response.status != 200:
                raise TestbedError(f"etcd {path}: {response.status} {(await response.text())[:300]}")


def _put(row: Row) -> dict[str, str]:
    key, value = row
    return {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value).decode()}


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in rows:
        if batch and (len(batch) == _MOST_OPERATIONS or size + len(row[1]) > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row[1])
    if batch:
        yield batch
