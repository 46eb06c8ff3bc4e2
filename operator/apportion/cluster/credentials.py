"""Credentials: what a client shows to the API server, and by which authorities it knows it.

In: settings of a kubeconfig or of the pod's service account. Out: the header of a request, the TLS context. kubelet writes the
service account's token anew before it ends (TokenRequest, an hour by default), and the authorities when they change
(ConfigMap kube-root-ca.crt): the files are read once a minute, and at once after a 401. What is no token leaves the former one. A
kubeconfig is read anew after a 401: what a plugin of it (client.authentication.k8s.io) gave may last for a quarter of an hour.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import structlog
from kubernetes_asyncio import config
from kubernetes_asyncio.client import Configuration

from apportion.errors import ApiError, ApportionError, BrokenInput, Unreachable

_PERIOD: Final = 60.0
"""Seconds after which the files are read anew."""
_PAUSE: Final = 10.0
"""Seconds between two readings of a kubeconfig: each may run a program of others."""
_LONGEST: Final = 30.0
"""Seconds that reading it may take: all requests wait for it."""
Reread = Callable[[], Awaitable[Configuration]]
"""Reads a kubeconfig anew. Raises ApportionError."""
_log = structlog.get_logger()


class Credentials:
    """Those of one client."""

    def __init__(
        self,
        settings: Configuration,
        token: Path | None = None,
        reread: Reread | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`token`: the file of the service account; `reread` reads a kubeconfig anew; neither: `settings` say what is shown.

        Raises BrokenInput for certificates, or a key, that are none.
        """
        self.context = _context(settings)
        """That of the next connection: another one once the authorities have changed, so that former ones are trusted no more."""
        self._settings = settings
        self._file = token
        self._clock = clock
        self._read = clock()
        self._authorities = ""
        self._reread = reread
        self._renewing = asyncio.Lock()
        self._asked = float("-inf")
        """When the kubeconfig was read anew."""
        self.renew()

    async def header(self) -> dict[str, str]:
        """Return the header that says who asks; raises Unreachable where that does not become known, ApiError where no request can have it."""
        if self._clock() - self._read >= _PERIOD:
            self.renew()
        try:
            found = (await self._settings.auth_settings()).get("BearerToken") or {}
        except (config.ConfigException, OSError) as error:
            raise Unreachable(f"credentials: {error}") from None
        shown = str(found.get("value") or "")
        if not shown.isprintable():
            raise ApiError("the token has characters that no request can have")
        return {"Authorization": shown} if shown else {}

    def token(self) -> str | None:
        """Read the files, and return the token that is shown; None: the client shows a certificate, or nothing."""
        self.renew()
        return str(self._settings.api_key.get("BearerToken") or "").removeprefix("Bearer ") or None

    async def renewed(self, refused: Mapping[str, str]) -> bool:
        """Read anew what is shown, after a 401 for a request with these headers; says whether it is something else by now."""
        async with self._renewing:
            self.renew()
            if self._reread is not None and await self._is_shown(refused):
                await self._read_anew(self._reread)
            return not await self._is_shown(refused)

    async def _is_shown(self, headers: Mapping[str, str]) -> bool:
        return (await self.header()).get("Authorization") == headers.get("Authorization")

    async def _read_anew(self, reread: Reread) -> None:
        if self._clock() - self._asked < _PAUSE:
            return
        self._asked = self._clock()
        try:
            async with asyncio.timeout(_LONGEST):
                found = (await reread()).api_key.get("BearerToken")
        except (ApportionError, TimeoutError) as error:
            _log.warning("credentials.unreadable", error=str(error) or f"no answer for {_LONGEST:.0f} s")
            return
        if found:
            self._settings.api_key["BearerToken"] = found

    def renew(self) -> None:
        """Read the files."""
        if self._file is None:
            return
        self._read = self._clock()
        authorities = _text(self._settings.ssl_ca_cert)
        if authorities not in ("", self._authorities):
            try:
                self.context = _context(self._settings, authorities)
                self._authorities = authorities
            except BrokenInput as error:
                _log.warning("credentials.unreadable", file=self._settings.ssl_ca_cert, error=error.reason)
        token = _text(self._file)
        if token.isprintable() and len(token.split()) == 1:
            self._settings.api_key["BearerToken"] = f"Bearer {token}"


def _text(file: Path | str | None) -> str:
    """Return what a file holds; empty: nothing of use."""
    if file is None:
        return ""
    try:
        found = Path(file).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        _log.warning("credentials.unreadable", file=str(file), error=str(error))
        return ""
    if not found:
        _log.warning("credentials.unreadable", file=str(file), error="it is empty")
    return found


def _context(settings: Configuration, authorities: str = "") -> ssl.SSLContext:
    """Return the context; `authorities`: PEM, empty: those of the file of the settings. Raises BrokenInput for certificates, or a key, that are none.

    Certificates are verified as kubectl does it (Go, crypto/x509): from 3.13 on Python refuses those that do not name the key of their signer.
    """
    trusted = {"cadata": authorities} if authorities else {"cafile": settings.ssl_ca_cert}
    try:
        made = ssl.create_default_context(**trusted)
    except OSError as error:
        raise BrokenInput(
            f"no authorities can be read: {error}", field="cluster.certificate-authority"
        ) from None
    if settings.cert_file:
        try:
            made.load_cert_chain(settings.cert_file, keyfile=settings.key_file)
        except OSError as error:
            raise BrokenInput(
                f"no certificate with its key can be read: {error}", field="user.client-certificate"
            ) from None
    if not settings.verify_ssl:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return made
