# SPDX-License-Identifier: Apache-2.0
"""_loop.py - a worker whose model this program computes, by libpsgd (psgd.h). One thread at a time calls a worker."""
from __future__ import annotations

import ctypes
import math
import numbers
import os
import reprlib
import time
import weakref
from typing import Any, Iterator, Mapping, MutableMapping

from ._library import RESOURCE_EXHAUSTED, library
from .safetensors import shapes

STEP, DONE, OVER = 1, 2, 3
INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, FAILED_PRECONDITION, ABORTED = 3, 4, 5, 9, 10
LOOK_MS = 250  # Python handles signals, such as Ctrl-C, between two calls


class _Variable(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("rank", ctypes.c_uint32), ("dim", ctypes.c_uint32 * 4),
                ("at", ctypes.c_size_t), ("size", ctypes.c_size_t)]


class _Step(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("rank", ctypes.c_uint32), ("workers", ctypes.c_uint32), ("clock", ctypes.c_uint64),
                ("total_steps", ctypes.c_uint64), ("steps_of_epoch", ctypes.c_uint32), ("block_size", ctypes.c_uint32),
                ("variable_count", ctypes.c_uint32), ("param_count", ctypes.c_size_t), ("weights", ctypes.c_void_p),
                ("gradients", ctypes.c_void_p), ("job_id", ctypes.c_char_p), ("text", ctypes.c_char_p)]


class WorkerError(RuntimeError):
    """A call of libpsgd has failed. `code` is the code of psgd.h (PSGD_...), which has the numbers of gRPC."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def _shown(text: str) -> str:
    """Returns `text` for use in a message: each character that cannot be printed becomes ?, and at most 60 characters are kept."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 60 else f"{text[:30]}…{text[-29:]}"


def number(what: str, value: Any, is_finite: bool = True) -> float:
    """Returns a number as a float: an int or a float, or a scalar, array or tensor with one; finite, unless not is_finite. Raises
    WorkerError, which names `what` it is and shows the value."""
    single = value
    if not isinstance(value, numbers.Real) and callable(getattr(value, "item", None)):
        try:
            single = value.item()
        except (TypeError, ValueError, RuntimeError):  # `value` has several elements, or none
            pass
    try:
        if isinstance(single, numbers.Real) and not isinstance(single, bool):
            result = float(single)
            if not is_finite or math.isfinite(result):
                return result
    except OverflowError:  # an int that is too large for a float
        pass
    allowed = "a finite number" if is_finite else "a number"
    raise WorkerError(INVALID_ARGUMENT, f"{what} is {_shown(reprlib.repr(value))}; {allowed} is allowed")


class Ended(Exception):
    """The attempt has ended before the job has all its steps. `Worker.steps` goes on with the next one."""


class Variable:
    """A variable of the model, by flat views of memory that is shared with the worker; valid until the attempt ends.

    `index`: its place in the model, for `Step.ready`. `shape`: a tuple of 1 to 4. `weights`: float32 (size), read only.
    `gradient`: float32 (size), to be filled; None after the last step."""

    index: int
    name: str
    shape: tuple[int, ...]
    size: int
    weights: memoryview
    gradient: memoryview | None

    def __init__(self, index: int, from_: _Variable, step: _Step) -> None:
        self.index, self.name = index, from_.name.decode()
        self.shape = tuple(from_.dim[:from_.rank])
        self.size = from_.size
        floats = ctypes.c_float * from_.size
        # writable, because torch warns of read-only memory; nobody writes to it
        self._weights = memoryview(floats.from_address(step.weights + 4 * from_.at)).cast("B").cast("f")
        self.weights = self._weights.toreadonly()
        self.gradient = None if step.gradients is None else memoryview(
            floats.from_address(step.gradients + 4 * from_.at)).cast("B").cast("f")


