"""Read the files of the openb data set.

In: the folder, the name of a file. Out: its rows by column. Raises BrokenInput with the file and what is wrong with it.
"""

import csv
import gzip
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from zlib import error as ZlibError  # noqa: N812 - it is a class

from apportion.errors import BrokenInput

NODES, PODS = "openb_node_list_gpu_node.csv", "openb_pod_list_default.csv"
"""The nodes, and the pods of the default list."""


def read_rows(folder: Path, name: str, *columns: str) -> Sequence[Mapping[str, str]]:
    """Return the rows of a file, plain or gzipped; it must have these columns."""
    path = path_of(folder, name)
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    except OSError as error:
        raise BrokenInput(f"{path.name}: {error.strerror or error}", field=str(folder)) from None
    except (EOFError, UnicodeDecodeError, ZlibError) as error:
        raise BrokenInput(f"{path.name}: {error}", field=str(folder)) from None
    rows = csv.DictReader(io.StringIO(text))
    missing = [column for column in columns if column not in (rows.fieldnames or ())]
    if missing:
        raise BrokenInput(f"{path.name}: it has no column {', '.join(missing)}", field=str(folder))
    return list(rows)


def path_of(folder: Path, name: str) -> Path:
    """Return the file's path, gzipped or plain."""
    packed = folder / f"{name}.gz"
    return packed if packed.exists() else folder / name
