"""Archives whose bytes depend on nothing but what is in them.

In: files by name, a time. Out: a .tar.gz. Names are in order, owners are nobody, every time is the same.
"""

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """One file in an archive."""

    content: bytes
    executable: bool = False


def tar_gz(files: Mapping[str, ArchivedFile], seconds: int) -> bytes:
    """Return the archive; `seconds` since 1970 is the time of every file."""
    packed = io.BytesIO()
    # No name of the file in gzip's header; and the time is given, or it would be now.
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=seconds) as outer,
        tarfile.open(fileobj=outer, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, file in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(file.content), seconds
            entry.mode = 0o755 if file.executable else 0o644
            archive.addfile(entry, io.BytesIO(file.content))
    return packed.getvalue()
