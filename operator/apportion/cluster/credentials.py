"""Credentials: what a client shows to the API server, and by which authorities it knows it.

In: settings of a kubeconfig or of the pod's service account. Out: the header of a request, the TLS context. kubelet writes the
service account's token anew before it ends (TokenRequest, an hour by default), and the authorities when they change
(ConfigMap kube-root-ca.crt): the files are read once a minute, and at once after a 401. What is no token leaves the former one.
"""

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog
from kubernetes_asyncio import config
from kubernetes_asyncio.client import Configuration

from apportion.errors import ApiError, Unreachable

_PERIOD: Final = 60.0
"""Seconds after which the files are read anew."""
_log = structlog.get_logger()


class Credentials:
    """Those of one client."""

    def __init__(
        self,
        settings: Configuration,
        token: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`token`: the file of the service account; None: `settings` say what is shown."""
        self.context = _context(settings)
        """That of the next connection: another one once the authorities have changed, so that former ones are trusted no more."""
        self._settings = settings
        self._file = token
        self._clock = clock
        self._read = clock()
        self._authorities = ""
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

    def renew(self) -> bool:
        """Read the files; says whether the token is another one than before."""
        if self._file is None:
            return False
        self._read = self._clock()
        authorities = _text(self._settings.ssl_ca_cert)
        if authorities not in ("", self._authorities):
            try:
                self.context = _context(self._settings, authorities)
                self._authorities = authorities
            except ssl.SSLError as error:
                _log.warning("credentials.unreadable", file=self._settings.ssl_ca_cert, error=str(error))
        former = self._settings.api_key.get("BearerToken")
        token = _text(self._file)
        if token.isprintable() and len(token.split()) == 1:
            self._settings.api_key["BearerToken"] = f"Bearer {token}"
        return bool(former != self._settings.api_key.get("BearerToken"))


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
    """Return the context; `authorities`: PEM, empty: those of the file of the settings. Raises SSLError where they are none."""
    trusted = {"cadata": authorities} if authorities else {"cafile": settings.ssl_ca_cert}
    made = ssl.create_default_context(**trusted)
    if settings.cert_file:
        made.load_cert_chain(settings.cert_file, keyfile=settings.key_file)
    if not settings.verify_ssl:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if settings.disable_strict_ssl_verification:
        made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return made
