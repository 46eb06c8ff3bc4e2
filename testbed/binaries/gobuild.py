"""Builds binaries from Go modules, where no release site can be reached."""

import asyncio
import json
import os
import shutil
import signal
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from testbed.binaries.progress import Report
from testbed.errors import Unavailable
from testbed.projects import project_of
from testbed.versions import Program

_MODULES = Path(__file__).parent.parent / "go"
_REMEMBERED_LINES = 12


class GoBuild:
    """Builds with the user's Go, from the committed go.mod and go.sum of each version."""

    title = "Go modules"

    def __init__(self, environment: Mapping[str, str]) -> None:
        # The result must not depend on a workspace above the checkout.
        self._environment = {**environment, "GOWORK": "off"}
        self._go = shutil.which("go", path=environment.get("PATH", os.defpath))

    async def make(self, program: Program, folder: Path, report: Report) -> Path:
        """Build a program into the folder; minutes the first time, seconds from Go's build cache.

        Raises Unavailable when Go or the version's module is missing, or with the end of Go's own message.
        """
        if self._go is None:
            raise Unavailable("Go is not installed (no `go` on the PATH)")
        project = project_of(program.name)
        module = _MODULES / project.module(program.version)
        if not (module / "go.mod").is_file():
            raise Unavailable(f"there is no {module.name}/go.mod below testbed/go/")
        compiler = self._environment.get("CC", "cc")
        if project.compiler and shutil.which(compiler, path=self._environment.get("PATH")) is None:
            raise Unavailable(f"its build needs a C compiler, and there is no `{compiler}` on the PATH")
        target = folder / program.name
        process = await asyncio.create_subprocess_exec(
            self._go, "build", "-v", *_flags(program), "-o", target, project.packages[program.name],
            cwd=module, env={**self._environment, "CGO_ENABLED": str(int(project.compiler))}, start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said: deque[str] = deque(maxlen=_REMEMBERED_LINES)
        try:
            await _follow(process, said, report)
            code = await process.wait()
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)  # go's compilers would go on without it
                await process.wait()
        if code != 0:
            raise Unavailable(f"go build exited with {code}: " + " | ".join(said))
        return target


async def module_folder(program: str, module: str) -> Path:
    """Return where the source of a module lies that a program is built from; it is downloaded if it is not there.

    Raises Unavailable: there is no Go, or the module cannot be had.
    """
    go = shutil.which("go")
    if go is None:
        raise Unavailable("Go is not installed (no `go` on the PATH)")
    project = project_of(program)
    process = await asyncio.create_subprocess_exec(
        go, "mod", "download", "-json", module,
        cwd=_MODULES / project.module(project.version), env={**os.environ, "GOWORK": "off"},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    answer, said = await process.communicate()
    if process.returncode:
        raise Unavailable(
            f"go mod download {module} exited with {process.returncode}: {said.decode(errors='replace').strip()}"
        )
    return Path(json.loads(answer)["Dir"])


def _flags(program: Program) -> list[str]:
    """Return the build flags; without the version stamps a server calls itself v0.0.0-master."""
    stamps = [f"-X {stamp.format(version=program.version)}" for stamp in project_of(program.name).stamps]
    return ["-trimpath", "-ldflags", " ".join(["-s -w", *stamps])]


async def _follow(process: asyncio.subprocess.Process, said: deque[str], report: Report) -> None:
    """Show each package as Go names it; keep what else it says, for the error."""
    if process.stderr is None:
        return
    packages = 0
    report.step("building")
    async for raw in process.stderr:
        line = raw.decode(errors="replace").strip()
        if line.startswith("go: downloading "):
            report.step(f"fetching {line.split()[2]}")
        elif " " not in line and not line.startswith("#"):
            packages += 1
            report.step(f"compiling ({packages}) {line}")
        elif line:
            said.append(line)
