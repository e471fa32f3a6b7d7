# SPDX-License-Identifier: Apache-2.0
"""torch.py - for PyTorch: workers of psgd, and DistributedDataParallel with the codecs of psgd.

A plain script becomes a worker of a cluster (docs/own-loop.md):

    optimizer = psgd.torch.join(net, "mnist", coordinator="HOST:PORT")
    for x, y in optimizer.batches(loader):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

DistributedDataParallel sends its gradients encoded:

    net = torch.nn.parallel.DistributedDataParallel(net)
    net.register_comm_hook(psgd.torch.Ddp("topk", fraction=0.01, error_feedback=1), psgd.torch.ddp_hook)

Each of its ranks gets the encodings of all ranks, decodes them in the order of ranks and takes the mean. So the gradients
have the same bits on all ranks.
"""
import ctypes
import os
import struct
import weakref
from typing import Any, Iterator

import torch
import torch.distributed as dist

from ._loop import Ended, Step, Variable
from ._loop import join as _join
from ._pack import pack, unpack
from .encoding import Codec

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # options of glibc's mallopt
SEND_VALUES = 65536  # least values of a run of gradients that are said to be ready together, because each run costs a message
KEEP_BYTES = 1 << 30  # bytes of freed memory that malloc keeps, and least size of a block for which malloc calls mmap
LENGTH = struct.Struct("<Q")  # length of an encoding; the encoding follows in a block with room for the longest one


class Ddp:
    """The state of ddp_hook in one process: the codec, and what it keeps for each bucket of gradients."""

    def __init__(self, name: str, *, seed: int = 0, group: dist.ProcessGroup | None = None, **numbers: float) -> None:
        """numbers: those of `psgd info codecs`. group: that of DistributedDataParallel; None: all processes.

        Call it after torch.distributed.init_process_group. Raises psgd.Error if a name or a number is not allowed, and
        ValueError for encodings that are only changes.
        """
        if numbers.get("difference"):
            raise ValueError(f"difference: is {numbers['difference']}; 0 is allowed, as each gradient stands alone")
        self.group = group  # None means the default group and is kept as None, so that destroy_process_group can free that group
        self.name, self.seed, self.numbers = name, seed, numbers
        self.ranks, self.rank = dist.get_world_size(self.group), dist.get_rank(self.group)
        self.bytes_sent = 0  # bytes of encodings; each is sent to every other rank
        self._codecs: dict[int, tuple[int, Codec]] = {}
        self._make(0)  # raises what is wrong with name or numbers now, not in the first step

    def _make(self, bucket: int) -> Codec:
        return Codec(self.name, seed=self.seed + bucket, contributor=self.rank, **self.numbers)

    def codec(self, bucket: int, n: int) -> Codec:
        """Returns the codec of a bucket of n values. What it has kept ends when the bucket has another length, as
        buckets do once, after the first step."""
        if self._codecs.get(bucket, (0, None))[0] != n:
            self._codecs[bucket] = (n, self._make(bucket))
        return self._codecs[bucket][1]


