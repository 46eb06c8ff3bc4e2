"""A fake systemd of a host: `python -m testbed.fakes.systemd ROOT` serves its D-Bus below ROOT until SIGTERM, and runs units.

In: calls of org.freedesktop.systemd1.Manager at ROOT/run/dbus/system_bus_socket. Out: processes, which are no children of who asked. A
program is looked for below ROOT, and finds the other files where it is told. What it believes (systemd's manual pages,
org.freedesktop.systemd1(5), systemd.service(5), systemd.exec(5)):

- StartTransientUnit takes a name that no unit has; one that failed has it until ResetFailedUnit;
- Type=forking: the unit is active when ExecStart and ExecStartPost have ended with 0; Restart=always starts it anew when its last
  process has ended; StopUnit ends all of them;
- StandardInputData is the input of every program of the unit, StandardOutputFile takes their output from its beginning;
- no unit outlives a reboot, which is SIGHUP here;
- a mount unit is named after its path. Nothing is mounted here: the folder does as well.
"""

import ctypes
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import psutil
from jeepney.low_level import HeaderFields, Message, MessageType, Parser
from jeepney.wrappers import new_error, new_method_return

_ERROR = "org.freedesktop.systemd1"
_TAG = "INVOCATION_ID"
"""systemd sets it for every program; here it is the unit's name, and finds the unit's processes."""
SILENT = "APPORTION_FAKE_SYSTEMD_SILENT"
"""Where this is set, there is a bus and nobody behind it (dbus-daemon 1.14 answers so; seen); `bus`: the bus does not answer, either."""
REFUSED = "APPORTION_FAKE_SYSTEMD_REFUSES"
"""The unit that is not stopped, as where the host's policy denies it (org.freedesktop.systemd1(5), Security)."""
_LOOK_SECONDS = 0.02
_PR_SET_CHILD_SUBREAPER = 36  # include/uapi/linux/prctl.h
_PROPERTIES = frozenset(
    {
        *("Description", "What", "Type", "Options", "Environment", "ExecStart", "ExecStartPost", "BindPaths"),
        *("Restart", "RestartUSec", "StartLimitIntervalUSec", "RootDirectory"),
        *("StandardInput", "StandardInputData", "StandardOutputFile"),
    }
)
"""Those of transient units that this fake knows; their signatures are those of org.freedesktop.systemd1(5)."""


class Unit:
    """One transient unit."""

    def __init__(self, root: Path, name: str, properties: dict[str, Any]) -> None:
        self.root = root
        self.name = name
        self.properties = properties
        self.state, self.sub = "activating", "start"
        self.starts = 0
        self.lock = threading.Lock()
        self.wanted = True
        self._seen: psutil.Process | None = None

    def start(self) -> None:
        """Run the programs that start it."""
        with self.lock:
            if not self.wanted:
                return
            self.starts += 1
            programs = [*self.properties.get("ExecStart", ()), *self.properties.get("ExecStartPost", ())]
            fine = all(self._run(path, words) == 0 for path, words, _ in programs)
            self.state, self.sub = ("active", "running") if fine else ("activating", "auto-restart")

    def _run(self, path: str, words: list[str]) -> int:
        root = self.root / self.properties.get("RootDirectory", "/").lstrip("/")
        kept = {name: value for name, value in os.environ.items() if name.startswith("APPORTION_FAKE")}
        pairs = (text.partition("=") for text in self.properties.get("Environment", ()))
        environment = {"PATH": "/usr/bin:/bin", _TAG: self.name, **kept} | {k: v for k, _, v in pairs}
        file = self.properties.get("StandardOutputFile", os.devnull)
        with Path(file).open("r+b" if Path(file).exists() else "wb") as output:
            program = subprocess.Popen(
                [str(root / path.lstrip("/")), *words[1:]],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=output,
            )
            with suppress(BrokenPipeError):
                program.communicate(self.properties.get("StandardInputData", b""), timeout=20)
            return program.returncode

    def processes(self) -> Iterator[psutil.Process]:
        """Yield what runs of it."""
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if process.environ().get(_TAG) == self.name and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def _runs(self) -> bool:
        """Say whether anything runs of it; what was seen to run is asked first, because to find it takes a look at every process of the machine."""
        with suppress(psutil.Error):
            if (
                self._seen is not None
                and self._seen.is_running()
                and self._seen.status() != psutil.STATUS_ZOMBIE
            ):
                return True
        self._seen = next(self.processes(), None)
        return self._seen is not None

    def stop(self) -> None:
        """End its processes; they are gone when this returns."""
        self.wanted = False
        with self.lock:
            ending = [*self.processes()]
            for process in ending:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(ending, timeout=20)
            self.state, self.sub = "inactive", "dead"

    def supervise(self) -> None:
        """Start it anew when it has ended by itself."""
        if self.name.endswith(".service") and self.wanted and self.state == "active" and not self._runs():
            self.state, self.sub = "activating", "auto-restart"
        if self.sub == "auto-restart" and self.properties.get("Restart") == "always":
            time.sleep(self.properties.get("RestartUSec", 0) / 1e6)
            self.start()


