"""Reflector: observe all objects of one kind by list and watch.

In: a client, a kind, optional selectors. Out: calls of `observe` for every change, including those that happened while no
watch was open: after every list, what vanished is reported as deleted, and what did not change is not reported. A history
that was replaced (etcd restored from a backup) is reported as RESTORED: an older version then replaces a newer one.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import structlog

from apportion.cluster.assumedallocations import number
from apportion.cluster.client import Client, Object
from apportion.cluster.interruptions import THROTTLED, Interruptions
from apportion.cluster.kinds import ResourceKind
from apportion.errors import ApiError, Expired, Missing, Unreachable

Observe = Callable[[ResourceKind, str, Object], None]
"""Takes the kind, the event's type (ADDED, MODIFIED, DELETED, RESTORED) and the object."""

_PART = 100
"""Objects of the first list between two turns of other tasks."""
_WATCH = 300
"""Seconds after which the server ends a watch; it sends bookmarks about once a minute."""
_SHORT_WATCH = 3
"""The same while a bookmark is waited for: one comes two seconds before a watch ends (apiserver, cacheWatcher)."""
_BRIEF = 1.0
"""Seconds; a watch that ends earlier and has said nothing is a failure."""
_MOST_OLDER = 3
"""Lists in a row that are older than what was observed, of which the last is believed."""
_UNSERVED = 2.0
"""Seconds until a kind that the server does not serve is asked for again."""
_FORBIDDEN = 403
_log = structlog.get_logger()


class _Known(NamedTuple):
    """What is kept of a reported object: what a later DELETED needs."""

    version: int
    name: str
    namespace: str


