"""A fake nvidia-cuda-mps-control: the control daemon (`-d`), and the front end that passes commands to it.

In: arguments, CUDA_VISIBLE_DEVICES, CUDA_MPS_PIPE_DIRECTORY, CUDA_MPS_LOG_DIRECTORY. Out: a daemon that listens at `control` in the pipe
folder, and what it answers. No GPU computes here. What it believes, and from where:

| belief | source |
|---|---|
| `-d` returns when the daemon listens; without options it is the front end, which reads commands until the end of its input | nvidia-cuda-mps-control(1) |
| a refused command is printed, and the front end's status is 0 all the same; without a daemon it is not | nvidia-cuda-mps-control(1) |
| a limit of memory is a whole number and M or G, of a device by index or UUID | NVIDIA's MPS documentation; dra-driver-nvidia-gpu, mps-control-daemon.tmpl.yaml |
| the log's lines, `control` as a socket | logs of k8s-device-plugin's users |
| `-M` lets users share a server | dra-driver-nvidia-gpu, mps-control-daemon.tmpl.yaml |
| texts of refusals, digits of percentages | source: none |
"""

import os
import re
import socket
import sys
from contextlib import suppress
from pathlib import Path

_LIMIT = re.compile(r"[1-9]\d*[MG]")
_ENDED = "\0"
"""Ends what the daemon answers to one command."""
FORGETS = "forgets-limits"
"""A file of this name in the pipe folder makes the daemon refuse every limit."""


def main() -> int:
    """Be the daemon or the front end. Returns the status."""
    pipe = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))  # noqa: S108 - NVIDIA's default
    if "-d" in sys.argv[1:]:
        return _start(pipe)
    return _front_end(pipe)


def _start(pipe: Path) -> int:
    control = pipe / "control"
    if _connected(control) is not None:
        print("An instance of this daemon is already running")
        return 1
    if not pipe.is_dir():
        print(f"Cannot find MPS pipe directory {pipe}")
        return 1
    control.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(control))
    control.chmod(0o666)
    listening.listen()
    if os.fork():
        return 0
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    (pipe / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
    _serve(listening, Path(os.environ.get("CUDA_MPS_LOG_DIRECTORY", str(pipe))) / "control.log")
    return 0


def _serve(listening: socket.socket, log: Path) -> None:
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    terms = {"percentage": "100.0", "users": str(int("-M" in sys.argv))}
    while True:
        client, _ = listening.accept()
        with client, client.makefile("rw") as talk:
            for line in talk:
                with suppress(OSError), log.open("a") as file:  # a full disk ends no daemon; source: none
                    file.write(f"Cmd:{line}")
                talk.write(_answer(line.split(), devices, terms) + _ENDED + "\n")
                talk.flush()
                if line.strip() == "quit":
                    return


def _answer(words: list[str], devices: list[str], terms: dict[str, str]) -> str:
    match words:
        case ["get_default_active_thread_percentage"]:
            return terms["percentage"]
        case [verb, *_] if verb.startswith("set_") and (_pipe() / FORGETS).exists():
            return f"Failed to execute {verb}"
        case ["set_default_active_thread_percentage", text] if 0 < float(text) <= 100:
            terms["percentage"] = str(float(text))
            return terms["percentage"]
        case ["get_default_device_pinned_mem_limit", device] if _device(device, devices):
            return terms.get(_device(device, devices), "")
        case ["set_default_device_pinned_mem_limit", device, text] if _device(
            device, devices
        ) and _LIMIT.fullmatch(text):
            terms[_device(device, devices)] = text
            return ""
        case ["get_server_list"] | ["quit"]:
            return ""
        case ["fake_terms"]:
            return repr(terms)
    return f"Invalid command or argument: {' '.join(words)}"


def _device(word: str, devices: list[str]) -> str:
    if word in devices:
        return word
    return devices[int(word)] if word.isdigit() and int(word) < len(devices) else ""


def _front_end(pipe: Path) -> int:
    connection = _connected(pipe / "control")
    if connection is None:
        print("Cannot find MPS control daemon process")
        return 1
    with connection, connection.makefile("rw") as talk:
        for line in sys.stdin:
            if line.strip():
                talk.write(line)
                talk.flush()
                answer = "".join(iter(lambda: talk.read(1), _ENDED)).lstrip("\n")
                if answer:
                    print(answer, flush=True)
    return 0


def _connected(control: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(control))
    except OSError:
        connection.close()
        return None
    return connection


def _pipe() -> Path:
    return Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])


if __name__ == "__main__":
    sys.exit(main())
