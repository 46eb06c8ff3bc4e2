"""The programs of a control plane.

In: a Kubernetes version. Out: the path of each program. Each is looked for in this order: the folder `KUBEBUILDER_ASSETS`, the PATH, the user's cache, the official release
download, a build from Go modules. What the last two make goes into the cache.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console

from testbed.binaries.cache import Cache
from testbed.binaries.gobuild import GoBuild
from testbed.binaries.local import Assets, SearchPath
from testbed.binaries.progress import Display, Line, Report
from testbed.binaries.release import Release
from testbed.errors import MissingBinariesError, Unavailable
from testbed.versions import CONTROL_PLANE, DEFAULT, Program, program_of


class Finder(Protocol):
    """A place that may have a program already."""

    title: str

    async def find(self, program: Program) -> Path:
        """Return its path, or raise Unavailable."""


class Maker(Protocol):
    """A way to get a program that is not on this machine yet."""

    title: str

    async def make(self, program: Program, folder: Path, report: Report) -> Path:
        """Put it into the folder and return its path, or raise Unavailable."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The path of each program by name, and the source that it came from."""

    version: str
    paths: Mapping[str, Path]
    sources: Mapping[str, str]

    def __getitem__(self, name: str) -> Path:
        """Return the path of a program. Raises KeyError for one that was not asked for."""
        return self.paths[name]


class Provider:
    """Finds or makes programs; `finders` first, in order, then `makers`, whose results enter the cache."""

    def __init__(self, *, finders: Sequence[Finder], makers: Sequence[Maker], cache: Cache) -> None:
        self._finders = finders
        self._makers = makers
        self._cache = cache

    async def provide(self, version: str, names: Sequence[str], console: Console) -> Binaries:
        """Provide every named program. One after another, since a build uses every core by itself.

        Raises MissingBinariesError, which lists for each missing program every source and its reason. All
        programs are looked for, so that one report lists every missing one.
        """
        paths: dict[str, Path] = {}
        sources: dict[str, str] = {}
        missing: list[str] = []
        with Display(console) as display:
            for name in names:
                line = display.line(f"{name} {program_of(name, version).version}")
                tried: list[str] = []
                found = await self._one(program_of(name, version), tried, line)
                if found is None:
                    missing.append(f"{name} {program_of(name, version).version}:\n" + "\n".join(tried))
                    line.finish("not found")
                else:
                    paths[name], sources[name] = found
                    line.finish(f"from {sources[name]}")
        if missing:
            raise MissingBinariesError("No source has these programs.\n" + "\n".join(missing))
        return Binaries(version, paths, sources)

    async def _one(self, program: Program, tried: list[str], line: Line) -> tuple[Path, str] | None:
        for finder in self._finders:
            line.step(f"looking into {finder.title}")
            try:
                return await finder.find(program), finder.title
            except Unavailable as reason:
                tried.append(f"  - {finder.title}: {reason}")
        async with self._cache.exclusive(program, line.step) as folder:
            try:
                return await self._cache.find(program), self._cache.title  # another process was faster
            except Unavailable:
                pass
            for maker in self._makers:
                line.step(f"trying {maker.title}")
                try:
                    made = await maker.make(program, folder, line)
                except Unavailable as reason:
                    tried.append(f"  - {maker.title}: {reason}")
                else:
                    return self._cache.install(program, made), maker.title
        return None


async def provide(
    version: str = DEFAULT,
    names: Sequence[str] = CONTROL_PLANE,
    *,
    console: Console | None = None,
    environment: Mapping[str, str] | None = None,
    site: str | None = None,
) -> Binaries:
    """Provide the programs of a control plane from the usual sources.

    `site` is the base address of the release site. Raises MissingBinariesError.
    """
    environment = os.environ if environment is None else environment
    cache = Cache()
    provider = Provider(
        finders=(Assets(environment), SearchPath(environment), cache),
        makers=(Release(environment, site), GoBuild(environment)),
        cache=cache,
    )
    return await provider.provide(version, names, console or Console(stderr=True))
