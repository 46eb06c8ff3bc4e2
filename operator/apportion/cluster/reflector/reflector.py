"""Reflector: observe all objects of one kind by list and watch.

In: a client, a kind, optional selectors. Out: calls of `observe` for every change, including those that happened while no
watch was open: after every list, what vanished is reported as deleted, and what did not change is not reported. A history
that was replaced (etcd restored from a backup) is reported as RESTORED: an older version then replaces a newer one.
"""

import asyncio
import math
import time
from collections.abc import Callable

import structlog

from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import ResourceKind
from apportion.cluster.reflector.interruptions import THROTTLED, Interruptions
from apportion.cluster.reflector.progress import Progress
from apportion.cluster.reflector.reported import Answered, Observe, Reported, nothing
from apportion.cluster.resourceversion import number
from apportion.errors import ApiError, Expired, Missing, Oversized, Unreachable

_PART = 100
"""Objects of the first list between two turns of other tasks."""
_WATCH = 300
"""Seconds after which the server ends a watch; it sends bookmarks about once a minute."""
_SHORT_WATCH = 3
"""The same while a bookmark is waited for: one comes two seconds before a watch ends (apiserver, cacheWatcher)."""
_CONFIRMED = 2.3
"""Seconds until that bookmark has come: at the next second of the server's clock, which is up to a quarter late."""
_BRIEF = 1.0
"""Seconds; a watch that ends earlier and has said nothing is a failure."""
_UNSERVED = 2.0
"""Seconds until a kind that the server does not serve is asked for again."""
_MOST = 2**25
"""Bytes of one answer to a list: decoded they take several times as many, and one object may have 1.5 MiB."""
_MISSED = 60.0
"""Seconds without a kind that is done without, after which it counts as empty: a server that starts serves no CRDs and knows no roles for a moment."""
_FORBIDDEN = 403
_log = structlog.get_logger()


