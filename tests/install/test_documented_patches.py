"""The patches that documents show are such that kustomize takes them."""

import os
from pathlib import Path

import yaml

from testbed.binaries import Binaries
from tests.docs.blocks import blocks, pages
from tests.install.rendered import ROOT, rendered


def test_each_documented_patch_changes_the_manifests(tmp_path: Path, binaries: Binaries) -> None:
    """Kustomize takes a patch that begins with a bracket for JSON, in which keys have quotes."""
    resources = [os.path.relpath(ROOT / "manifests/base", tmp_path)]
    plain = {"resources": resources}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(plain))
    before = rendered(binaries, str(tmp_path))
    found = [block for page in pages() for block in blocks(page) if "patches:" in block.text]
    assert found
    for block in found:
        patched = plain | {"patches": yaml.safe_load(block.text)["patches"]}
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(patched))
        assert rendered(binaries, str(tmp_path)) != before, block.where
