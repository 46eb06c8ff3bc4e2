"""Connection: how kopf reaches the API server: with the client's token, and by the authorities that the client trusts.

In: the client. Out: what kopf asks for at a login.
"""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

import kopf

from apportion.cluster.client import Client

_LASTS: Final = timedelta(minutes=10)
"""After that kopf asks anew: kubelet exchanges the token within the hour."""


@dataclass(frozen=True, kw_only=True)
class Connection(kopf.ConnectionInfo):
    """kopf's, by a TLS context that is made already."""

    context: ssl.SSLContext

    @classmethod
    def of(cls, client: Client) -> Self:
        """Return one with a token that is valid now; no two are equal."""
        token = client.credentials.token()
        return cls(
            server=str(client.settings.host),
            token=token,
            scheme="Bearer" if token else None,
            context=client.credentials.context,
            expiration=datetime.now(UTC) + _LASTS,
        )

    def as_ssl_context(self) -> ssl.SSLContext:
        """Return the context; kopf's own verifies more strictly than kubectl on Python 3.13."""
        return self.context
