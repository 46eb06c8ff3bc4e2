"""The Dockerfile's steps, done in folders: a stage is a folder, and commands run in it by chroot, with mounts and processes of their own.

In: the Dockerfile, a folder with the wheels that pip is to find. Out: its last stage, in which commands run as in a container. This machine's Python and
libraries stand in for the base image; of the checkout, nothing is there but what COPY names. Needs root and Linux.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.install.imagefiles import Dockerfile
from tests.install.rendered import ROOT

BASE = re.compile(r"python:\S+-slim")
SYSTEM = ("/bin", "/lib", "/lib64", "/usr")
PYTHON = "/opt/python"
"""Where the base image's `python` is here."""
WHEELS = "/opt/wheels"
_ENTER = """
set -eu
root=$1; wheels=$2; write=$3; shift 3
mount --bind "$root" "$root"
while [ "$1" != -- ]; do mkdir -p "$root$1"; mount --bind -o ro "$1" "$root$1"; shift; done
shift
mount --bind -o ro "$wheels" "$root/opt/wheels"
for name in null zero urandom; do mount --bind "/dev/$name" "$root/dev/$name"; done
[ "$write" = yes ] || mount -o remount,bind,ro "$root"
exec chroot "$root" "$@"
"""


def unsupported() -> str:
    """Return why steps cannot be done here; "": they can."""
    if os.geteuid() != 0:
        return "chroot and mounts need root"
    for program in ("unshare", "setpriv", "chroot"):
        if shutil.which(program) is None:
            return f"there is no `{program}`"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "true"], check=False, capture_output=True, text=True
    )
    return tried.stderr.strip()


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its files, and what its instructions say of commands."""

    root: Path
    wheels: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = "0:0"
    entrypoint: Sequence[str] = ()

    def shell(self, command: str) -> None:
        """Do a RUN step; pip finds packages in the folder of wheels alone."""
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": WHEELS}
        done = self._run(["/bin/sh", "-c", command], write=True, more=offline)
        assert done.returncode == 0, f"RUN {command}\n{done.stdout}{done.stderr}"

    def container(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the image as Kubernetes runs the operator: its user, no capabilities, no network, a root filesystem that is read-only."""
        return self._run([*self.entrypoint, *arguments], write=False)

    def probe(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run another program like that."""
        return self._run(command, write=False)

    def _run(
        self, command: Sequence[str], *, write: bool, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        user, _, group = self.user.partition(":")
        bounds = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"] if user != "0" else []
        become = ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", *bounds, "--"]
        mounted = [*(path for path in SYSTEM if not Path(path).is_symlink()), sys.base_prefix]
        isolated = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child"]
        enter = ["/bin/sh", "-c", _ENTER, "enter", str(self.root), str(self.wheels), "yes" if write else "no"]
        environment = {
            "PATH": f"{PYTHON}:/usr/bin:/usr/sbin:/bin:/sbin",
            "HOME": "/nonexistent",
            **self.environment,
            **(more or {}),
        }
        return subprocess.run(
            [*isolated, *enter, *mounted, "--", *become, *command],
            check=False, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def build(folder: Path, wheels: Path) -> Stage:
    """Do the steps that the Dockerfile's last stage needs; returns that stage. Fails like a build where a step does."""
    stages: dict[str, Stage] = {}
    name = ""
    needed = _needed(Dockerfile().lines)
    for instruction, rest in Dockerfile().lines:
        if instruction == "FROM":
            source, _, name = rest.partition(" AS ")
            if name in needed:
                stages[name] = _begun(folder / name, wheels, stages.get(source), source)
        elif name in needed:
            stages[name] = _step(stages[name], instruction, rest, stages)
    return stages[name]


def _needed(lines: Sequence[Sequence[str]]) -> set[str]:
    """Return the stages that the last one is made from, by FROM and COPY --from; the others are not built, as by `docker build`."""
    needed: set[str] = set()
    inside = ""
    for instruction, rest in reversed(lines):
        if instruction == "FROM":
            source, _, name = rest.partition(" AS ")
            if not needed or name in needed:
                needed |= {name, source}
    for instruction, rest in lines:
        inside = rest.partition(" AS ")[2] if instruction == "FROM" else inside
        if instruction == "COPY" and inside in needed and rest.startswith("--from="):
            needed.add(rest.split()[0].removeprefix("--from="))
    return needed


def _step(stage: Stage, instruction: str, rest: str, stages: Mapping[str, Stage]) -> Stage:
    """Do one step; returns the stage after it."""
    match instruction:
        case "RUN":
            stage.shell(rest)
        case "COPY":
            _copy(rest.split(), stage, stages)
        case "ENV":
            more = dict(word.split("=", 1) for word in rest.split())
            return replace(stage, environment={**stage.environment, **more})
        case "USER":
            return replace(stage, user=rest)
        case "ENTRYPOINT":
            return replace(stage, entrypoint=json.loads(rest))
        case _:
            raise AssertionError(f"{instruction}: how this step is done is not known here")
    return stage


def _begun(root: Path, wheels: Path, source: Stage | None, image: str) -> Stage:
    """Begin a stage from another one, or from the base image."""
    if source is not None:
        # Links, not copies: steps of one stage make files anew, and the stage before is not looked at again.
        shutil.copytree(source.root, root, symlinks=True, copy_function=os.link)
        return replace(source, root=root)
    assert BASE.fullmatch(image), image
    for path in ("dev", "etc", "opt/python", "opt/wheels", "tmp"):
        (root / path).mkdir(parents=True)
    for path in SYSTEM:
        if Path(path).is_symlink():
            (root / path[1:]).symlink_to(Path(path).readlink())
    for name in ("null", "zero", "urandom"):
        (root / "dev" / name).touch()
    executable = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    (root / PYTHON[1:] / "python").symlink_to(executable)
    return Stage(root, wheels)


def _copy(words: Sequence[str], stage: Stage, stages: Mapping[str, Stage]) -> None:
    *sources, target = [word for word in words if not word.startswith("--from=")]
    origin = next(
        (stages[word.removeprefix("--from=")].root for word in words if word.startswith("--from=")), None
    )
    for source in sources:
        path = origin / source[1:] if origin else ROOT / source
        place = stage.root / target[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            hidden = None if origin else shutil.ignore_patterns(*_hidden())
            shutil.copytree(path, place, symlinks=True, ignore=hidden)
        else:
            shutil.copy2(path, place)


def _hidden() -> Iterator[str]:
    """Yield the names that .dockerignore hides in every folder."""
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if line.startswith("**/"):
            yield line.removeprefix("**/")
