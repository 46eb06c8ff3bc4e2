"""`python -m testbed proto`: write the gRPC messages anew after a .proto file has changed."""

from rich.console import Console

from testbed.messages import ROOT, generate


def proto() -> None:
    """Generate the gRPC messages (`*_pb2.py`, `*_pb2.pyi`) from the .proto files."""
    console = Console()
    for path in generate(ROOT):
        console.print(path.relative_to(ROOT.parent))
