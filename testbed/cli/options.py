"""Options that several commands share."""

from typing import Annotated, Final

import typer

from testbed.versions import DEFAULT, SUPPORTED

DEFAULT_NAME: Final = "default"
DEFAULT_KUBERNETES: Final = DEFAULT


def _supported(version: str) -> str:
    if version not in SUPPORTED:
        raise typer.BadParameter(f"known versions are {', '.join(SUPPORTED)}")
    return version


Name = Annotated[str, typer.Option(help="Which testbed, where several run at once.")]
Kubernetes = Annotated[
    str, typer.Option(help=f"Kubernetes version: {' or '.join(SUPPORTED)}.", callback=_supported)
]
