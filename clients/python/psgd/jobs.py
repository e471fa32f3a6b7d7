# SPDX-License-Identifier: Apache-2.0
"""jobs.py - jobs on a cluster, by the command `psgd`, which knows TLS, tokens and several coordinators.

Every function takes `coordinator`, "HOST:PORT", `tls_dir` and `token_file`; those left out are the command's, which
reads PSGD_COORDINATOR, PSGD_TLS_DIR and PSGD_TOKEN_FILE. Jobs and events are dicts of the messages of
proto/psgd/v1/spec.proto, job.proto and coordinator.proto in protobuf's JSON form.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from typing import Any, Iterator, Mapping

from ._curve import Watch

ENDED = frozenset({"JOB_STATE_DONE", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"})


class CommandError(RuntimeError):
    """The command has failed. `code` is its exit code: 1 refused, 2 no connection, 3 time-out, 4 wrong arguments."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(re.sub(r"(?m)^psgd: ", "", text).strip() or f"psgd ended with {code}")
        self.code = code


def _command(name: str, *arguments: str, form: str = "json", coordinator: str | None = None,
             tls_dir: str | os.PathLike | None = None, token_file: str | os.PathLike | None = None) -> list[str]:
    program = shutil.which("psgd")
    if program is None:
        raise CommandError(127, "the command psgd is not on the PATH; Debian's package psgd has it")
    flags = {"--coordinator": coordinator, "--tls-dir": tls_dir, "--token-file": token_file}
    return [program, name, "--format", form, *(f"{flag}={os.fspath(value)}" for flag, value in flags.items() if value is not None),
            *arguments]


def _run(command: list[str], given: str | None = None) -> Any:
    ended = subprocess.run(command, input=given, stdin=subprocess.DEVNULL if given is None else None, capture_output=True,
                           encoding="utf-8", errors="replace")
    if ended.returncode != 0:
        raise CommandError(ended.returncode, ended.stderr)
    return json.loads(ended.stdout)


def _id(job: Any) -> str:
    name = job["id"] if isinstance(job, Mapping) else job
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.()][A-Za-z0-9_.()-]*", name):
        raise ValueError(f"job: is {name!r}; an id or what submit returned is allowed")
    return name


def submit(spec: Mapping[str, Any] | str | os.PathLike, **connection: Any) -> dict[str, Any]:
    """Submits a job: a dict with the fields of JobSpec, or the path of a job file. Returns the job, with its "id".

    Raises CommandError, whose text names each wrong field, its value and what is allowed."""
    if isinstance(spec, Mapping):
        return _run(_command("submit", "-", **connection), json.dumps(spec))
    return _run(_command("submit", os.path.abspath(spec), **connection))


def get(job: Any, **connection: Any) -> dict[str, Any]:
    """Returns a job, given by its id or by what submit returned."""
    return _run(_command("get", _id(job), **connection))


def cancel(job: Any, **connection: Any) -> dict[str, Any]:
    """Ends a job. Returns it as it is then; `watch` waits until it has ended."""
    return _run(_command("cancel", _id(job), **connection))


def watch(job: Any, **connection: Any) -> Watch:
    """Returns the events of a job from its beginning until it has ended, to be iterated over, each as it happens.

    In a notebook `watch(job).plot()` shows the curves of the job while they grow.

    event["job"] is the job then: its "state" and "progress", with "step", "loss" and others. Leaving the loop
    leaves the job running. A job that fails is no error here: look at the state of the last event."""
    return Watch(_events(_command("watch", _id(job), form="jsonl", **connection)))


def _events(command: list[str]) -> Iterator[dict[str, Any]]:
    state = None
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, encoding="utf-8")
        try:
            assert process.stdout is not None
            for line in process.stdout:
                event = json.loads(line)
                state = event.get("job", {}).get("state", state)
                yield event
            code = process.wait()
            if code != 0 and not (code == 1 and state in ENDED):
                said.seek(0)
                raise CommandError(code, said.read())
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def download(job: Any, output: str | os.PathLike, *names: str, **connection: Any) -> list[pathlib.Path]:
    """Saves all files of a job, or those named, in the folder `output`. Returns their paths. Each is verified by its SHA-256."""
    if any(name.startswith("-") for name in names):
        raise ValueError(f"names: are {names!r}; names of files are allowed")
    files = _run(_command("download", f"--output={os.path.abspath(output)}", _id(job), *names, **connection))
    return [pathlib.Path(file["path"]) for file in files]
