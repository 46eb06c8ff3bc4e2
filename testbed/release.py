"""Official release downloads: Kubernetes' release site file by file, etcd's as one archive."""

import hashlib
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path

import aiohttp
from yarl import URL

from testbed.errors import Unavailable
from testbed.progress import Report
from testbed.versions import Wanted

KUBERNETES_SITE = "https://dl.k8s.io"
ETCD_SITE = "https://github.com/etcd-io/etcd/releases/download"

_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=5, sock_connect=5, sock_read=30)
_CHUNK = 1 << 18
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Release:
    """Downloads from the release sites, or from mirrors with the same layout.

    The mirrors' addresses come from `APPORTION_RELEASE_URL` and `APPORTION_ETCD_RELEASE_URL`; `site` overrules the
    first. A site that cannot be reached is asked once, not once per program.
    """

    title = "release site"

    def __init__(self, environment: Mapping[str, str], site: str | None = None) -> None:
        self._kubernetes = (site or environment.get("APPORTION_RELEASE_URL") or KUBERNETES_SITE).rstrip("/")
        self._etcd = (environment.get("APPORTION_ETCD_RELEASE_URL") or ETCD_SITE).rstrip("/")
        self._unreachable: dict[str, str] = {}
        machine = platform.machine()
        self._architecture = _ARCHITECTURES.get(machine, machine)

    async def make(self, want: Wanted, folder: Path, report: Report) -> Path:
        """Download and verify a program into the folder.

        Raises Unavailable when the site cannot be reached or lacks the file, or when the checksum is wrong.
        """
        async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
            if want.name == "etcd":
                return await self._archive(session, want, folder, report)
            base = f"{self._kubernetes}/release/v{want.version}/bin/linux/{self._architecture}/{want.name}"
            published = (await self._text(session, f"{base}.sha256")).split()
            return await self._download(session, base, published, folder / want.name, report)

    async def _archive(
        self, session: aiohttp.ClientSession, want: Wanted, folder: Path, report: Report
    ) -> Path:
        stem = f"etcd-v{want.version}-linux-{self._architecture}"
        base = f"{self._etcd}/v{want.version}"
        sums = await self._text(session, f"{base}/SHA256SUMS")
        published = [line.split()[0] for line in sums.splitlines() if line.endswith(f" {stem}.tar.gz")]
        archive = await self._download(
            session, f"{base}/{stem}.tar.gz", published, folder / f"{stem}.tar.gz", report
        )
        try:
            with tarfile.open(archive) as content:
                content.extract(f"{stem}/etcd", path=folder, filter="data")
        except (tarfile.TarError, KeyError) as error:
            raise Unavailable(f"{archive.name} holds no {stem}/etcd: {error}") from error
        return folder / stem / "etcd"

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