class Reflector:
    """One kind, kept up to date by one task."""

    def __init__(
        self,
        client: Client,
        kind: ResourceKind,
        observe: Observe,
        *,
        answered: Answered = nothing,
        optional: bool = False,
        few: int = 500,
        proof: float = 5.0,
        page: int = 500,
        most: int = _MOST,
        missed: float = _MISSED,
        noted: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        **params: str,
    ) -> None:
        """Prepare; nothing is read before `run`. `answered`: what `observe` knows by the answers to writes alone.

        `optional`: a kind that this server does not serve, or does not let us read, counts as empty, after `missed` seconds where it had objects;
        `noted` is called when `listed` changes. `few`: objects of a kind that
        `catch_up` lists again rather than waiting for a bookmark, and that is listed after a broken connection; `proof`: seconds that it waits for one before it lists. `page`: objects
        of one answer to a list, fewer where they have more than `most` bytes; `params`: server-side selectors.
        """
        self.kind = kind
        self.synced = asyncio.Event()
        """Set once the first list was observed whole, and cleared while the server does not serve the kind."""
        self.refused = ""
        """Why the server does not let us read the kind; empty: it does, or has not said so."""
        self._client = client
        self._optional = optional
        self._few, self._proof, self._page, self._most = few, proof, page, most
        self._params = params
        self._reported = Reported(kind, observe, answered)
        self._clock, self._progress = clock, Progress(kind.plural, clock)
        self._lists = False
        """Whether a list comes before the next watch although there is a version."""
        self._doubts = False
        """Whether the server is asked before the next watch if it has lost what was observed."""
        self._watching: asyncio.Timeout | None = None
        self._expected_until = -math.inf
        """When the bookmark of a watch has come that was opened because `catch_up` is about to be called."""
        self.listed = False
        """Whether a list was observed whole, and the kind does not count as empty since."""
        self._missed = missed
        self._noted = noted
        self._interruptions = Interruptions(kind.plural)

    def age(self) -> float:
        """Return the seconds since the server last said anything about the kind; it does so about once a minute."""
        return self._progress.age()

    def missed(self) -> float:
        """Return for how many seconds the server has not served the kind; 0: it does."""
        return self._progress.missed()

    async def run(self) -> None:
        """List and watch until cancelled; every failure is waited out, and a kind that is not served is waited for."""
        while True:
            pause = 0.0
            try:
                if self._doubts and self._progress.version:
                    await self._ask_history()
                if self._lists or not self._progress.version:
                    await self._relist()
                await self._follow()
            except Expired as error:
                self._progress.version = ""
                pause = self._interruptions.expire(error)
            except Missing as error:
                pause = self._unserved(error)
            except Unreachable as error:
                pause = self._interruptions.note(error)
                self._doubts = self._doubts or error.status != THROTTLED
            except ApiError as error:
                # A refusal (403) may be a role that is being updated; asking every few seconds is enough.
                pause, self._progress.version, self.refused = 5.0, "", str(error)
                if self._optional and error.status == _FORBIDDEN:
                    pause = self._unserved(error)
                self._interruptions.say("reflector.refused", error, pause)
            if pause:
                await self._interruptions.rest(pause)

    def expect(self) -> None:
        """Learn that `catch_up` is called in less than a second: a kind of many objects is watched anew, and confirmed the sooner."""
        if not self._is_small():
            self._expected_until = self._clock() + _CONFIRMED
            self._end_watch()

    async def catch_up(self) -> None:
        """Return once everything that the server had accepted before this call was observed.

        A watch that hangs cannot delay it: a kind of few objects is listed again; another's watch is resumed at once on
        another connection, and listed again when the server does not confirm in time that nothing is missing.
        """
        await self.synced.wait()
        self._progress.aim(await self._present())
        self._lists = self._is_small()
        if self._progress.behind and not self._lists:
            await self._progress.reach(within=self._expected_until - self._clock())
        while self._progress.behind:
            self._interruptions.end_rest()
            self._end_watch()
            if await self._progress.reach(within=self._proof):
                return
            self._lists = True

    def _is_small(self) -> bool:
        return len(self._reported) <= self._few

    async def _ask_history(self) -> None:
        """Have the kind listed unless the server has what was observed: a connection may have broken because etcd was restored.

        A server accepts a watch from a version that it does not have, says nothing, and goes on as if nothing had happened once it has got as
        far (measured on 1.37). So a kind of few objects is listed in any case.
        """
        self._lists = self._lists or self._is_small() or await self._version_now() < self._progress.observed
        self._doubts = False

    async def _version_now(self) -> int:
        """Return the server's present resourceVersion; a list without a resourceVersion is consistent (KEP-2340)."""
        page = await self._client.list(self.kind, most=0, limit="1", **self._params)
        return number(str(page["metadata"]["resourceVersion"]))

    async def _present(self) -> int:
        """Return the server's present resourceVersion, once that is not older than what was observed."""
        while True:
            observed = self._progress.observed
            try:
                if (present := await self._version_now()) >= observed:
                    return present
                # Not believed before a whole list is (`Progress.doubt`).
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
        # What an earlier try has reported may be gone, and have a namesake: deletions go first then.
        first, token, version = not self.listed and not len(self._reported), "", ""
        limit = self._page
        while True:
            more = {"continue": token} if token else {}
            try:
                page = await self._client.list(
                    self.kind, most=self._most if limit > 1 else 0, limit=str(limit), **self._params, **more
                )
            except Oversized:
                limit = max(1, limit // 4)
                continue
            version = str(page["metadata"]["resourceVersion"])
            if not token and self._progress.doubt(version):
                restored = True
            for item in page.get("items") or []:
                found.add(item["metadata"]["uid"])
                later = self._reported.compare(item, self._progress.observed)
                if first:
                    # Nothing is acting yet, so what is observed need not change at one moment.
                    self._reported.report("RESTORED" if restored else "ADDED", item)
                    if len(found) % _PART == 0:
                        await asyncio.sleep(0)
                elif restored or later > 0:
                    changed.append(item)
                elif later < 0:
                    await self._relist(restored=True)
                    return
            token = page["metadata"].get("continue") or ""
            del page  # not kept until the next one is decoded
            if not token:
                break
        # At one moment, and deletions first: a device must not be free, or held twice, only because of the order.
        self._reported.vanish(found)
        for item in changed:
            self._reported.report("RESTORED" if restored else "ADDED", item)
        if restored:
            self._reported.confirm(math.inf)  # of another history
            _log.warning("reflector.history_replaced", kind=self.kind.plural, version=version)
        self._set_listed(listed=True)
        self._advance(version, listed=True)
        self.refused = ""
        self.synced.set()

    async def _follow(self) -> None:
        """Watch until the server ends the watch, or `catch_up` wants another one."""
        began, start = self._clock(), number(self._progress.version)
        seconds = _SHORT_WATCH if self._progress.behind or began < self._expected_until else _WATCH
        try:
            async with asyncio.timeout(None) as self._watching:
                async for event in self._client.watch(
                    self.kind, self._progress.version, self._params, seconds
                ):
                    change, item = event["type"], event["object"]
                    version = item["metadata"]["resourceVersion"]
                    if number(version) < start + (change != "BOOKMARK"):
                        # Said once more by a faulty server: a change, a deletion too, has a version of its own.
                        continue
                    if change != "BOOKMARK":
                        self._reported.report(change, item)
                    # Only now: an event that was not observed must come again after a broken connection.
                    self._advance(version)
                    self._interruptions.watched()
        except TimeoutError:
            return
        finally:
            self._watching = None
        # Before its time a watch ends with its server.
        self._doubts = self._clock() - began < seconds
        if self._progress.heard < began and self._clock() - began < _BRIEF:
            raise Unreachable(f"watch of {self.kind.plural}: it ended at once")

    def _advance(self, version: str, *, listed: bool = False) -> None:
        self._progress.advance(version, listed=listed)
        self._reported.confirm(self._progress.observed)
        self._interruptions.over()

    def _set_listed(self, *, listed: bool) -> None:
        if listed != self.listed:
            self.listed = listed
            self._noted()

    # Failures. ------------------------------------------------------------------------------------------------

    def _unserved(self, error: ApiError) -> float:
        """A kind that the server does not serve (yet, or any more), or does not let us read; returns the pause."""
        self._progress.version = ""
        self._progress.miss()
        if self._optional:
            self._progress.hear()
            if self.listed and self._progress.missed() >= self._missed:
                _log.warning("reflector.done_without", kind=self.kind.plural, error=str(error))
                self._set_listed(listed=False)
                self._reported.vanish(())
                self._progress.observed = 0  # all that there is is unknown
            self.synced.set()
            return 5 * _UNSERVED
        self.synced.clear()
        self._interruptions.say("reflector.not_served", error, _UNSERVED)
        return _UNSERVED
