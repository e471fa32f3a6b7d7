#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_python_package.py - the Python package psgd: codecs and model files, with numpy, with torch and without either.

    PSGD_BIN=build/test/bin PSGD_LIBRARY=build/test/lib/libpsgd.so.0 test_python_package.py
"""
import array
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "clients/python"
PSGD = pathlib.Path(os.environ["PSGD_BIN"]).resolve() / "psgd"
sys.path.insert(0, str(PACKAGE))

import numpy
import torch

import psgd
import psgd.torch


def gradient(*shape, seed=1):
    return numpy.random.default_rng(seed).normal(size=shape).astype(numpy.float32)


class Codecs(unittest.TestCase):
    def test_every_codec_of_the_program_is_there_and_decodes_what_it_encoded(self):
        told = subprocess.run([PSGD, "info", "codecs", "--format", "json"], capture_output=True, text=True, timeout=60)
        self.assertEqual(psgd.codecs(), [c["name"] for c in json.loads(told.stdout)])
        x = gradient(3, 7000)
        for name in psgd.codecs():
            data = psgd.codec(name).encode(x)
            y = psgd.codec(name).decode(data, x.shape)
            self.assertEqual((y.shape, y.dtype), (x.shape, numpy.float32))
            self.assertLess(len(data), x.nbytes + 300)
            if name not in ("topk", "dgc", "randomk", "threelc", "threshold", "powersgd", "norm"):
                self.assertGreater(numpy.corrcoef(x.ravel(), y.ravel())[0, 1], 0.5, name)

    def test_topk_keeps_the_largest_and_feedback_sends_the_rest_later(self):
        x = gradient(20000)
        codec = psgd.codec("topk", fraction=0.1, error_feedback=1)
        total = numpy.zeros_like(x)
        for step in range(60):
            data = codec.encode(x)
            if step == 0:
                first = psgd.codec("topk").decode(data)
                for a, b in ((x[:16384], first[:16384]), (x[16384:], first[16384:])):
                    k = -(-len(a) // 10)
                    self.assertEqual(set(numpy.argsort(-abs(a))[:k]), set(numpy.flatnonzero(b)))
            self.assertIs(codec.decode(data, out=total, add=True), total)
        self.assertLess(numpy.linalg.norm(total / 60 - x) / numpy.linalg.norm(x), 0.15)

    def test_torch_tensors_and_buffers_give_the_same_bytes(self):
        x = gradient(40, 500)
        data = psgd.codec("int8", seed=5).encode(x)
        for same in (torch.from_numpy(x), torch.nn.Parameter(torch.from_numpy(x)), array.array("f", x.tobytes()),
                     memoryview(x.tobytes()).cast("f"), x.astype(numpy.float64), numpy.asfortranarray(x)):
            self.assertEqual(psgd.codec("int8", seed=5).encode(same), data)
        self.assertNotEqual(psgd.codec("int8", seed=6).encode(x), data)
        self.assertNotEqual(psgd.codec("int8", seed=5, contributor=1).encode(x), data)
        out = torch.ones(40, 500)
        self.assertIs(psgd.codec("int8").decode(data, out=out, add=True), out)
        numpy.testing.assert_array_equal(out.numpy(), psgd.codec("int8").decode(data, (40, 500)) + 1)

    def test_a_state_goes_on_where_it_was_saved(self):
        numbers = {"fraction": 0.01, "error_feedback": 1, "momentum": 0.9}
        one, other = psgd.codec("topk", **numbers), psgd.codec("topk", **numbers)
        for seed in range(3):
            one.encode(gradient(17000, seed=seed))
        other.load_state(one.save_state())
        x = gradient(17000, seed=9)
        self.assertEqual(one.encode(x), other.encode(x))
        self.assertNotEqual(psgd.codec("topk", **numbers).encode(x), other.encode(x))
        with self.assertRaisesRegex(ValueError, "x has 5 values; the codec keeps a state for 17000"):
            one.encode(x[:5])
        with self.assertRaisesRegex(ValueError, "bytes; 16 are allowed"):
            psgd.codec("topk").load_state(one.save_state())

    def test_what_is_wrong_is_refused_and_changes_nothing(self):
        for text, make in (("did you mean \"topk\"", lambda: psgd.codec("topq")),
                           ("topk.fraction: is 2; numbers", lambda: psgd.codec("topk", fraction=2)),
                           ("topk.bits: is not one of its numbers", lambda: psgd.codec("topk", bits=2))):
            with self.assertRaisesRegex(psgd.Error, re.escape(text)):
                make()
        x = gradient(20000)
        codec = psgd.codec("int8")
        data, out = codec.encode(x), x.copy()
        for wrong in (data[:-1], data + b"\0", b"", data[8:], struct.pack("<Q", 1 << 60) + data[8:]):
            with self.assertRaises(psgd.Error):
                codec.decode(wrong, out=out)
            with self.assertRaises(psgd.Error):
                codec.decode(wrong)
        numpy.testing.assert_array_equal(out, x)
        with self.assertRaisesRegex(psgd.Error, "no encoding of 1000000000000 values"):
            codec.decode(data, (1000000, 1000000))
        for out in (x[::2], x.astype(numpy.float64), bytes(80000)):
            with self.assertRaisesRegex(TypeError, "writable, contiguous float32 is allowed"):
                codec.decode(data, out=out)

    def test_threads_encode_beside_each_other(self):
        x, found = gradient(200000), []
        expected = psgd.codec("qsgd").encode(x)
        threads = [threading.Thread(target=lambda: found.append(psgd.codec("qsgd").encode(x))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(found, [expected] * 4)

    def test_without_numpy_values_are_arrays(self):
        code = """if True:
            import array, sys, psgd
            x = array.array("f", range(20000))
            for given in (x, memoryview(bytes(x)).cast("f")):
                y = psgd.codec("f32").decode(psgd.codec("f32").encode(given))
                assert isinstance(y, array.array) and y == x
            psgd.safetensors.save("m", {"a": memoryview(x).cast("B").cast("f", (2, 10000))}, {"k": "v"})
            a = psgd.safetensors.load("m")["a"]
            assert a.shape == (2, 10000) and a[1, 3] == 10003 and psgd.safetensors.metadata("m") == {"k": "v"}
            assert "numpy" not in sys.modules
        """
        with tempfile.TemporaryDirectory() as folder:  # -S: without the packages of Debian
            said = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, timeout=60, cwd=folder,
                                  env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        self.assertEqual(said.returncode, 0, said.stderr)

    def test_a_missing_library_is_named(self):
        said = subprocess.run([sys.executable, "-c", "import psgd; psgd.codec('f32')"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE), "PSGD_LIBRARY": "/nowhere/libpsgd.so"})
        self.assertIn("libpsgd0 has it, or set PSGD_LIBRARY", said.stderr)


class Net(torch.nn.Module):
    """The network `cnn` as a user writes it in PyTorch, with psgd's names of layers."""
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 32, 3), torch.nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = torch.nn.Linear(9216, 128), torch.nn.Linear(128, 10)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.conv2(torch.relu(self.conv1(x)))), 2)
        return torch.softmax(self.fc2(torch.relu(self.fc1(x.flatten(1)))), 1)


