"""Texts in random selectors that a library reads: addresses, URLs, times, quantities, versions; good ones and bad ones."""

from typing import Final

from tests.cel.randomselectors import QUANTITIES, VERSIONS, quoted

TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "IPS": (
        "'127.0.0.1'",
        "'::1'",
        "'10.0.0.1'",
        "'fe80::1'",
        "'bad'",
        "'::ffff:1.2.3.4'",
        "{S}",
    ),
    "CIDRS": (
        "'10.0.0.0/8'",
        "'10.0.0.1/8'",
        "'2001:db8::/32'",
        "'10.0.0.0/33'",
        "{S}",
    ),
    "URLS": (
        "'https://example.com:80/a/b?x=1&y=2'",
        "'/path'",
        "'http://[::1]:443/'",
        "'bad url'",
        "'https://user@host/%20x'",
        "{S}",
    ),
    "TS": (
        "'2024-02-29T12:00:00Z'",
        "'2009-02-13T23:31:30.5+02:00'",
        "'bad'",
        "'0001-01-01T00:00:00Z'",
        "'9999-12-31T23:59:59Z'",
    ),
    "DU": (
        "'1h'",
        "'90s'",
        "'-1.5s'",
        "'1h30m'",
        "'bad'",
        "'100ms'",
        "'1d'",
    ),
    "TZ": (
        "'UTC'",
        "'+02:00'",
        "'America/New_York'",
        "'bad'",
    ),
    "QS": (
        "'bad'",
        "'1e3'",
        "'1E'",
        "'0.5'",
        "'1Gi'",
        "'1024Mi'",
        "'-1'",
        "'999999999999999999999'",
        "'1n'",
        "''",
        "' 1'",
        "'+5'",
        "'.5'",
        "'5.'",
        *map(quoted, QUANTITIES),
    ),
    "VS": (
        "'bad'",
        "'v1.0.0'",
        "'1'",
        "'1.2'",
        "'01.0.0'",
        "'1.0.0-alpha.1'",
        "'1.0.0-alpha'",
        "'1.0.0+b'",
        "''",
        *map(quoted, VERSIONS),
    ),
}
