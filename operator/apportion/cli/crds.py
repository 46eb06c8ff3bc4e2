"""`apportion crds`: write the CRDs. In: a folder. Out: its YAML files, made from the models."""

from pathlib import Path
from typing import Annotated

import typer

from apportion.api import crd
from apportion.cli import document


def crds(
    out: Annotated[Path, typer.Option(help="Folder that gets the files.", file_okay=False)] = Path("crds"),
) -> None:
    """Write the CustomResourceDefinitions as YAML, with a kustomization that lists them."""
    try:
        written = crd.write(out)
    except OSError as error:
        raise document.refuse(f"--out {out}: {error.strerror}") from None
    for path in written:
        typer.echo(path)
