"""The files in crds/ are those that the models make, and every field in them is documented."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from apportion.api import crd
from apportion.cli.crds import crds
from tests.api.schemas import fields

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_remaking_the_crds_changes_nothing(tmp_path: Path) -> None:
    """A change of the models includes `make crds`."""
    app = typer.Typer()
    app.command()(crds)

    result = CliRunner().invoke(app, ["--out", str(tmp_path)])

    assert result.exit_code == 0, result.output
    made = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    committed = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "crds").iterdir()}
    assert made == committed


@pytest.mark.parametrize("definition", crd.DEFINITIONS, ids=lambda definition: definition.plural)
def test_every_field_is_documented(definition: crd.Definition) -> None:
    """`kubectl explain` shows a description of each field."""
    version = crd.render(definition)["spec"]["versions"][0]
    root = version["schema"]["openAPIV3Schema"]["properties"]

    silent = [
        path
        for part in root.keys() & {"spec", "status"}
        for path, schema in fields(root[part], part)
        if not schema.get("description", "").strip()
    ]
    assert silent == []


@pytest.mark.parametrize("definition", crd.DEFINITIONS, ids=lambda definition: definition.plural)
def test_everything_that_repeats_is_bounded(definition: crd.Definition) -> None:
    """Lists, maps and free text have a largest size, which bounds objects and the costs of CEL rules."""
    root = crd.render(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    bound = {"array": "maxItems", "string": "maxLength"}

    endless = [
        path
        for part in root.keys() & {"spec", "status"}
        for path, schema in fields(root[part], part)
        if not {"enum", "format"} & schema.keys()
        and bound.get(
            schema.get("type", ""), "type" if "additionalProperties" not in schema else "maxProperties"
        )
        not in schema
        and "x-kubernetes-int-or-string" not in schema
    ]
    assert endless == []