def ddp_hook(state: Ddp, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Exchanges a bucket of gradients, float32 (n), for their mean over all ranks."""
    gradient = bucket.buffer()
    if gradient.dtype != torch.float32:
        raise TypeError(f"gradients have type {gradient.dtype}; torch.float32 is allowed")
    codec = state.codec(bucket.index(), gradient.numel())
    data = codec.encode(gradient)
    state.bytes_sent += len(data)
    own = torch.zeros(LENGTH.size + codec.bound(gradient.numel()), dtype=torch.uint8)
    own[:LENGTH.size + len(data)] = torch.frombuffer(bytearray(LENGTH.pack(len(data)) + data), dtype=torch.uint8)
    all_ = [torch.empty_like(own) for _ in range(state.ranks)]
    sent = dist.all_gather(all_, own, group=state.group, async_op=True)

    def mean(arrived: torch.futures.Future) -> torch.Tensor:
        arrived.value()  # raises what went wrong
        total = torch.zeros(gradient.numel())
        for one in all_:
            view = memoryview(one.numpy())
            codec.decode(view[LENGTH.size:LENGTH.size + LENGTH.unpack_from(view)[0]], out=total, add=True)
        return gradient.copy_(total.div_(state.ranks))

    return sent.get_future().then(mean)


def foreign(net: torch.nn.Module) -> list[dict[str, Any]]:
    """Returns `model.foreign` of a job for the parameters of a network: names, shapes and how first values are drawn.

    psgd draws first values of its own with the spread of the network's: constant, normal for embeddings, else uniform.
    For the very values of the network save them with psgd.safetensors and let the job's init_from name that file."""
    embeddings = {id(m.weight) for m in net.modules() if isinstance(m, (torch.nn.Embedding, torch.nn.EmbeddingBag))}
    result = []
    for name, p in net.named_parameters():
        values = p.detach().float()
        spread = float(values.square().mean().sqrt())
        if bool((values == values.flatten()[0]).all()):
            first = {"constant": float(values.flatten()[0])}
        else:
            first = {"normal": spread} if id(p) in embeddings else {"uniform": spread * 3 ** 0.5}
        given: dict[str, Any] = {k: v for k, v in first.items() if v}
        result.append({"name": name, "shape": list(p.shape) or [1], **given})
    return result


def _keep_freed_memory() -> None:
    """Has malloc of glibc keep memory that is freed. A step takes the same memory as the one before, and else gets it from the system,
    with a page fault for every 4 KiB. Does nothing if the environment sets malloc's options, or if there is another libc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    is_set = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "") or any(
        name in os.environ for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"))
    if mallopt is not None and not is_set:
        for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            mallopt(option, KEEP_BYTES)


class _Shard:
    """The indices of a rank's batches from a step of a job on, as a batch sampler."""

    def __init__(self, samples: int, seed: int, step: Step) -> None:
        if samples == 0:
            raise ValueError("the data set has no samples")
        self.samples, self.seed, self.first = samples, seed, step.clock
        self.rank, self.workers, self.block_size = step.rank, step.workers, step.block_size
        self.steps_of_epoch, self.total_steps = step.steps_of_epoch, step.total_steps

    def __iter__(self) -> Iterator[list[int]]:
        order, order_epoch = [], None
        for clock in range(self.first, self.total_steps):
            epoch, batch = divmod(clock, self.steps_of_epoch)
            if order_epoch != epoch:
                generator = torch.Generator().manual_seed(self.seed * 1000003 + epoch)
                order, order_epoch = torch.randperm(self.samples, generator=generator).tolist(), epoch
            first = (batch * self.workers + self.rank) * self.block_size
            yield [order[i % self.samples] for i in range(first, first + self.block_size)]

    def __len__(self) -> int:
        return max(0, self.total_steps - self.first)


class _Sender:
    """Copies gradients into the step's memory while autograd computes others, and says which are ready."""

    def __init__(self, parameters: dict[str, torch.nn.Parameter], overlap: bool) -> None:
        self._overlap, self.holds = overlap, False  # holds: the readiness of one variable is not said before end()
        self._step: Step | None = None
        self._views: dict[torch.nn.Parameter, tuple[int, torch.Tensor]] = {}
        self._waiting: dict[int, int] = {}  # by index of a variable that is ready but was not said to be: its number of values
        self._sent: list[tuple[torch.nn.Parameter, int]] = []  # parameters whose gradients were sent, with the gradient's version then
        self._loss: float | None = None
        self._nodes: list[Any] = []
        for p in parameters.values():  # the node that adds to p.grad runs once in a backward pass, when all uses of p are done
            if p.requires_grad:
                node = p.expand_as(p).grad_fn.next_functions[0][0]
                node.register_hook(lambda *_, p=p: self._computed(p))
                self._nodes.append(node)  # else autograd frees it, and makes another one without the hook
        _senders.add(self)

    def begin(self, step: Step, views: dict[torch.nn.Parameter, tuple[int, torch.Tensor]]) -> None:
        self._step, self._views, self._waiting, self._sent, self._loss = step, dict(views), {}, [], None

    @property
    def has_begun(self) -> bool:
        """Returns whether gradients of the step were sent while backward computed others."""
        return bool(self._sent)

    def saw(self, loss: float) -> None:
        """Notes the value of a backward pass that begins; several are parts of a batch, and their sum is its loss."""
        self._loss = loss + (self._loss or 0)

    def _computed(self, p: torch.nn.Parameter) -> None:
        if self._step is None or not self._overlap:
            return
        if p not in self._views:
            raise RuntimeError("a second backward pass in a step: its first gradients are on their way; "
                               "psgd.torch.join(..., overlap=False) sends them in step()")
        self._take(p)

    def _take(self, p: torch.nn.Parameter) -> None:
        index, gradient = self._views.pop(p)
        with torch.no_grad():
            gradient.copy_(p.grad) if p.grad is not None else gradient.zero_()
        self._sent.append((p, 0 if p.grad is None else p.grad._version))
        self._waiting[index] = gradient.numel()
        if sum(self._waiting.values()) >= SEND_VALUES and (self._views or not self.holds):
            self._say()

    def _say(self) -> None:
        """Tells the worker the loss, once, and which variables are ready, neighbours in one call."""
        assert self._step is not None
        waiting, self._waiting, first = sorted(self._waiting), {}, 0
        if self._loss is not None:
            self._step.loss(self._loss)
            self._loss = None
        for i in range(1, len(waiting) + 1):
            if i == len(waiting) or waiting[i] != waiting[i - 1] + 1:
                self._step.ready(waiting[first], i - first)
                first = i

    def end(self) -> None:
        """Sends the gradients that were not sent yet: without overlap all, with it those that backward has not reached."""
        if self._loss is None and not self._sent:
            raise RuntimeError("step() without a backward pass: call loss.backward() of a scalar loss before")
        for p, version in self._sent:
            if p.grad is not None and p.grad._version != version:
                raise RuntimeError("gradients were changed after backward, when they were on their way; psgd.torch.join(..., "
                                   "overlap=False) sends them in step(), and the job's optimizer.clip bounds them")
        for p in list(self._views):
            self._take(p)
        self._say()
        self._step = None


_senders: weakref.WeakSet[_Sender] = weakref.WeakSet()
_backward = torch.autograd.backward


def _seen_backward(tensors: Any, *arguments: Any, **named: Any) -> None:
    """torch.autograd.backward, which loss.backward() calls; workers see the loss, so that scripts need not say it."""
    roots = [tensors] if isinstance(tensors, torch.Tensor) else tensors
    for sender in _senders:
        if sender._step is not None:
            sender.saw(float(sum(float(root.detach().sum()) for root in roots)))
    _backward(tensors, *arguments, **named)


class _Views:
    """The memory of a rank as tensors of the shapes of the network's parameters: `weights`, and with the index of each variable
    `gradients`, which are missing after the last step."""

    def __init__(self, variables: list[Variable], parameters: dict[str, torch.nn.Parameter]) -> None:
        def view(memory: memoryview, p: torch.nn.Parameter) -> torch.Tensor:
            return torch.frombuffer(memory, dtype=torch.float32).view(p.shape)

        self.variables = variables
        self.weights = {(p := parameters[v.name]): view(v._weights, p) for v in variables}
        self.gradients = {(p := parameters[v.name]): (v.index, view(v.gradient, p)) for v in variables if v.gradient is not None}


class Worker:
    """A worker that computes the gradients of a network; see `join`. Use it in `with`, or call `leave`.

    It stands in the place of the script's optimizer, and has zero_grad() and step(). `now` is the step in hand: its clock,
    rank, epoch and others. One thread at a time calls a worker."""

    net: torch.nn.Module
    now: Step | None
    timeout: float | None

    def __init__(self, net: torch.nn.Module, title: str, options: dict[str, Any], timeout: float | None, overlap: bool,
                 keep_memory: bool) -> None:
        self.net, self.now, self.timeout = net, None, timeout
        self._parameters = dict(net.named_parameters())
        for name, p in self._parameters.items():
            if p.dtype != torch.float32 or p.device.type != "cpu":
                raise TypeError(f"parameter {name} is {p.dtype} on {p.device}; torch.float32 on cpu is allowed")
        torch.autograd.backward = _seen_backward
        if keep_memory:
            _keep_freed_memory()
        self._sender = _Sender(self._parameters, overlap)
        self._views: dict[int, _Views] = {}
        self._feeds: dict[int, tuple[tuple, Iterator[Any]]] = {}
        self._next: Step | None = None  # a step that has arrived and was not given to the program yet
        self._is_done, self._epochs, self._is_answered = False, 0, True
        self._kept: dict[str, Any] = {}
        self._first: bytes | None = None  # state of the program before its first step
        self._held: tuple[str, int, int] | None = None  # job, rank and clock whose state the program has
        self._random: torch.Tensor | None = None
        self._worker = _join(title, **options)

    def _take(self, step: Step) -> _Views:
        """Returns views of the step's memory; checks names and shapes."""
        known = self._views.get(step.rank)
        if known is None or known.variables is not step.variables:
            shapes = {v.name: v.shape for v in step.variables}
            mine = {name: tuple(p.shape) or (1,) for name, p in self._parameters.items()}
            if shapes != mine:
                differ = sorted(name for name in shapes.keys() | mine.keys() if shapes.get(name) != mine.get(name))
                raise ValueError(f"job {step.job} and the network differ in {', '.join(differ[:5])}"
                                 f"{f' and {len(differ) - 5} more' if len(differ) > 5 else ''}; psgd.torch.foreign(net) says what the "
                                 "job's model.foreign must be")
            known = self._views[step.rank] = _Views(step.variables, self._parameters)
        return known

    def _load(self, step: Step) -> None:
        """Sets the network's parameters to the weights of a step."""
        with torch.no_grad():
            for parameter, weights in self._take(step).weights.items():
                parameter.copy_(weights)
                parameter.grad = None

    def keep(self, **objects: Any) -> None:
        """Keeps the state of objects with state_dict() and load_state_dict(), by name, in the job's checkpoints: an optimizer or
        a schedule of the script's own, a loader. Call it before the first step.

        It is kept as it is when `step` or `submit` is called, with the random state of torch and the network's buffers,
        which are kept in any job with program_state_mib. After a loss, in a resumed job, and when the rank comes from another
        process, the objects are set to it before the step."""
        if self._first is not None or self.now is not None:
            raise RuntimeError("keep() is called before the first step")
        for name, x in objects.items():
            if not callable(getattr(x, "state_dict", None)) or not callable(getattr(x, "load_state_dict", None)):
                raise TypeError(f"{name} is a {type(x).__name__}; an object with state_dict() and load_state_dict() is allowed")
        self._kept.update(objects)

    def _pack(self) -> bytes:
        return pack({"random": torch.get_rng_state(), "buffers": dict(self.net.named_buffers()),
                     "objects": {name: x.state_dict() for name, x in self._kept.items()}})

    def _restore(self, step: Step) -> None:
        """Sets the program to the state that the rank of the step has, unless it has that: it took the step before."""
        if step.state.room == 0:
            if self._kept:
                raise ValueError(f"job {step.job} has program_state_mib 0; keep({', '.join(self._kept)}) needs 1 to 4096")
            return
        if self._held == (step.job, step.rank, step.clock) and self._random is not None:
            torch.set_rng_state(self._random)  # undoes draws that the script has made since then, for example to evaluate
            return
        if self._first is None:
            self._first = self._pack()
        state, buffers = unpack(step.state.get("torch", self._first)), dict(self.net.named_buffers())
        if state["buffers"].keys() != buffers.keys() or state["objects"].keys() != self._kept.keys():
            raise ValueError(f"job {step.job} keeps buffers {sorted(state['buffers'])} and objects {sorted(state['objects'])}; this "
                             f"program has {sorted(buffers)} and {sorted(self._kept)}")
        with torch.no_grad():
            for name, x in buffers.items():
                x.copy_(state["buffers"][name])
        for name, kept in self._kept.items():
            kept.load_state_dict(state["objects"][name])
        torch.set_rng_state(state["random"])

    def _keep(self, step: Step) -> None:
        """Keeps the state of the program with the rank, before the last variable is ready."""
        if step.state.room > 0:
            step.state["torch"] = self._pack()
            self._held, self._random = (step.job, step.rank, step.clock + 1), torch.get_rng_state()

    def _look(self) -> Step | None:
        """Waits for the next step, sets the network to its weights, and keeps it for the program. None: the job is done."""
        if self.now is not None and not self._is_answered:
            raise RuntimeError("the step is over without a call of step, backward or submit")
        while self._next is None and not self._is_done:
            try:
                self._next = self._worker.next(self.timeout)
            except Ended:  # the job may go on with another attempt
                continue
            self._is_done = self._next is None
            step = self._next or self._worker.last
            if step is not None:
                self._load(step)
        self.now = None
        return self._next

    def rounds(self) -> Iterator[Step]:
        """Yields the rounds of the job until it has all of them, with the network's parameters set to the round's weights,
        and after the last one to the job's model.

        Train the network as you like, by an optimizer of your own, and call `submit`. The job's optimizer then steps with
        the mean of what the workers have changed. Samples must follow from the round's clock and rank: it may come again.
        A worker is for one job: when that is done, there are no more rounds."""
        while self._look() is not None:
            step = self.now = self._next
            assert step is not None
            self._next, self._is_answered = None, False
            self._restore(step)
            yield step

    def steps(self) -> Iterator[Step]:
        """The same for steps: compute a loss, the mean over `block_size` samples, and its gradients, and call `step`."""
        for step in self.rounds():
            self._sender.holds = step.state.room > 0
            self._sender.begin(step, self._take(step).gradients)
            yield step

    def _answer(self) -> Step:
        self._worker._live()
        if self.now is None or self._is_answered:
            raise RuntimeError("step, backward or submit is called once in each step")
        self._is_answered = True
        return self.now

    def report(self, /, **metrics: float | torch.Tensor) -> None:
        """Reports metrics of the step by name, as report(accuracy=right / 32): numbers, also as tensors with one, of names in the
        job's program_metrics. What Step.report refuses is refused.

        Call it before backward(), as gradients travel while that computes others; with overlap=False and in rounds it may
        be later, up to step() or submit(). A step need not have all metrics, and the last value of a name counts."""
        self._worker._live()
        if self.now is None or self._is_answered:
            raise RuntimeError("report() is called in a step, before its end by step, backward or submit")
        if self._sender.has_begun:
            raise RuntimeError("gradients of this step are on their way: call report() before backward, or "
                               "psgd.torch.join(..., overlap=False)")
        self.now.report(**metrics)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Does nothing: gradients are cleared when a step begins."""

    def step(self) -> None:
        """Sends the gradients to the servers, which step: those that have not gone while backward computed others."""
        self._keep(self._answer())
        self._sender.end()

    def backward(self, loss: torch.Tensor) -> None:
        """loss.backward() and step(). `loss`: a scalar, the mean over the samples of the step."""
        if self.now is None or self._is_answered:
            self._answer()  # says what is wrong, before anything is computed
        loss.backward()
        self.step()

    def submit(self, loss: float | torch.Tensor) -> None:
        """Ends a round: sends what the parameters have changed since its beginning. `loss`: the mean loss of the round."""
        step = self._answer()
        views = self._take(step)
        step.loss(loss)
        with torch.no_grad():
            for parameter, before in views.weights.items():
                torch.sub(before, parameter, out=views.gradients[parameter][1])
        self._keep(step)
        step.ready()

    def batches(self, data: Any, *, seed: int = 0, **options: Any) -> Iterator[Any]:
        """Yields this rank's batch of each step of the job: `block_size` samples of the data set, shuffled anew in each epoch.

        `data`: a torch DataLoader, of which the data set, collate_fn and the worker processes are taken, or a data set that
        has len() and [i]; then `options` are those of DataLoader, such as num_workers. The ranks of a step have different
        samples. Which ones follows from seed, clock and rank alone, so the position in the data is a part of the job's
        checkpoints, and a step that comes again has the same samples. The job's data.params.samples should be len(data set)."""
        if isinstance(data, torch.utils.data.DataLoader):
            if options:
                raise ValueError(f"{', '.join(options)}: a DataLoader has its own")
            loader, data = data, data.dataset
            options = {"collate_fn": loader.collate_fn, "num_workers": loader.num_workers, "worker_init_fn": loader.worker_init_fn,
                       "timeout": loader.timeout, "prefetch_factor": loader.prefetch_factor}
            if loader.num_workers == 0:
                options.pop("prefetch_factor")
        else:
            loader = None
        for step in self.steps():
            if loader is not None and loader.batch_size not in (None, step.block_size):
                raise ValueError(f"the DataLoader has batch_size {loader.batch_size}, and job {step.job} has block_size {step.block_size}")
            yield self._batch(step, data, seed, options)

    def epoch(self, data: Any, *, seed: int = 0, **options: Any) -> Iterator[Any]:
        """The same until the end of the epoch under way, for scripts with a loop over epochs. The network then has the weights
        after the epoch. Yields nothing if the job is done.

        Other workers wait while a script evaluates, at most the job's timeouts.step_ms."""
        first = self._look()
        if first is None:
            return
        self._epochs = max(first.epoch, self._epochs) + 1
        batches = self.batches(data, seed=seed, **options)
        while (step := self._look()) is not None and step.epoch < self._epochs:  # earlier ones may come again after a loss
            yield next(batches)

    def _batch(self, step: Step, data: Any, seed: int, options: dict[str, Any]) -> Any:
        """Returns the batch of a step, by a loader that goes on from the step before if that was this one's predecessor."""
        key = (id(data), seed, step.job, step.clock)
        if self._feeds.get(step.rank, (None, None))[0] != key:
            sampler = _Shard(len(data), seed, step)
            # draws of its own: to begin anew in the middle of a job changes no others
            own: dict[str, Any] = {"generator": torch.Generator().manual_seed(seed * step.workers + step.rank), **options}
            self._feeds[step.rank] = (key, iter(torch.utils.data.DataLoader(data, batch_sampler=sampler, **own)))
        _, feed = self._feeds[step.rank]
        batch = next(feed)
        self._feeds[step.rank] = ((*key[:3], step.clock + 1), feed)
        return batch

    def leave(self) -> None:
        """Ends the worker in order. Nothing happens if it has left."""
        self._views, self._feeds, self.now, self._next, self._is_done = {}, {}, None, None, True
        self._worker.leave()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def join(net: torch.nn.Module, title: str, *, timeout: float | None = None, overlap: bool = True, keep_memory: bool = True,
         **options: Any) -> Worker:
    """Starts a worker for jobs with this title, whose model has the parameters of `net`, which must be float32 on the CPU.

    `timeout`: seconds to wait for a step, the first one included; then TimeoutError. `overlap`: gradients are sent while
    backward computes others; False: all in step(), for several backward passes a step, or gradients that the script changes.
    `keep_memory`: malloc keeps up to 1 GiB that this process frees, as a step takes the memory of the one before; False: as it is set.
    `options`: as of psgd.join."""
    return Worker(net, title, options, timeout, overlap, keep_memory)
