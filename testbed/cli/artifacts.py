"""`python -m testbed artifacts`: make the files that a version is published as."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from testbed.artifacts.commit import commit
from testbed.artifacts.make import Published, make
from testbed.binaries import provide
from testbed.installation import REPOSITORY
from testbed.versions import DEFAULT

_PUBLISHED = Published()


def artifacts(
    out: Annotated[
        Path, typer.Option(help="Folder that gets the files; empty or not there yet.", file_okay=False)
    ] = Path("dist"),
    revision: Annotated[str, typer.Option(help="Commit or tag that is published.")] = "HEAD",
    image: Annotated[
        str, typer.Option(help="Where the image is published, without a tag.")
    ] = _PUBLISHED.image,
    url: Annotated[str, typer.Option(help="Address of the folder where the files will be.")] = _PUBLISHED.url,
    homepage: Annotated[str, typer.Option(help="Address of the project.")] = _PUBLISHED.homepage,
) -> None:
    """Make packages, manifests, chart, plugin, bill of materials, provenance and checksums of a version."""
    kubectl = asyncio.run(provide(DEFAULT, ["kubectl"]))["kubectl"]
    for path in make(commit(REPOSITORY, revision), kubectl, Published(image, url, homepage), out):
        Console().print(path)
