"""Options of the web page, which `apportion web` and the operator have in common."""

from typing import Annotated, TypeAlias

import typer

from apportion.dra.quantity import Quantity
from apportion.errors import BrokenInput

WebHosts: TypeAlias = Annotated[
    str,
    typer.Option(
        "--web-hosts",
        help="Names beside localhost by which the page may be asked for, as a proxy does; separated by commas.",
        envvar="WEB_HOSTS",
    ),
]
WebMemory: TypeAlias = Annotated[
    str,
    typer.Option(
        "--web-memory",
        help="Most memory of the page, as 2Gi; default: half of the container's limit beside an operator, else none.",
        envvar="WEB_MEMORY",
    ),
]


def bytes_of(memory: str) -> int | None:
    """Return how many bytes --web-memory says; an empty text says nothing."""
    if not memory:
        return None
    try:
        found = Quantity.parse(memory).value
    except BrokenInput as error:
        raise typer.BadParameter(error.reason, param_hint="--web-memory") from None
    if found <= 0:
        raise typer.BadParameter(f"{memory} is no amount of memory", param_hint="--web-memory")
    return found
