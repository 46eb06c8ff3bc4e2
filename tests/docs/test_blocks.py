"""Every block of code in the docs: commands exist as they are written, and manifests are read by what reads them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from apportion.api import GROUP
from apportion.api.crd import DEFINITIONS, render
from docsite.commands import commands
from tests.docs.blocks import ROOT, Block, blocks, pages
from tests.docs.commandline import wrong

ALL = [block for path in pages() for block in blocks(path)]
LANGUAGES = {"sh", "console", "yaml", "json", "text", "pycon", "python", "promql"}
KINDS = {definition.root.__name__: definition for definition in DEFINITIONS}
NAMED = re.compile(r"`((?:bench|crds|docs|examples|manifests|operator|requirements|testbed|tests)/[\w./-]*)`")
"""Files of the repository that a text names."""
MADE = {"bench/out", "docs/adr/NNNN"}
"""Files that are made, or stand for others."""
INLINE = re.compile(r"`((?:make|apportion|kubectl apply|kubectl apportion) [^`]+)`")


def ids(block: Block) -> str:
    return block.where


def test_there_are_blocks_of_every_kind() -> None:
    """The tests below have something to look at."""
    assert {"sh", "console", "yaml"} <= {block.language for block in ALL}
    assert sum(block.is_run for block in ALL) >= 5


def test_every_block_says_its_language() -> None:
    """A block that says nothing is neither shown well nor tested: write ```sh, console (with `$ `), yaml or text instead of an indented one."""
    assert [f"{block.where}: {block.text[:60]}" for block in ALL if block.language not in LANGUAGES] == []


@pytest.mark.slow
@pytest.mark.parametrize("block", [each for each in ALL if each.language in {"sh", "console"}], ids=ids)
def test_commands_exist(block: Block) -> None:
    """Programs, subcommands, options, targets of make, and files that a command reads."""
    text = block.text
    if block.language == "console":
        text = "\n".join(line[2:] for line in text.splitlines() if line.startswith("$ "))
        assert text
    assert wrong(text) == []


@pytest.mark.parametrize("block", [each for each in ALL if each.language == "yaml"], ids=ids)
def test_manifests_are_read(block: Block) -> None:
    """It is YAML; objects of ours are what the operator accepts, without fields that it does not know."""
    for found in yaml.safe_load_all(block.text):
        if isinstance(found, dict) and str(found.get("apiVersion", "")).startswith(f"{GROUP}/"):
            _accepted(found)


def _accepted(found: dict[str, Any]) -> None:
    definition = KINDS[found["kind"]]
    definition.root.model_validate(found)
    schema = render(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert list(_unknown(found["spec"], schema["properties"]["spec"], "spec")) == []


def _unknown(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the fields that a kind does not have; the API server would drop them."""
    if isinstance(value, list):
        for each in value:
            yield from _unknown(each, schema.get("items", {}), path)
    elif isinstance(value, dict) and schema.get("properties"):
        for name, inside in value.items():
            if name not in schema["properties"]:
                yield f"{path}.{name}"
            else:
                yield from _unknown(inside, schema["properties"][name], f"{path}.{name}")


@pytest.mark.slow
def test_commands_in_the_text_exist() -> None:
    """The same for commands that a sentence names."""
    texts = [
        (path, each)
        for path in pages()
        if path.name != "CHANGELOG.md"
        for each in INLINE.findall(path.read_text())
    ]
    assert len(texts) > 50
    assert [f"{path.relative_to(ROOT)}: {each}" for path, each in texts if wrong(_typed(each))] == []


def _typed(text: str) -> str:
    """Return a command as somebody types it who replaces what stands for a value, and takes the first of several words."""
    return re.sub(r"<[^>]*>|\|[A-Za-z]+|\.\.\.|…", " X ", text.replace("\\|", "|").split(" > ")[0]).replace(
        " X ", " "
    )


def test_files_in_the_text_exist() -> None:
    """A page that names a file of the repository leads there."""
    texts = [
        (path, each)
        for path in pages()
        if path.name != "CHANGELOG.md"
        for each in NAMED.findall(path.read_text())
    ]
    assert len(texts) > 30
    assert [
        f"{path.relative_to(ROOT)}: {each}"
        for path, each in texts
        if each not in MADE and not (ROOT / each).exists() and not _of_the_operator(each)
    ] == []


def _of_the_operator(name: str) -> bool:
    """Say whether a path is below the package, as CONTRIBUTING and the glossary write them."""
    return (ROOT / "operator/apportion" / name).exists()


def test_a_wrong_command_is_noticed() -> None:
    """What the tests above look for is found where it is."""
    for text in (
        "apportion freee",
        "apportion free --wrld x",
        "kubectl aply -k manifests/",
        "kubectl apply -k manifest/",
        "make demonstration",
        "python -m benchmark",
        "python -m bench --no-such-thing",
        "kubectl exec x -- /app/bin/python -m apportion nodes",
        "aportion free",
        "true | apportion fre > x",
    ):
        assert wrong(text), text
    assert len([*commands()]) >= 15
    schema = {"properties": {"spec": {"properties": {"known": {}}}}}
    assert list(_unknown({"spec": {"unknown": 1}}, schema, "")) == [".spec.unknown"]