def _check(code: int) -> None:
    """Raises the error of the last call, unless its code is 0."""
    if code:
        text = library().psgd_last_error().decode("utf-8", "replace")
        raise TimeoutError(text) if code == DEADLINE_EXCEEDED else WorkerError(code, text)


class State(MutableMapping[str, bytes]):
    """What the program keeps with a rank in the job's checkpoints: bytes by name, at most 256 names of A-Z a-z 0-9 . _ -.

    At a step it has what was kept by the end of the rank's step before. After a loss, in a resumed job, or when the rank
    comes from another process, that is what the checkpoint has, and without one it is empty. Keep values, which may be any
    buffer, before the step's last `ready`. The job's program_state_mib bounds it; with 0, the default, it cannot be written.

    `room`: the most bytes of all values with their names."""

    def __init__(self, step: "Step") -> None:
        self._step = step

    @property
    def _handle(self) -> ctypes.c_void_p:
        return self._step._handle

    @property
    def room(self) -> int:
        return library().psgd_state_room(self._handle)

    @staticmethod
    def _name(name: str) -> bytes:
        """Returns the name as bytes for the library, which checks it. Refuses a NUL here, because the library takes it for the end."""
        if "\0" in name:
            raise ValueError(f"the name {name!r} has a NUL")
        return name.encode(errors="replace")

    def _size(self, name: str) -> int:
        size = ctypes.c_size_t()
        code = library().psgd_state_load(self._handle, self._name(name), None, 0, ctypes.byref(size))
        if code == NOT_FOUND:
            raise KeyError(name)
        if code != RESOURCE_EXHAUSTED:  # RESOURCE_EXHAUSTED only says that more than 0 bytes are kept
            _check(code)
        return size.value

    def __getitem__(self, name: str) -> bytes:
        size = ctypes.c_size_t(self._size(name))
        out = ctypes.create_string_buffer(max(1, size.value))
        _check(library().psgd_state_load(self._handle, self._name(name), out, size, ctypes.byref(size)))
        return out.raw[:size.value]

    def __setitem__(self, name: str, value: Any) -> None:
        """Keeps a copy of a buffer. If the attempt has ended meanwhile, nothing happens."""
        data = value if isinstance(value, bytes) else memoryview(value).tobytes()
        self._keep(name, data, len(data))

    def __delitem__(self, name: str) -> None:
        self._size(name)
        self._keep(name, None, 0)

    def _keep(self, name: str, data: bytes | None, size: int) -> None:
        code = library().psgd_state_save(self._handle, self._name(name), data, size)
        if code != ABORTED:
            _check(code)

    def __iter__(self) -> Iterator[str]:
        index = 0
        while (name := library().psgd_state_name(self._handle, index)) is not None:
            yield name.decode()
            index += 1

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Step:
    """A step of a rank: compute the gradient of the mean loss of `block_size` samples at the weights.

    Which samples must follow from `clock` (steps of the job before this one) and `rank` alone, because a step may come
    again after a loss. `variables` has the weights; put gradients into them, say `loss`, `report` metrics, then `ready`.

    `rank` of `workers`; `clock` of `total_steps`; `epoch` and `batch`: the clock as epoch and step of it, from 0;
    `steps_of_epoch`; `job`: its id. `state`: what the program keeps with the rank."""

    rank: int
    workers: int
    clock: int
    total_steps: int
    steps_of_epoch: int
    block_size: int
    epoch: int
    batch: int
    job: str
    variables: list[Variable]
    state: State

    def __init__(self, worker: "Worker", raw: _Step) -> None:
        self._worker, self._turn = worker, worker._turn
        self.rank, self.workers, self.clock, self.total_steps = raw.rank, raw.workers, raw.clock, raw.total_steps
        self.steps_of_epoch, self.block_size = raw.steps_of_epoch, raw.block_size
        self.epoch, self.batch = divmod(raw.clock, raw.steps_of_epoch)
        self.job = raw.job_id.decode()
        self.variables, self.state = worker._variables(raw), State(self)

    def __str__(self) -> str:
        return f"step {self.clock} of rank {self.rank}"

    @property
    def _handle(self) -> ctypes.c_void_p:
        """Returns the worker's handle if this step is in hand; else raises. Calls of the library do not say which step they mean."""
        handle, in_hand = self._worker._live(), self._worker._in_hand
        if self._turn == self._worker._turn:
            return handle
        again = ", which has come again" if in_hand == str(self) else ""
        raise WorkerError(FAILED_PRECONDITION, f"{self} is over; in hand is {in_hand}{again}")

    def loss(self, value: float) -> None:
        """Says the mean loss of the samples, as a number or a scalar, array or tensor that has one. Before the first variable is
        ready. One that is not finite ends the job as DIVERGED.

        If the attempt has ended meanwhile, this and `ready` do nothing: the next step is one of another attempt."""
        self._answer(library().psgd_loss(self._handle, number("the loss", value, is_finite=False)))

    def report(self, /, **metrics: float) -> None:
        """Reports metrics of the step by name, as report(accuracy=0.9): finite numbers, of names in the job's program_metrics.
        Before the first variable is ready. A step need not have all of them, and the last value of a name counts.

        A number is an int, a float, or a scalar, array or tensor that has one. Raises WorkerError, and then reports none:
        NOT_FOUND (5) for another name, INVALID_ARGUMENT (3) for what is no finite number, FAILED_PRECONDITION (9) if a
        variable is ready or another step is in hand."""
        handle = self._handle
        names = (ctypes.c_char_p * len(metrics))(*map(State._name, metrics))
        values = (ctypes.c_double * len(metrics))(*(number(f'the metric "{_shown(name)}"', value) for name, value in metrics.items()))
        self._answer(library().psgd_report_all(handle, len(metrics), names, values))

    def ready(self, first: int = 0, count: int | None = None) -> None:
        """Says that the gradients of variables [first, first + count) are final; by default of all."""
        count = len(self.variables) - first if count is None else count
        self._answer(library().psgd_ready(self._handle, first, count))

    def _answer(self, code: int) -> None:
        if code != ABORTED:
            _check(code)


