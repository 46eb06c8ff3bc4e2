"""Downloads of official releases: a program as a file, or in its project's archive."""

import hashlib
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import aiohttp
from yarl import URL

from testbed.binaries.progress import Report
from testbed.errors import Unavailable
from testbed.projects import project_of
from testbed.versions import Program

_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=5, sock_connect=5, sock_read=30)
_CHUNK = 1 << 18
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Release:
    """Downloads from the release sites, or from mirrors with the same layout.

    Environment variables name the mirrors (`Project.variable`); `site` overrules the one of Kubernetes. A site that cannot
    be reached is asked once, not once per program.
    """

    title = "release site"

    def __init__(self, environment: Mapping[str, str], site: str | None = None) -> None:
        self._environment = environment
        self._site = site
        self._unreachable: dict[str, str] = {}
        machine = platform.machine()
        self._architecture = _ARCHITECTURES.get(machine, machine)

    async def make(self, program: Program, folder: Path, report: Report) -> Path:
        """Download and verify a program into the folder.

        Raises Unavailable when the site cannot be reached or lacks the file, or when the checksum is wrong.
        """
        project = project_of(program.name)
        mirror = self._site if not project.version and self._site else self._environment.get(project.variable)
        site = (mirror or project.site).rstrip("/")
        words = {"version": program.version, "arch": self._architecture, "name": program.name}
        address = f"{site}/{project.file.format(**words)}"
        name = address.rpartition("/")[2]
        async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
            sums = await self._text(session, f"{site}/{project.sums.format(**words)}")
            got = await self._download(session, address, _published(sums, name), folder / name, report)
        return _member(got, project.member.format(**words), folder) if project.member else got

    async def _text(self, session: aiohttp.ClientSession, address: str) -> str:
        async with self._get(session, address) as response:
            return await response.text()

    async def _download(
        self, session: aiohttp.ClientSession, address: str, published: list[str], target: Path, report: Report
    ) -> Path:
        if not published:
            raise Unavailable(f"{address}: the site publishes no checksum for it")
        digest = hashlib.sha256()
        async with self._get(session, address) as response:
            with target.open("wb") as file:
                async for chunk in response.content.iter_chunked(_CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    report.step("downloading", done=file.tell(), total=response.content_length)
        if digest.hexdigest() != published[0]:
            raise Unavailable(f"{address}: its checksum is {digest.hexdigest()}, published is {published[0]}")
        return target

    def _get(self, session: aiohttp.ClientSession, address: str) -> "_Request":
        return _Request(session, URL(address), self._unreachable)


def _published(sums: str, name: str) -> list[str]:
    """Return the sum of a file out of its sums file, which holds a bare sum or one line per file."""
    lines = [line.split() for line in sums.splitlines() if line.strip()]
    return [words[0] for words in lines if len(words) == 1 or words[1].lstrip("*") == name]


def _member(archive: Path, member: str, folder: Path) -> Path:
    """Take one program out of an archive."""
    try:
        with tarfile.open(archive) as content:
            for entry in content:
                if PurePosixPath(entry.name) == PurePosixPath(member):
                    content.extract(entry, path=folder, filter="data")
                    return folder / entry.name
    except tarfile.TarError as error:
        raise Unavailable(f"{archive.name} is no archive: {error}") from error
    raise Unavailable(f"{archive.name} holds no {member}")


class _Request:
    """One GET whose every failure is an Unavailable; remembers hosts that cannot be reached."""

    def __init__(self, session: aiohttp.ClientSession, address: URL, unreachable: dict[str, str]) -> None:
        self._session = session
        self._address = address
        self._unreachable = unreachable

    async def __aenter__(self) -> aiohttp.ClientResponse:
        host = self._address.authority
        if host in self._unreachable:
            raise Unavailable(f"not asked again: {self._unreachable[host]}")
        try:
            self._response = await self._session.get(self._address)
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            self._unreachable[host] = reason
            raise Unavailable(f"{self._address}: {reason}") from error
        if self._response.status != 200:
            self._response.release()
            raise Unavailable(f"{self._address}: {self._response.status} {self._response.reason}")
        return self._response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        self._response.close()
        if isinstance(error, aiohttp.ClientError | TimeoutError):
            raise Unavailable(
                f"{self._address}: the transfer broke off ({str(error) or type(error).__name__})"
            ) from error