DDP = """
import hashlib, sys, torch
import torch.distributed as dist
import psgd, psgd.torch
rank, at, name, numbers = int(sys.argv[1]), sys.argv[2], sys.argv[3], eval(sys.argv[4])
dist.init_process_group("gloo", init_method="file://" + at, rank=rank, world_size=2)
torch.manual_seed(3)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.ReLU(), torch.nn.Linear(300, 4))
teacher = torch.nn.Linear(20, 4)
ddp = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.01)
state = psgd.torch.Ddp(name, **numbers) if name != "plain" else None
if state is not None:
    ddp.register_comm_hook(state, psgd.torch.ddp_hook)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
draws = torch.Generator().manual_seed(7 + rank)
for step in range(150):
    x = torch.randn(32, 20, generator=draws)
    loss = torch.nn.functional.mse_loss(ddp(x), teacher(x).detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
values = torch.cat([p.detach().flatten() for p in net.parameters()])
print(hashlib.sha256(values.numpy().tobytes()).hexdigest(), loss.item(), values.double().norm().item(),
      state.bytes_sent if state is not None else 0, flush=True)
dist.barrier()
dist.destroy_process_group()  # else a thread of gloo may outlive the interpreter
"""


# Page faults of ten tensors of 40 MiB, one after the other, which malloc takes from the system by itself unless it is told otherwise.
FAULTS = """
import resource, torch
import psgd.torch
psgd.torch._keep_freed_memory()
for i in range(13):
    if i == 3:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(10 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


class Memory(unittest.TestCase):
    def faults(self, **environment):
        said = subprocess.run([sys.executable, "-c", FAULTS], env={**os.environ, "PYTHONPATH": str(PACKAGE), **environment},
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(said.returncode, 0, said.stderr)
        return int(said.stdout)

    def test_freed_memory_is_kept_unless_the_environment_sets_malloc(self):
        kept = self.faults()  # none, or those of a few tensors, for which malloc has taken another place
        for environment in ({"MALLOC_MMAP_THRESHOLD_": "131072"}, {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"}):
            self.assertGreater(self.faults(**environment), 2 * kept + 100)


class DistributedDataParallel(unittest.TestCase):
    def train(self, name, **numbers):
        """What both ranks printed: SHA-256 of the weights, loss, norm, bytes."""
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
            ranks = [subprocess.Popen([sys.executable, "-c", DDP, str(rank), f"{folder}/store", name, repr(numbers)], env=env,
                                      text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
            said = [rank.communicate(timeout=120) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
        return [out.split() for out, _ in said]

    def test_gradients_go_by_codecs(self):
        """f32 is plain PyTorch; fewer bytes learn as well, with the same bits on both ranks."""
        (_, loss, norm, _), _ = self.train("plain")
        for name, numbers, part in (("f32", {}, 1.01), ("int8", {}, 0.26), ("topk", {"fraction": 0.05, "error_feedback": 1}, 0.1)):
            with self.subTest(codec=name):
                (sha, its_loss, its_norm, sent), (other, *_) = self.train(name, **numbers)
                self.assertEqual(sha, other)
                self.assertLess(int(sent), part * 150 * 4 * (21 * 300 + 301 * 4))
                self.assertLess(float(its_loss), 2 * float(loss) + 0.01)
                if name == "f32":
                    self.assertAlmostEqual(float(its_norm), float(norm), delta=1e-6 * float(norm))

    def test_what_is_wrong_is_said_before_the_first_step(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
            self.addCleanup(torch.distributed.destroy_process_group)
            for numbers, text in (({"fraction": 7}, "fraction: is 7"), ({"difference": 1}, "difference: is 1; 0 is allowed")):
                with self.assertRaisesRegex(ValueError, text):
                    psgd.torch.Ddp("topk", **numbers)


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([PSGD, "train", "--model", "cnn", "--data", "glyphs", "--train-limit", "64", "--test-limit", "16", "--workers", "1",
                        "--max-steps", "1", "--title", "t", "--out", cls.folder], check=True, capture_output=True, timeout=300)
        cls.model = cls.folder / "MODEL-t-N(0).safetensors"

    def predict(self, model, x):
        (self.folder / "x.csv").write_text("\n".join(",".join(f"{v:.9g}" for v in row.ravel()) for row in x) + "\n")
        said = subprocess.run([PSGD, "predict", "--model", model, "--csv", self.folder / "x.csv", "--format", "json"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(said.returncode, 0, said.stderr)
        return numpy.array([row["outputs"] for row in json.loads(said.stdout)])

    def test_torch_loads_what_a_job_leaves_and_psgd_what_torch_saves(self):
        net, x = Net(), gradient(4, 1, 28, 28)
        net.load_state_dict(psgd.safetensors.load_torch(self.model), strict=True)
        with torch.no_grad():
            numpy.testing.assert_allclose(net(torch.from_numpy(x)).numpy(), self.predict(self.model, x), atol=2e-6)
            net.fc2.bias += torch.linspace(-3, 3, 10)
            changed = self.folder / "changed.safetensors"
            psgd.safetensors.save(changed, net.state_dict(), psgd.safetensors.metadata(self.model))
            theirs = self.predict(changed, x)
            numpy.testing.assert_allclose(net(torch.from_numpy(x)).numpy(), theirs, atol=2e-6)
        self.assertGreater(theirs[:, 9].min(), 0.3)

    def test_numpy_loads_the_same_and_files_are_the_same_again(self):
        arrays, tensors = psgd.safetensors.load(self.model), psgd.safetensors.load_torch(self.model)
        self.assertEqual(list(arrays), ["conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight", "fc1.bias",
                                        "fc2.weight", "fc2.bias"])
        self.assertEqual(json.loads(psgd.safetensors.metadata(self.model)["spec"])["model"]["preset"], "cnn")
        for name in arrays:
            numpy.testing.assert_array_equal(arrays[name], tensors[name].numpy())
        again = self.folder / "again.safetensors"
        for values in (arrays, tensors):
            psgd.safetensors.save(again, values)
            for name, value in psgd.safetensors.load(again).items():
                numpy.testing.assert_array_equal(value, arrays[name])
        self.assertEqual(list(self.folder.glob(".psgd-*")), [])

    def test_other_types_and_shapes_go_through(self):
        path = self.folder / "types.safetensors"
        given = {"scalar": torch.tensor(3.5), "none": torch.zeros(0, 4), "whole": torch.arange(5), "brain": torch.ones(3).bfloat16(),
                 "flag": torch.tensor([True, False]), "half": torch.ones(2, 2).half(), "turned": torch.arange(6.).reshape(2, 3).T}
        psgd.safetensors.save(path, given)
        found = psgd.safetensors.load_torch(path)
        for name, value in given.items():
            self.assertEqual((found[name].dtype, found[name].shape), (value.dtype, value.shape), name)
            self.assertTrue(torch.equal(found[name], value), name)
        with self.assertRaisesRegex(ValueError, "brain: numpy has no BF16"):
            psgd.safetensors.load(path)

    def test_damaged_files_are_refused(self):
        path = self.folder / "bad.safetensors"
        good = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}

        def refused(text, head, data=bytes(8), length=None):
            head = head if isinstance(head, bytes) else json.dumps(head).encode()
            path.write_bytes(struct.pack("<Q", len(head) if length is None else length) + head + data)
            with self.assertRaisesRegex(ValueError, text):
                psgd.safetensors.load(path)
        refused("header does not fit", {"a": good}, length=1 << 62)
        refused("header does not fit", {"a": good}, length=1 << 20)
        refused("a name stands twice", b'{"a":1,"a":1}')
        refused("tensor a: dtype is 'F33'", {"a": {**good, "dtype": "F33"}})
        refused("tensor a: has 8 bytes", {"a": {**good, "shape": [3]}})
        refused("tensor a: has 8 bytes", {"a": {**good, "shape": [1 << 40, 1 << 40]}})
        refused("no whole numbers", {"a": {**good, "data_offsets": [0, 16]}})
        refused("no whole numbers", {"a": {**good, "shape": [-2]}})
        refused("no whole numbers", {"a": {**good, "shape": [True, 2]}})
        refused("tensor b: begins at 0; 8", {"a": good, "b": good})
        refused("belong to no tensor", {"a": good}, bytes(12))
        refused("texts only", {"a": good, "__metadata__": {"k": 1}})
        refused("bad.safetensors", b"[" * 100000)
        refused("bad.safetensors", b"\xff\xff")
        path.write_bytes(b"123")
        with self.assertRaisesRegex(ValueError, "header does not fit"):
            psgd.safetensors.metadata(path)

    def test_the_examples_of_the_document_run(self):
        text = (ROOT / "docs/python.md").read_text()
        examples = [re.sub("(?m)^    ", "", b) for b in re.findall(r"(?m)(?:^    .*\n|^\n(?=    ))+", text) if "    import psgd\n" in b]
        self.assertGreaterEqual(len(examples), 2)
        for example in examples:
            said = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=120, cwd=self.folder,
                                  env={**os.environ, "PYTHONPATH": str(PACKAGE)})
            self.assertEqual(said.returncode, 0, example + said.stderr)
            for line in re.findall(r"#> (.*)", example):
                self.assertIn(line, said.stdout)


if __name__ == "__main__":
    unittest.main()