class Worker:
    """A worker of jobs with this title; see `join`. Use it in `with`, or call `leave`.

    `last`: after the last step of a job a Step with the weights of its model, until the next call of `next`; else None."""

    title: str
    last: Step | None

    def __init__(self, title: str, options: Mapping[str, Any]) -> None:
        lib = library()
        pointer, uint, text = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p
        lib.psgd_join.argtypes = [text, ctypes.POINTER(text), ctypes.POINTER(pointer)]
        lib.psgd_next.argtypes = [pointer, ctypes.c_int, ctypes.POINTER(_Step)]
        lib.psgd_variable_at.argtypes = [pointer, uint, ctypes.POINTER(_Variable)]
        lib.psgd_loss.argtypes = [pointer, ctypes.c_double]
        lib.psgd_report_all.argtypes = [pointer, ctypes.c_size_t, ctypes.POINTER(text), ctypes.POINTER(ctypes.c_double)]
        lib.psgd_ready.argtypes = [pointer, uint, uint]
        lib.psgd_state_save.argtypes = [pointer, text, text, ctypes.c_size_t]
        lib.psgd_state_load.argtypes = [pointer, text, pointer, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]
        lib.psgd_state_name.argtypes, lib.psgd_state_name.restype = [pointer, ctypes.c_size_t], text
        lib.psgd_state_room.argtypes, lib.psgd_state_room.restype = [pointer], ctypes.c_size_t
        lib.psgd_leave.argtypes, lib.psgd_leave.restype = [pointer], None
        flags = [f"--{name.replace('_', '-')}{'' if value is True else f'={os.fspath(value) if isinstance(value, os.PathLike) else value}'}"
                 .encode() for name, value in options.items() if value is not None and value is not False]
        handle = pointer()
        self._known: dict[int, tuple[tuple[Any, ...], list[Variable]]] = {}
        self.title, self.last = title, None
        self._turn, self._in_hand = 0, "no step"  # number and name of the step in hand; steps are numbered from 1
        _check(lib.psgd_join(title.encode(), (text * (len(flags) + 1))(*flags, None), ctypes.byref(handle)))
        self._handle: ctypes.c_void_p | None = handle
        self._end = weakref.finalize(self, lib.psgd_leave, handle)

    def _live(self) -> ctypes.c_void_p:
        """Returns the handle; raises WorkerError if the worker has left."""
        if self._handle is None:
            raise WorkerError(FAILED_PRECONDITION, f"the worker for \"{self.title}\" has left")
        return self._handle

    def _variables(self, raw: _Step) -> list[Variable]:
        known, key = self._known.get(raw.rank), (raw.weights, raw.gradients, raw.job_id)
        if known is None or known[0] != key:
            variables = []
            for index in range(raw.variable_count):
                variable = _Variable()
                _check(library().psgd_variable_at(self._live(), index, ctypes.byref(variable)))
                variables.append(Variable(index, variable, raw))
            known = self._known[raw.rank] = (key, variables)
        return known[1]

    def next(self, timeout: float | None = None) -> Step | None:
        """Waits for the next step, at most `timeout` seconds. None: the job has all its steps.

        Raises TimeoutError, Ended if the attempt has ended early (call it again: the job may go on), or WorkerError."""
        raw, until, code = _Step(), None if timeout is None else time.monotonic() + timeout, DEADLINE_EXCEEDED
        self.last = None
        while code == DEADLINE_EXCEEDED:
            left = LOOK_MS if until is None else min(LOOK_MS, max(0, int((until - time.monotonic()) * 1000)))
            code = library().psgd_next(self._live(), left, ctypes.byref(raw))
            if until is not None and time.monotonic() >= until:
                break
        if code != FAILED_PRECONDITION:  # else variables of the step in hand are not ready, so it stays in hand
            self._turn, self._in_hand = self._turn + 1, "no step"
        _check(code)
        if raw.kind == OVER:
            raise Ended(raw.text.decode("utf-8", "replace") or "the attempt has ended")
        if raw.kind == DONE:
            self.last = Step(self, raw) if raw.weights else None
            return None
        step = Step(self, raw)
        self._in_hand = str(step)
        return step

    def steps(self, timeout: float | None = None) -> Iterator[Step]:
        """Yields the steps of one job until it has all of them. After a loss goes on with the job's next attempt.

        `timeout`: seconds to wait for a step, the first one included; then TimeoutError. None: for ever, also if the
        job fails or is cancelled, which is seen in its state."""
        while True:
            try:
                step = self.next(timeout)
            except Ended:
                continue
            if step is None:
                return
            yield step

    def leave(self) -> None:
        """Ends the worker in order: a job goes on without it. Nothing happens if it has left."""
        self._known, self.last = {}, None
        self._end()
        self._handle = None  # later calls of objects of this worker fail, and do not reach freed memory

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def join(title: str, **options: Any) -> Worker:
    """Starts a worker for jobs with this title whose model is `foreign`: this program computes it.

    `options` are options of psgd-worker, with _ for -: coordinator="HOST:PORT", tls_dir=..., insecure=True. The worker
    is the program that PSGD_WORKER names, else psgd-worker on the PATH. It ends with this process."""
    return Worker(title, options)


def foreign(variables: Mapping[str, Any] | str | os.PathLike) -> list[dict[str, Any]]:
    """Returns `model.foreign` of a job for variables by name: tensors, arrays, or anything with a shape, or shapes; or for
    those of a safetensors file, by its path. The job's init_from may name that file, for first values.

    A scalar is given the shape (1)."""
    if not isinstance(variables, Mapping):
        variables = shapes(variables)
    return [{"name": name, "shape": [int(n) for n in getattr(value, "shape", value)] or [1]} for name, value in variables.items()]
