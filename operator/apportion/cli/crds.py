"""`apportion crds`: write the CRDs. In: a folder. Out: its YAML files, made from the models."""

from pathlib import Path
from typing import Annotated

import typer

from apportion.api import crd


def crds(
    out: Annotated[Path, typer.Option(help="Folder that gets the files.", file_okay=False)] = Path("crds"),
) -> None:
    """Write the CustomResourceDefinitions as YAML, with a kustomization that lists them."""
    for path in crd.write(out):
        typer.echo(path)
