"""Pages as HTML.

In: the name of a template and what it shows. Out: text in which everything that is shown is escaped.
"""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def html(template: str, **shown: Any) -> str:
    """Return a page."""
    return _ENVIRONMENT.get_template(template).render(**shown)


def link(what: str, key: str) -> str:
    """Return the address of a claim's or pod's page, of which the key is `namespace/name`."""
    namespace, _, name = key.partition("/")
    return f"/{what}s/{quote(namespace, safe='')}/{quote(name, safe='')}"


def node_link(name: str) -> str:
    """Return the address of a node's page."""
    return f"/nodes/{quote(name, safe='')}"


def age(since: str, now: datetime) -> str:
    """Return how long ago a time (RFC 3339) was, in the largest unit that fits; the text itself if it is no time."""
    try:
        seconds = (now - datetime.fromisoformat(since)).total_seconds()
    except (ValueError, TypeError):
        return since
    for unit, size in (("d", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    # Coarse, so that a page that is read is not renewed for it.
    return "less than a minute"


def clock(time: str) -> str:
    """Return a time (RFC 3339, UTC as the API server writes it) as people read it; the text itself if it is no time."""
    try:
        return datetime.fromisoformat(time).strftime("%Y-%m-%d %H:%M:%S UTC")
    except ValueError:
        return time


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("apportion.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"link": link, "node_link": node_link, "now": lambda: datetime.now(UTC)}
    made.filters |= {"age": age, "clock": clock}
    return made


_ENVIRONMENT = _environment()
