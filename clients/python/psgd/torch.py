# SPDX-License-Identifier: Apache-2.0
"""torch.py - for PyTorch: workers of psgd, and DistributedDataParallel with the codecs of psgd.

A plain script becomes a worker of a cluster (docs/own-loop.md):

    worker = psgd.torch.join(net, "mnist", coordinator="HOST:PORT")
    for x, y in worker.batches(dataset):
        worker.backward(F.cross_entropy(net(x), y))

DistributedDataParallel sends its gradients encoded:

    net = torch.nn.parallel.DistributedDataParallel(net)
    net.register_comm_hook(psgd.torch.Ddp("topk", fraction=0.01, error_feedback=1), psgd.torch.ddp_hook)

Each of its ranks gets the encodings of all ranks, decodes them in the order of ranks and takes the mean. So the gradients
have the same bits on all ranks.
"""
import struct
from typing import Any, Callable, Iterator

import torch
import torch.distributed as dist

from ._loop import Ended, Step, Variable
from ._loop import join as _join
from .encoding import Codec

LENGTH = struct.Struct("<Q")  # before an encoding, which has room for the longest one behind it


class Ddp:
    """The state of ddp_hook in one process: the codec, and what it keeps for each bucket of gradients."""

    def __init__(self, name: str, *, seed: int = 0, group: dist.ProcessGroup | None = None, **numbers: float) -> None:
        """numbers: those of `psgd info codecs`. group: that of DistributedDataParallel; None: all processes.

        Call it after torch.distributed.init_process_group. Raises psgd.Error if a name or a number is not allowed, and
        ValueError for encodings that are only changes.
        """
        if numbers.get("difference"):
            raise ValueError(f"difference: is {numbers['difference']}; 0 is allowed, as each gradient stands alone")
        self.group = group  # None: holds none, so that destroy_process_group ends it
        self.name, self.seed, self.numbers = name, seed, numbers
        self.ranks, self.rank = dist.get_world_size(self.group), dist.get_rank(self.group)
        self.bytes_sent = 0  # of encodings; each goes to every other rank
        self._codecs: dict[int, tuple[int, Codec]] = {}
        self._make(0)  # says what is wrong now, not in the first step

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
        result.append({"name": name, "shape": list(p.shape) or [1], **{k: v for k, v in first.items() if v}})
    return result


class Worker:
    """A worker that computes the gradients of a network; see `join`. Use it in `with`, or call `leave`.

    `step` is the step in hand: its clock, rank, epoch and others."""

    def __init__(self, net: torch.nn.Module, title: str, options: dict[str, Any], timeout: float | None) -> None:
        self.net, self.step, self.timeout = net, None, timeout
        self._parameters = dict(net.named_parameters())
        for name, p in self._parameters.items():
            if p.dtype != torch.float32 or p.device.type != "cpu":
                raise TypeError(f"parameter {name} is {p.dtype} on {p.device}; torch.float32 on cpu is allowed")
        self._worker = _join(title, **options)
        self._views: dict[int, tuple[list[Variable], list[tuple[torch.nn.Parameter, torch.Tensor, torch.Tensor]]]] = {}
        self._has_gradients = True

    def _take(self, step: Step) -> list[tuple[torch.nn.Parameter, torch.Tensor, torch.Tensor]]:
        """Returns (parameter, weights, gradient) of each variable of the job, the latter as views of its memory."""
        known = self._views.get(step.rank)
        if known is None or known[0] is not step.variables:
            shapes = {v.name: v.shape for v in step.variables}
            mine = {name: tuple(p.shape) or (1,) for name, p in self._parameters.items()}
            if shapes != mine:
                differ = sorted(name for name in shapes.keys() | mine.keys() if shapes.get(name) != mine.get(name))
                raise ValueError(f"job {step.job} and the network differ in {', '.join(differ[:5])}"
                                 f"{f' and {len(differ) - 5} more' if len(differ) > 5 else ''}; psgd.torch.foreign(net) says what the "
                                 "job's model.foreign must be")
            tensors = [(self._parameters[v.name], torch.frombuffer(v.weights, dtype=torch.float32).view(self._parameters[v.name].shape),
                        torch.frombuffer(v.gradient, dtype=torch.float32).view(self._parameters[v.name].shape)) for v in step.variables]
            known = self._views[step.rank] = (step.variables, tensors)
        return known[1]

    def steps(self) -> Iterator[Step]:
        """Yields the steps of the job until it has all of them, with the network's parameters set to the job's weights.

        In each call `backward` once. Samples must follow from step.clock and step.rank: a step may come again."""
        for step in self._worker.steps(self.timeout):
            with torch.no_grad():
                for parameter, weights, _ in self._take(step):
                    parameter.copy_(weights)
                    parameter.grad = None
            self.step, self._has_gradients = step, False
            yield step
            if not self._has_gradients:
                raise RuntimeError("the step is over without a call of backward")
        self.step = None

    def backward(self, loss: torch.Tensor) -> None:
        """Computes the gradients of the loss, the mean over the samples of the step, and sends them to the servers, which step."""
        if self.step is None or self._has_gradients:
            raise RuntimeError("backward is called once in each step")
        self._has_gradients = True
        try:
            self.step.loss(float(loss.detach()))
            loss.backward()
            with torch.no_grad():
                for parameter, _, gradient in self._take(self.step):
                    gradient.copy_(parameter.grad) if parameter.grad is not None else gradient.zero_()
            self.step.ready()
        except Ended:  # the attempt is over; the next step is one of another
            pass

    def batches(self, dataset: Any, collate: Callable[[list], Any] = torch.utils.data.default_collate, seed: int = 0) -> Iterator[Any]:
        """Yields this rank's batch of each step: block_size samples of dataset[i], shuffled anew in each epoch.

        The ranks of a step have different samples. Which ones follows from seed, clock and rank alone, so a step that
        comes again has the same. The job's data.params.samples should be len(dataset)."""
        order, order_epoch = None, None
        for step in self.steps():
            if order_epoch != step.epoch:
                generator = torch.Generator().manual_seed(seed * 1000003 + step.epoch)
                order, order_epoch = torch.randperm(len(dataset), generator=generator).tolist(), step.epoch
            first = (step.batch * step.workers + step.rank) * step.block_size
            yield collate([dataset[order[i % len(order)]] for i in range(first, first + step.block_size)])

    def leave(self) -> None:
        """Ends the worker in order. Nothing happens if it has left."""
        self._views = {}
        self._worker.leave()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def join(net: torch.nn.Module, title: str, *, timeout: float | None = None, **options: Any) -> Worker:
    """Starts a worker for jobs with this title, whose model has the parameters of `net`, which must be float32 on the CPU.

    `timeout`: seconds to wait for a step, the first one included; then TimeoutError. `options`: as of psgd.join."""
    return Worker(net, title, options, timeout)