class Reflector:
    """One kind, kept up to date by one task."""

    def __init__(
        self,
        client: Client,
        kind: ResourceKind,
        observe: Observe,
        *,
        optional: bool = False,
        few: int = 500,
        proof: float = 5.0,
        page: int = 500,
        **params: str,
    ) -> None:
        """Prepare; nothing is read before `run`.

        `optional`: a kind that this server does not serve, or does not let us read, counts as empty. `few`: objects of a kind that
        `catch_up` lists again rather than waiting for a bookmark; `proof`: seconds that it waits for one before it lists. `page`: objects
        of one answer to a list; `params`: server-side selectors.
        """
        self.kind = kind
        self.synced = asyncio.Event()
        """Set once the first list was observed whole, and cleared while the server does not serve the kind."""
        self._client = client
        self._observe = observe
        self._optional = optional
        self._few, self._proof, self._page = few, proof, str(page)
        self._params = params
        self._known: dict[str, _Known] = {}
        self._version = ""
        """Where the next watch starts; empty: list first."""
        self._lists = False
        """Whether a list comes before the next watch although there is a version."""
        self._doubts = False
        """Whether the server is asked before the next watch if it has lost what was observed."""
        self._observed = 0
        """Everything up to this resourceVersion was observed."""
        self._heard = float("-inf")
        self._goal = 0
        """The resourceVersion that `catch_up` waits for."""
        self._reached = asyncio.Event()
        self._watching: asyncio.Timeout | None = None
        self.listed = False
        """Whether a first list was observed whole."""
        self._interruptions = Interruptions(kind.plural)
        self._older = 0
        """Lists in a row that were older than what was observed."""

    def age(self) -> float:
        """Return the seconds since the server last said anything about the kind; it does so about once a minute."""
        return time.monotonic() - self._heard

    async def run(self) -> None:
        """List and watch until cancelled; every failure is waited out, and a kind that is not served is waited for."""
        while True:
            pause = 0.0
            try:
                if self._doubts and self._version:
                    await self._ask_history()
                if self._lists or not self._version:
                    await self._relist()
                await self._follow()
            except Expired:
                self._version = ""
            except Missing as error:
                pause = self._unserved(error)
            except Unreachable as error:
                pause = self._interruptions.note(error)
                self._doubts = self._doubts or error.status != THROTTLED
            except ApiError as error:
                # A refusal (403) may be a role that is being updated; asking every few seconds is enough.
                pause, self._version = 5.0, ""
                if self._optional and error.status == _FORBIDDEN:
                    pause = self._unserved(error)
                self._interruptions.say("reflector.refused", error, pause)
            if pause:
                await asyncio.sleep(pause)

    async def catch_up(self) -> None:
        """Return once everything that the server had accepted before this call was observed.

        A watch that hangs cannot delay it: a kind of few objects is listed again; another's watch is resumed at once on
        another connection, and listed again when the server does not confirm in time that nothing is missing.
        """
        await self.synced.wait()
        self._goal = await self._present()
        self._reached.clear()
        self._lists = len(self._known) <= self._few
        while self._observed < self._goal:
            self._end_watch()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._proof):
                    await self._reached.wait()
                    return
            self._lists = True

    async def _ask_history(self) -> None:
        """Have the kind listed unless the server has what was observed: a connection may have broken because etcd was restored.

        A server accepts a watch from a version that it does not have, says nothing, and goes on as if nothing had happened once it has got as
        far (measured on 1.37). So a kind of few objects is listed in any case.
        """
        few = len(self._known) <= self._few
        self._lists = self._lists or few or await self._version_now() < self._observed
        self._doubts = False

    async def _version_now(self) -> int:
        """Return the server's present resourceVersion; a list without a resourceVersion is consistent (KEP-2340)."""
        page = await self._client.list(self.kind, limit="1", **self._params)
        return number(str(page["metadata"]["resourceVersion"]))

    async def _present(self) -> int:
        """Return the server's present resourceVersion, once that is not older than what was observed."""
        while True:
            observed = self._observed
            try:
                present = await self._version_now()
                if present >= observed:
                    return present
                # Not believed before a whole list is (`_doubt`).
                self._lists = True
                self._end_watch()
            except Missing:
                if self._optional:
                    return 0
            except ApiError as error:
                if self._optional and error.status == _FORBIDDEN:
                    return 0
                self._interruptions.say("reflector.unreachable", error, 0.5)
            await asyncio.sleep(0.5)

    def _end_watch(self) -> None:
        if self._watching is not None:
            self._watching.reschedule(0.0)
            self._watching = None

    async def _relist(self, *, restored: bool = False) -> None:
        """Report how the list differs from what was reported; everything, if a restored history is to be reported."""
        self._lists = False
        found: set[str] = set()
        changed: list[Object] = []
        first, token, version = not self.listed, "", ""
        while True:
            more = {"continue": token} if token else {}
            page = await self._client.list(self.kind, limit=self._page, **self._params, **more)
            version = str(page["metadata"]["resourceVersion"])
            if not token and number(version) < self._observed:
                self._doubt(version)
                restored = True
            for item in page.get("items") or []:
                metadata = item["metadata"]
                found.add(metadata["uid"])
                before = self._known.get(metadata["uid"])
                own = number(metadata["resourceVersion"])
                if first:
                    # Nothing is acting yet, so what is observed need not change at one moment.
                    self._report("RESTORED" if restored else "ADDED", item)
                    if len(found) % _PART == 0:
                        await asyncio.sleep(0)
                elif restored or own > (before.version if before is not None else self._observed):
                    changed.append(item)
                elif before is None or own < before.version:
                    # An older version, or an object that was gone: only another history has either.
                    await self._relist(restored=True)
                    return
            token = page["metadata"].get("continue") or ""
            if not token:
                break
        # At one moment, and deletions first: a device must not be free, or held twice, only because of the order.
        for uid in [uid for uid in self._known if uid not in found]:
            self._report("DELETED", self._former(uid))
        for item in changed:
            self._report("RESTORED" if restored else "ADDED", item)
        if restored:
            _log.warning("reflector.history_replaced", kind=self.kind.plural, version=version)
        self._observed, self.listed = 0, True
        self._advance(version)
        self.synced.set()

    def _doubt(self, version: str) -> None:
        """Raise Unreachable unless lists were older than what was observed several times in a row.

        Consistent lists never go back, so either etcd was restored, or something between us and it answers with old data.
        Believing the latter would free devices that are in use.
        """
        self._older += 1
        if self._older < _MOST_OLDER:
            raise Unreachable(
                f"list of {self.kind.plural}: version {version} is older than {self._observed}, which was observed"
            )

    async def _follow(self) -> None:
        """Watch until the server ends the watch, or `catch_up` wants another one."""
        seconds = _SHORT_WATCH if self._goal > self._observed else _WATCH
        began, start = time.monotonic(), number(self._version)
        try:
            async with asyncio.timeout(None) as self._watching:
                async for event in self._client.watch(self.kind, self._version, self._params, seconds):
                    change, item = event["type"], event["object"]
                    version = item["metadata"]["resourceVersion"]
                    if number(version) < start + (change != "BOOKMARK"):
                        # Said once more by a faulty server: a change, a deletion too, has a version of its own.
                        continue
                    if change != "BOOKMARK":
                        self._report(change, item)
                    # Only now: an event that was not observed must come again after a broken connection.
                    self._advance(version)
        except TimeoutError:
            return
        finally:
            self._watching = None
        # Before its time a watch ends with its server.
        self._doubts = time.monotonic() - began < seconds
        if self._heard < began and time.monotonic() - began < _BRIEF:
            raise Unreachable(f"watch of {self.kind.plural}: it ended at once")

    def _advance(self, version: str) -> None:
        self._version = version
        self._observed = max(self._observed, number(version))
        self._heard = time.monotonic()
        self._older = 0
        self._interruptions.over()
        if self._observed >= self._goal:
            self._reached.set()

    def _report(self, change: str, item: Object) -> None:
        metadata = item["metadata"]
        if change == "DELETED":
            self._known.pop(metadata["uid"], None)
        else:
            self._known[metadata["uid"]] = _Known(
                number(metadata["resourceVersion"]), metadata["name"], metadata.get("namespace", "")
            )
        self._observe(self.kind, change, item)

    def _former(self, uid: str) -> Object:
        _, name, namespace = self._known[uid]
        return {"metadata": {"uid": uid, "name": name, **({"namespace": namespace} if namespace else {})}}

    # Failures. ------------------------------------------------------------------------------------------------

    def _unserved(self, error: ApiError) -> float:
        """A kind that the server does not serve (yet, or any more), or does not let us read; returns the pause."""
        self._version = ""
        if self._optional:
            self._heard = time.monotonic()
            self.synced.set()
            return 5 * _UNSERVED  # who begins to lead waits for what is served by then, and has half a minute
        self.synced.clear()
        self._interruptions.say("reflector.not_served", error, _UNSERVED)
        return _UNSERVED
