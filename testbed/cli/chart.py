"""`python -m testbed chart`: write the Helm chart's templates and CRDs anew after the manifests have changed."""

import asyncio
from pathlib import Path

from rich.console import Console

from testbed.binaries import provide
from testbed.chart.templates import Kustomize, generated, write
from testbed.installation import MANIFESTS
from testbed.versions import DEFAULT

CHART = MANIFESTS.parent / "charts/apportion"


def chart() -> None:
    """Write the Helm chart's templates and CRDs from the manifests."""
    kubectl: Path = asyncio.run(provide(DEFAULT, ["kubectl"]))["kubectl"]
    files = generated(Kustomize(kubectl, MANIFESTS))
    write(files, CHART)
    for name in files:
        Console().print(CHART.relative_to(MANIFESTS.parent) / name)
