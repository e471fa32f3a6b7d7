# SPDX-License-Identifier: Apache-2.0
"""torch.py - for PyTorch: DistributedDataParallel sends its gradients encoded by a codec of psgd.

    net = torch.nn.parallel.DistributedDataParallel(net)
    net.register_comm_hook(psgd.torch.Ddp("topk", fraction=0.01, error_feedback=1), psgd.torch.ddp_hook)

Each rank gets the encodings of all ranks, decodes them in the order of ranks and takes the mean. So the gradients
have the same bits on all ranks.
"""
import struct

import torch
import torch.distributed as dist

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
