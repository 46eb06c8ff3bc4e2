"""A fake npu-smi with one command: the vNPU templates of a card's chips.

In: a fake DCMI, a folder that stands for `/`. Out: an executable in it that prints what the fake's chips offer, in the
layout of the real one (two rows to a template, memory in GB rounded up).
"""

import re
from pathlib import Path

from testbed.fakes.dcmi.layout import Chip, Template
from testbed.fakes.dcmi.library import FakeDcmi

_RULE = "+" + "-" * 90 + "+"
_HEAD = f"""{_RULE}
|NPU instance template info is:                                                            |
{_RULE}
|Name                AICORE    Memory    AICPU     VPC            VENC           JPEGD     |
|                               GB                 PNGD           VDEC           JPEGE     |
|{"=" * 90}|
"""


def install(fake: FakeDcmi, root: Path) -> Path:
    """Write the program; returns its path."""
    program = root / "usr" / "local" / "bin" / "npu-smi"
    program.parent.mkdir(parents=True, exist_ok=True)
    state = fake.read()
    cases = "".join(
        f"{chip.card})\ncat <<'END'\n{template_info(chip)}END\n;;\n"
        for chip in state.chip[: state.chips]
        if chip.device == 0
    )
    program.write_text(
        '#!/bin/sh\nPATH=/usr/bin:/bin\n[ "$1 $2 $3 $4" = "info -t template-info -i" ] || exit 215\n'
        f'case "$5" in\n{cases}*) echo "Error parameter of -i." ; exit 215 ;;\nesac\n',
        encoding="ascii",
    )
    program.chmod(0o755)
    return program


def template_info(chip: Chip) -> str:
    """Return what the real program prints for such a chip."""
    return _HEAD + "".join(_rows(template) for template in chip.template[: chip.templates]) + _RULE + "\n"


def _rows(template: Template) -> str:
    amounts, name = template.amounts, template.name.decode()
    shown = re.search(r"_(\d+)g", name)
    memory = shown[1] if shown else str(amounts.memory // 1024)
    return (
        f"|{name:<19} {amounts.aicore:<9} {memory:<9} {amounts.aicpu:<9} {amounts.vpc:<14} {amounts.venc:<14} "
        f"{amounts.jpegd:<10}|\n"
        f"|{'':<49} {0:<14} {amounts.vdec:<14} {amounts.jpege:<10}|\n{_RULE}\n"
    )