class Manager:
    """All units."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.units: dict[str, Unit] = {}

    def stop_all(self) -> None:
        """End every unit, and forget them."""
        while self.units:
            self.units.popitem()[1].stop()

    def answer(self, message: Message) -> Any:
        """Carry out a call; returns the message that answers it."""
        member = message.header.fields[HeaderFields.member]
        match member, message.body:
            case "Hello", _:
                if os.environ.get(SILENT) == "bus":
                    threading.Event().wait()
                return new_method_return(message, "s", (":1.1",))
            case _ if SILENT in os.environ:
                text = f"The name {_ERROR} was not provided by any .service files"
                return new_error(message, "org.freedesktop.DBus.Error.ServiceUnknown", "s", (text,))
            case "StartTransientUnit", (name, "fail", properties, []):
                return self._start(message, name, {key: value for key, (_, value) in properties})
            case "StopUnit", (name, "replace") if name == os.environ.get(REFUSED):
                return new_error(message, "org.freedesktop.DBus.Error.AccessDenied", "s", ("Access denied",))
            case "StopUnit", (name, "replace"):
                unit = self.units.get(name)
                if unit is None:
                    return new_error(message, f"{_ERROR}.NoSuchUnit", "s", (f"Unit {name} not loaded.",))
                unit.stop()
                del self.units[name]
                return new_method_return(message, "o", ("/org/freedesktop/systemd1/job/1",))
            case "ResetFailedUnit", (name,):
                if self.units.pop(name, None) is None:
                    return new_error(message, f"{_ERROR}.NoSuchUnit", "s", (f"Unit {name} not loaded.",))
                return new_method_return(message)
            case "ListUnitsByPatterns", ([], patterns):
                rows = [
                    (name, "", "loaded", unit.state, unit.sub, "", f"/unit/{len(name)}", 0, "", "/")
                    for name, unit in self.units.items()
                    if any(fnmatchcase(name, pattern) for pattern in patterns)
                ]
                return new_method_return(message, "a(ssssssouso)", (rows,))
        return new_error(message, "org.freedesktop.DBus.Error.UnknownMethod", "s", (f"{member}?",))

    def _start(self, message: Message, name: str, properties: dict[str, Any]) -> Any:
        if name in self.units:
            return new_error(message, f"{_ERROR}.UnitExists", "s", (f"Unit {name} was already loaded.",))
        unknown = properties.keys() - _PROPERTIES
        if unknown:
            text = f"Cannot set property {min(unknown)}, or unknown property."
            return new_error(message, "org.freedesktop.DBus.Error.PropertyReadOnly", "s", (text,))
        unit = self.units[name] = Unit(self._root, name, properties)
        if name.endswith(".mount"):
            unit.state, unit.sub = "active", "mounted"
        else:
            threading.Thread(target=unit.start, daemon=True).start()
        return new_method_return(message, "o", ("/org/freedesktop/systemd1/job/1",))


class _Connection(socketserver.StreamRequestHandler):
    """One client of the bus."""

    rbufsize = 0  # what follows BEGIN is no line
    server: "Bus"

    def handle(self) -> None:
        """Authenticate as dbus-daemon does (D-Bus specification), then answer calls, until the client goes or is killed."""
        with suppress(ConnectionError):
            self._serve()

    def _serve(self) -> None:
        for line in iter(self.rfile.readline, b""):
            words = line.lstrip(b"\0").split()
            if words[:1] == [b"BEGIN"]:
                break
            self.wfile.write(b"OK 1234deadbeef\r\n" if words[:2] == [b"AUTH", b"EXTERNAL"] else b"ERROR\r\n")
        parser = Parser()
        serial = 0
        while data := self.request.recv(65536):
            parser.add_data(data)
            while (message := parser.get_next_message()) is not None:
                if message.header.message_type is MessageType.method_call:
                    serial += 1
                    self.request.sendall(self.server.manager.answer(message).serialise(serial))


class Bus(socketserver.ThreadingUnixStreamServer):
    """The system bus with this one service."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        self.manager = Manager(root)
        path = root / "run/dbus/system_bus_socket"
        path.parent.mkdir(parents=True, exist_ok=True)
        (root / "run/systemd/system").mkdir(parents=True, exist_ok=True)  # sd_booted(3)
        path.unlink(missing_ok=True)
        super().__init__(str(path), _Connection)


def main() -> None:
    """Serve until SIGTERM; then every unit has ended."""
    # What daemonizes stays a child of this process, as processes of a unit stay in its control group.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # No Event: a handler that runs while this thread waits for one could have to wait for a lock that this thread has.
    came: set[int] = set()
    # Before the socket is there, by which others know that it may be told something.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda each, _: came.add(each))
    bus = Bus(Path(sys.argv[1]))
    threading.Thread(target=bus.serve_forever, daemon=True).start()
    while signal.SIGTERM not in came:
        time.sleep(_LOOK_SECONDS)
        for unit in list(bus.manager.units.values()):
            unit.supervise()
        if signal.SIGHUP in came:
            came.remove(signal.SIGHUP)
            bus.manager.stop_all()
    bus.manager.stop_all()


if __name__ == "__main__":
    main()
