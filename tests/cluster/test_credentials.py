"""The token and the authorities of the pod's service account, whose files kubelet writes anew."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web
from kubernetes_asyncio.client import Configuration

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLASSES
from apportion.cluster.reflector import Reflector
from apportion.errors import ApiError, Unreachable
from testbed.beside import beside
from testbed.certificates import Authority
from testbed.eventually import eventually
from tests.clock import Clock
from tests.cluster.apiserver import ApiServer, failed
from tests.cluster.replica import claim as given
from tests.cluster.replica import devices, replica, two_devices
from tests.cluster.seen import Seen

PERIOD = 61.0


class Guard:
    """Lets requests in by the tokens that are valid now."""

    def __init__(self, *valid: str) -> None:
        self.valid = set(valid)
        self.shown: list[str | None] = []

    def __call__(self, request: web.Request) -> web.Response | None:
        """Refuse who shows another one."""
        shown = request.headers.get("Authorization")
        self.shown.append(shown)
        return None if shown in {f"Bearer {each}" for each in self.valid} else failed(401, "Unauthorized")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where kubelet writes."""
    made = tmp_path / "token"
    made.write_text("first")
    return made


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """Serve a node in memory."""
    async with ApiServer().serving() as made:
        made.put(CLASSES, {"metadata": {"name": "c"}})
        yield made


def write(file: Path, text: str | None) -> None:
    """Let the file hold this text; None: let it be away."""
    file.unlink(missing_ok=True)
    if text is not None:
        file.write_text(text)


def client(server: ApiServer, file: Path, clock: Clock) -> Client:
    settings = Configuration(host=f"http://127.0.0.1:{server.port}")
    return Client(settings, patience=5.0, manager="test", token=file, clock=clock)


async def test_a_token_is_read_anew_before_it_ends(server: ApiServer, file: Path) -> None:
    """A minute after it was written at most, by a clock that nobody sets."""
    clock = Clock()
    server.fault = guard = Guard("first", "second")
    async with client(server, file, clock) as one:
        await one.get(CLASSES, "c")
        write(file, "second\n")
        clock.now += PERIOD
        await one.get(CLASSES, "c")
    assert guard.shown == ["Bearer first", "Bearer second"]


async def test_a_request_that_is_refused_for_its_token_is_made_with_the_next_one(
    server: ApiServer, file: Path
) -> None:
    """A clock may be wrong, or the token's key revoked; a second refusal by the same token is the answer."""
    server.fault = guard = Guard("second")
    async with client(server, file, Clock()) as one:
        write(file, "second")
        await one.patch(CLASSES, "c", {"metadata": {"labels": {"a": "b"}}})
        guard.valid.clear()
        with pytest.raises(ApiError, match="401"):
            await one.get(CLASSES, "c")
    assert guard.shown == ["Bearer first", "Bearer second", "Bearer second"]


async def test_a_watch_that_is_refused_for_its_token_goes_on_with_the_next_one(
    server: ApiServer, file: Path
) -> None:
    """Without a list of all objects, and at once."""
    guard = Guard("first")
    server.fault = guard
    async with client(server, file, Clock()) as one:
        reflector = Reflector(one, CLASSES, seen := Seen(), few=-1)
        async with beside(reflector.run()):
            await reflector.synced.wait()
            write(file, "second")
            guard.valid = {"second"}
            server.requests.clear()
            server.end_watches()
            server.put(CLASSES, {"metadata": {"name": "late"}})
            await eventually(lambda: seen.has("late"))
    assert not any("limit=500" in path for _, path in server.requests)


@pytest.mark.parametrize("found", ["", "\n", "two words", "nul\0", "ümlaut", None])
async def test_a_file_that_holds_no_token_leaves_the_former_one(
    server: ApiServer, file: Path, found: str | None
) -> None:
    """It is being written, or its disk was full, or it is not there: it ended the operator."""
    clock = Clock()
    server.fault = Guard("first")
    async with client(server, file, clock) as one:
        write(file, found)
        clock.now += PERIOD
        await one.get(CLASSES, "c")
        write(file, "second")
        server.fault = Guard("second")
        await one.get(CLASSES, "c")


@dataclass(frozen=True, slots=True)
class Secured:
    """A client of a server that shows a certificate."""

    client: Client
    clock: Clock
    trusted: Path
    """The file of the authorities that the client trusts."""
    signer: bytes
    """The authority of the server's certificate."""
    other: bytes
    """Another one."""

    def trust(self, authorities: bytes) -> None:
        """Write the file, and let the time pass after which it is read."""
        self.trusted.write_bytes(authorities)
        self.clock.now += PERIOD


@asynccontextmanager
async def secured(
    token: Path, folder: Path, *, trusts_signer: bool, identified: bool = True
) -> AsyncIterator[Secured]:
    """Give a client that trusts the authority of the server's certificate, or the other one."""
    signer, other = Authority(folder / "signer", identified=identified), Authority(folder / "other")
    pair = signer.serving()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    trusted, clock = folder / "ca.crt", Clock()
    authorities = signer.certificate.read_bytes(), other.certificate.read_bytes()
    trusted.write_bytes(authorities[not trusts_signer])
    async with listening(context) as port:
        settings = Configuration(host=f"https://127.0.0.1:{port}", ssl_ca_cert=str(trusted))
        async with Client(settings, patience=5.0, manager="test", token=token, clock=clock) as client:
            yield Secured(client, clock, trusted, *authorities)


async def test_authorities_are_read_anew(file: Path, tmp_path: Path) -> None:
    """The API server has a certificate of another authority than when the operator started."""
    async with secured(file, tmp_path, trusts_signer=False) as made:
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await made.client.get(CLASSES, "c")
        made.trust(b"-----BEGIN CERTIFICATE-----\n")
        with pytest.raises(Unreachable):
            await made.client.get(CLASSES, "c")
        made.trust(made.other + made.signer)
        await made.client.get(CLASSES, "c")


async def test_an_authority_that_the_file_has_no_more_is_trusted_no_more(file: Path, tmp_path: Path) -> None:
    """Its key may have become known, which is why it was exchanged; a file that is no certificate changes nothing."""
    async with secured(file, tmp_path, trusts_signer=True) as made:
        await made.client.get(CLASSES, "c")
        made.trust(made.other[:80])
        await made.client.get(CLASSES, "c")
        made.trust(made.other)
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await made.client.get(CLASSES, "c")


async def test_a_certificate_need_not_name_the_key_of_its_signer(file: Path, tmp_path: Path) -> None:
    """Python before 3.13 and kubectl trust it, so commands may not refuse a cluster by the Python that they run on."""
    async with secured(file, tmp_path, trusts_signer=True, identified=False) as made:
        await made.client.get(CLASSES, "c")


@asynccontextmanager
async def listening(context: ssl.SSLContext) -> AsyncIterator[int]:
    """Answer everything with an empty object over TLS."""

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "1"}})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.mark.slow
async def test_a_401_for_kopf_does_not_end_the_operator() -> None:
    """The API server could not ask who shows the token, for a moment; the same token is good afterwards."""
    refused: list[str] = []

    def fault(request: web.Request) -> web.Response | None:
        if "apportion" in request.headers["User-Agent"] or len(refused) == 4:
            return None
        refused.append(request.path)
        return failed(401, "Unauthorized")

    async with ApiServer().serving() as server:
        two_devices(server)
        given(server, "only")
        server.fault = fault
        async with replica(server) as app:

            async def is_served() -> bool:
                return len(refused) == 4 and bool(devices(server))

            await eventually(is_served)
            await asyncio.sleep(1)
            assert app.fitness.unhealthy() is None
