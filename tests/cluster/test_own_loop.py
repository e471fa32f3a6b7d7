# SPDX-License-Identifier: Apache-2.0
"""Programs that compute a model themselves: libpsgd and the Python package, as users call them."""
import csv
import difflib
import gzip
import hashlib
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "clients/python"), str(ROOT / "tests/interop")]

import grpc  # noqa: E402
import harness  # noqa: E402
import mlflow_stub  # noqa: E402
import numpy as np  # noqa: E402
import read_events  # noqa: E402

import psgd  # noqa: E402
from psgd.v1 import coordinator_pb2, job_pb2  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

WIDTH = 8
# What a user writes: linear regression, whose samples follow from clock and rank.
REGRESSION = """
import hashlib, os, socket, struct, sys, time
import numpy as np, psgd
def samples(clock, rank, n):
    draw = np.random.default_rng(1000 * clock + rank)
    x = draw.normal(size=(n, 8)).astype(np.float32)
    return x, (x @ np.arange(8, dtype=np.float32) + 3).astype(np.float32)
def lie(step, metric, value):
    # past libpsgd, whose socket to psgd-worker for the rank is the newest one
    newest = max(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}") and
                 os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"))
    with socket.socket(fileno=os.dup(newest)) as s:
        if value == 0:
            step.loss(1)
            step.ready(0, 1)
        s.send(struct.pack("=IIQIId256s", 9, step.rank, step.clock, int(metric), 0, value, b""))
    time.sleep(1)
    step._worker.leave()
    os._exit(0)
def refused(text, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except psgd.WorkerError as e:
        assert text == str(e), (text, str(e))
    else:
        sys.exit(f"accepted: {arguments} {named}")
def wrong(step, before):
    # what is refused, and that nothing of it is reported: the value of "rare" at step 7 is said by nobody
    no = "a finite number is allowed"
    for value, shown in (("abc", "'abc'"), ("1.5", "'1.5'"), (True, "True"), (None, "None"), (np.bool_(True), "True"), ([1], "[1]"),
                         (np.ones(2), "array([1., 1.])"), (np.inf, "inf"), (np.array("1"), "array('1', dtype='<U1')"), (1j, "1j")):
        refused(f'the metric "bias" is {shown}; {no}', step.report, rare=1, bias=value)
        if not isinstance(value, float):
            refused(f"the loss is {shown}; a number is allowed", step.loss, value)
    for value in 10 ** 400, "x" * 1000, np.zeros((99, 99)):
        try:
            step.report(rare=1, bias=value)
        except psgd.WorkerError as e:
            assert str(e).startswith('the metric "bias" is ') and str(e).endswith(no) and len(str(e)) < 120 and "\\n" not in str(e), e
    names = 'the job\\'s program_metrics have no "{}"; they are: bias, accuracy, rare'
    refused(names.format("foo"), step.report, rare=1, foo=1)
    refused(names.format("a?b?[1m"), step.report, **{"a\\nb\\033[1m": 1})
    for value in 2, 2.5, np.float32(2), np.int64(2), np.float16(2), np.array(2), np.array([[2.0]]), np.longdouble(2):
        step.report(bias=value)
    over = f"step 6 of rank {before.rank} is over; in hand is step 7 of rank {step.rank}"
    for call, *arguments in (before.report,), (before.loss, 1), (before.ready,):
        refused(over, call, *arguments)
    try:
        before.state["a"] = b"b"
    except psgd.WorkerError as e:
        assert str(e) == over, e
if __name__ == "__main__":
    pause, (trick, *more) = float(sys.argv[2]), (sys.argv[3] if len(sys.argv) > 3 else "").split("+")
    with psgd.join("line", coordinator=sys.argv[1], **({"fault": "stop-at:FINISHED"} if "stops" in more else {})) as worker:
        print("joined", flush=True)
        step = None
        for before, step in ((step, now) for now in worker.steps(timeout=120)):
            w, b = (np.asarray(v.weights) for v in step.variables)
            if "wrong" in more and step.clock == 7:
                wrong(step, before)
            x, y = samples(step.clock, step.rank, step.block_size)
            error = x @ w + b - y
            if "says" in more:
                step.report(bias=float(b[0]), accuracy=step.clock / 1000)
                if step.clock % 10 == step.rank:
                    step.report(rare=step.clock)
            if trick == "lies" and step.clock == 5:
                lie(step, *map(float, more))
            if trick == "fork" and os.fork() == 0:
                try:
                    step.loss(0)
                except psgd.WorkerError as e:
                    os._exit(0 if "child" in str(e) else 1)
                os._exit(2)
            elif trick == "fork":
                assert os.wait()[1] == 0
            if trick == "nan" and step.clock == 5:
                error[:] = np.nan
            if trick == "leave" and step.clock == 20:
                break
            if trick == "exit" and step.clock == 20:
                os._exit(3)
            if trick == "never" and step.clock == 5:
                time.sleep(1000)
            while trick == "chatty" and step.clock == 5:
                step.report(bias=1)
            step.loss(float((error * error).mean() / 2))
            if trick == "inf" and step.clock == 5:
                np.asarray(step.variables[1].gradient)[:] = np.inf
            else:
                np.asarray(step.variables[1].gradient)[:] = error.mean()
            step.ready(1, 1)
            if "wrong" in more and step.clock == 7:
                refused('the metric "bias": variables of this step are ready; report it before the first one is', step.report, bias=1)
            np.asarray(step.variables[0].gradient)[:] = x.T @ error / len(error)
            step.ready(0, 1)
            print(step.clock, flush=True)
            time.sleep(pause)
    if "wrong" in more:
        for call in worker.next, step.report, step.ready, lambda: step.state.room:
            refused('the worker for "line" has left', call)
"""
TORCH = """
import sys, time
import psgd.torch, torch, torch.nn.functional as F
class Digits(torch.utils.data.Dataset):
    def __init__(self, n=2048):
        draw = torch.Generator().manual_seed(7)
        self.y = torch.randint(0, 10, (n,), generator=draw)
        proto = torch.randn(10, 64, generator=draw)
        self.x = proto[self.y] + 0.5 * torch.randn(n, 64, generator=draw)
    def __len__(self): return len(self.y)
    def __getitem__(self, i): return self.x[i], self.y[i]
def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.LayerNorm(32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
if __name__ == "__main__":
    net = network()
    with psgd.torch.join(net, "digits", coordinator=sys.argv[1], timeout=120, overlap="late" not in sys.argv) as worker:
        if "rounds" in sys.argv:
            shard = torch.utils.data.DataLoader(Digits(), batch_size=32, shuffle=True)
            for round in worker.rounds():
                own = torch.optim.Adam(net.parameters(), lr=0.003)
                for x, y in shard:
                    loss = F.cross_entropy(net(x), y)
                    own.zero_grad(); loss.backward(); own.step()
                worker.report(accuracy=(net(x).argmax(1) == y).float().mean())
                worker.submit(loss)
        else:
            for x, y in worker.batches(Digits(), num_workers=1 if "forks" in sys.argv else 0):
                if "late" in sys.argv:
                    for half in (x[:16], y[:16]), (x[16:], y[16:]):
                        (F.cross_entropy(net(half[0]), half[1]) / 2).backward()
                    worker.report(grad_norm=sum(p.grad.square().sum() for p in net.parameters()) ** 0.5)
                    worker.step()
                else:
                    worker.zero_grad()
                    out = net(x)
                    worker.report(accuracy=(out.argmax(1) == y).float().mean())
                    F.cross_entropy(out, y).backward()
                    try:
                        worker.report(accuracy=0)
                        sys.exit("reported when gradients were on their way")
                    except RuntimeError as e:
                        assert "before backward" in str(e), e
                    worker.step()
    for call in worker.report, worker.step:
        try:
            call()
        except psgd.WorkerError as e:
            assert str(e) == 'the worker for "digits" has left', e
        else:
            sys.exit("called when it had left")
    torch.save(net.state_dict(), sys.argv[2])
"""
# A script that prints what it has seen.
CURVE = """
import hashlib, json, sys
import digits, psgd.torch, torch, torch.nn.functional as F
class Numbers(digits.Digits):
    def __getitem__(self, i): return (*super().__getitem__(i), i)
said = {"sums": [], "losses": [], "samples": []}
def add(net):
    said["sums"].append(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.parameters())).hexdigest())
net = digits.network()
with psgd.torch.join(net, "digits", coordinator=sys.argv[1], timeout=120) as optimizer:
    for x, y, i in optimizer.batches(Numbers()):
        add(net)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        said["losses"].append(float(loss)); said["samples"].append(i.tolist())
    add(net)
print(json.dumps(said))
"""
# A PyTorch worker of psgd's own network mlp, in a job that native workers serve too.
MIXED = """
import sys, time
import psgd.torch, torch, torch.nn.functional as F
sys.path.insert(0, sys.argv[4])
from mnist import mnist
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense0, self.dense2, self.dense4 = torch.nn.Linear(784, 128), torch.nn.Linear(128, 128), torch.nn.Linear(128, 10)
    def forward(self, x):
        return self.dense4(torch.relu(self.dense2(torch.relu(self.dense0(x.flatten(1))))))
torch.set_num_threads(1)
with psgd.torch.join(Net(), "both", coordinator=sys.argv[1], timeout=120) as worker:
    for x, y in worker.batches(mnist(sys.argv[3], "train")):
        out = worker.net(x)
        worker.report(accuracy=(out.argmax(1) == y).float().mean(), clock=worker.now.clock)
        worker.backward(F.cross_entropy(out, y))
        print(worker.now.clock, worker.now.rank, flush=True)
        time.sleep(float(sys.argv[2]))
"""
SAYS = {"program_metrics": ["bias", "accuracy", "rare"]}  # of regression.py with "+says"
LINE = {"title": "line", "workers": 2, "block_size": 16, "epochs": 2, "data": {"params": {"samples": 32 * 60}},
        "model": {"foreign": [{"name": "w", "shape": [WIDTH], "uniform": 0.1}, {"name": "b", "shape": [1]}]},
        "optimizer": {"rule": {"name": "sgd", "params": {"lr": 0.05}}}}


class OwnLoop(harness.ClusterTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name, text in (("regression.py", REGRESSION), ("digits.py", TORCH), ("curve.py", CURVE), ("mixed.py", MIXED)):
            (pathlib.Path(self.folder.name) / name).write_text(text)
        self.programs = []
        self.addCleanup(self.end_programs)

    def end_programs(self):
        for p in self.programs:
            p.kill()
            p.communicate()

    def program(self, cluster, *arguments, name="regression.py"):
        """Starts a program, as a user does, and returns it."""
        env = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python"), "PSGD_WORKER": os.path.join(harness.BIN, "psgd-worker"),
               "XDG_STATE_HOME": self.folder.name}
        self.programs.append(subprocess.Popen(
            [sys.executable, "-W", "error::UserWarning", os.path.join(self.folder.name, name), cluster.coordinator.address, *map(str, arguments)],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return self.programs[-1]

    def weights(self, cluster, job):
        """The variables of the model that the servers leave."""
        files = cluster.files(job.id)
        model = next(name for name in files if name.startswith("MODEL") and name.endswith("(ps).safetensors"))
        path = pathlib.Path(self.folder.name) / "model.safetensors"
        path.write_bytes(files[model])
        return psgd.safetensors.load(path), hashlib.sha256(files[model][-4 * (WIDTH + 1):]).hexdigest()

    def columns(self, cluster, job, rank, *names):
        """Columns of a rank's TR file, a list of floats each."""
        rows = list(csv.DictReader(cluster.files(job.id)[f"TR-{job.spec.title}-N({rank}).csv"].decode().splitlines()))
        return [[float(row[name]) for row in rows] for name in names]

    def check_reported(self, cluster, job, rank):
        """Checks what regression.py reports at each step, and returns it."""
        step, bias, accuracy, rare = self.columns(cluster, job, rank, "step", "bias", "accuracy", "rare")
        self.assertEqual(step, list(range(1, 121)))
        self.assertTrue(np.isfinite(bias).all(), bias)
        self.assertEqual(accuracy, [clock / 1000 for clock in range(120)])
        self.assertEqual([i for i, value in enumerate(rare) if not np.isnan(value)], [i for i in range(120) if i % 10 == rank])
        self.assertEqual([value for value in rare if not np.isnan(value)], list(range(rank, 120, 10)))
        return bias

    def command(self, cluster, *arguments):
        return [os.path.join(harness.BIN, "psgd"), *arguments, "--coordinator", cluster.coordinator.address]

    def check_scraped(self, cluster, job):
        """Checks that the coordinator's /metrics have what programs report while the job trains."""
        at = re.search(r"http://\S+", cluster.coordinator.process.stdout.readline().decode()).group()
        found = {}

        def scrape():
            for program in self.programs:
                self.assertFalse(program.poll() and program.stderr.read())
            with urllib.request.urlopen(at, timeout=20) as answer:
                text = answer.read().decode()
            found.update(re.findall(rf'^psgd_job_program_metric{{job_id="{job.id}",name="(\w+)"}} (\S+)$', text, re.M))
            return len(found) == 2 and float(found["rare"]) > 0  # the first program reports 0 first
        cluster.poll("/metrics have bias and rare", scrape, 60)
        self.assertTrue(float(found["rare"]) <= 110.5 and np.isfinite(float(found["bias"])), found)

    def check_shown(self, cluster, job, watched):
        """Checks that people see what programs have reported: in the line of progress, those of workers, and at the end."""
        number = r"(\d|-?\d\.\d{4}|-?\S+e-\S+)"
        self.assertRegex(watched, rf"(?m)^\[.* step \d+/120  loss \S+  acc 0\.\d+  bias {number}  rare [\d.]+  ")
        for rank in 0, 1:
            self.assertRegex(watched, rf"(?m)^  worker {rank} \S+  step \d+  loss \S+  acc 0\.\d+  bias {number}  (rare \d+.*  )?waited")
        said = {name: job.progress.program_metrics[name] for name in ("bias", "rare")}
        line = f"trained   loss {job.progress.loss:.3g}  accuracy 0.1190  bias {said['bias']:.4f}  rare {said['rare']:.4f}"
        got, listed = (subprocess.run(self.command(cluster, *what), capture_output=True, text=True, check=True).stdout
                       for what in (("get", job.id), ("list",)))
        for text in got, watched:
            self.assertRegex(text, rf"(?m)^{re.escape(line)}$")
        self.assertIn(line.removeprefix("trained   "), listed)

    def run_line(self, cluster, *tricks, pause=0, **fields):
        programs = [self.program(cluster, pause, *([trick] if trick else [])) for trick in tricks]
        job = cluster.submit({**LINE, "workers": len(tricks), **fields})
        return cluster.wait(job.id), programs

    def test_two_programs_train_as_one_would_on_the_joint_batch(self):
        cluster = self.cluster(workers=1, pservers=2, coordinator_args=["--ops", "127.0.0.1:0"])
        stub = mlflow_stub.Stub()
        self.addCleanup(stub.close)
        job = cluster.submit({**LINE, "workers": 2, **SAYS, "tracker": [stub.url]})
        watch = subprocess.Popen(self.command(cluster, "watch", "--workers", job.id), stdout=subprocess.PIPE, text=True)
        programs = [self.program(cluster, 0.02, trick) for trick in ("fork+says+wrong", "+says")]
        self.check_scraped(cluster, job)
        job = cluster.wait(job.id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.check_shown(cluster, job, watch.communicate(timeout=30)[0])
        self.assertEqual([p.wait(30) for p in programs], [0, 0], [p.stderr.read() for p in programs])
        with self.assertRaises(grpc.RpcError) as refused:  # programs that have left in order are not missed
            cluster.submit(LINE, no_queue=True)
        self.assertIn("needs 2 workers whose programs have joined for line, 0 idle of 0 known", refused.exception.details())
        left, _ = self.weights(cluster, job)
        self.assertEqual({name: np.asarray(v).shape for name, v in left.items()}, {"w": (WIDTH,), "b": (1,)})
        self.assertLess(np.abs(np.asarray(left["w"]) - np.arange(WIDTH)).max(), 0.05)
        # the reports have the loss of each step: that of a plain loop over both batches from the same first weights
        files = cluster.files(job.id)
        losses = [self.columns(cluster, job, rank, "loss")[0] for rank in (0, 1)]
        biases = [self.check_reported(cluster, job, rank) for rank in (0, 1)]
        self.assertEqual(dict(job.progress.program_metrics), {"bias": np.float32(biases[0][-1]), "rare": (110 + 111) / 2})
        self.assertAlmostEqual(job.progress.accuracy, 0.119)
        cluster.poll("the tracker has all", lambda: stub.status(job.id) == "FINISHED", 30)
        self.assertEqual((stub.points(job.id, "train/rare")[-1], stub.faults), ((120, 110.5), []))
        for rank in (0, 1):
            path = pathlib.Path(self.folder.name) / "events"
            path.write_bytes(files[f"TB-line-N({rank})/events.out.tfevents.psgd"])
            points = [p for p in read_events.read(path) if p[2].startswith("train/")]
            self.assertEqual([p[1] for p in points if p[2] == "train/rare"], list(range(rank + 1, 121, 10)))
            self.assertEqual([len([p for p in points if p[2] == f"train/{name}"]) for name in ("loss", "bias", "accuracy")], 3 * [120])
        sys.path.insert(0, self.folder.name)
        import regression

        w, b = self.first(cluster, job)
        for clock in range(50):
            grads = []
            for rank in (0, 1):
                x, y = regression.samples(clock, rank, 16)
                error = x @ w + b - y
                self.assertAlmostEqual(biases[rank][clock], float(b[0]), delta=1e-5)
                self.assertAlmostEqual(losses[rank][clock], float((error * error).mean() / 2), delta=1e-5 * max(1, losses[rank][clock]))
                grads.append((x.T @ error / 16, error.mean()))
            w = w - np.float32(0.05) * (grads[0][0] + grads[1][0]) / 2
            b = b - np.float32(0.05) * (grads[0][1] + grads[1][1]) / 2

    def first(self, cluster, job):
        """First weights: those of a job that has one step with a rate of almost nothing."""
        job, _ = self.run_line(cluster, "", "", max_steps=1, epochs=1,
                               optimizer={"rule": {"name": "sgd", "params": {"lr": 1e-30}}})
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        left, _ = self.weights(cluster, job)
        return np.array(left["w"], np.float32), np.array(left["b"], np.float32)

    def test_the_example_in_c_and_a_program_in_python_train_together(self):
        cluster = self.cluster(workers=0, pservers=1)
        built, library = os.path.join(self.folder.name, "own_loop"), os.environ["PSGD_LIBRARY"]
        subprocess.run(["cc", "-o", built, "-I", ROOT / "clients/lib", ROOT / "clients/examples/c/own_loop.c", library,
                        f"-Wl,-rpath,{os.path.dirname(library)}"], check=True)
        env = {**os.environ, "PSGD_WORKER": os.path.join(harness.BIN, "psgd-worker"), "XDG_STATE_HOME": self.folder.name}
        self.programs.append(subprocess.Popen([built, "line", f"--coordinator={cluster.coordinator.address}"], env=env,
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        job, programs = self.run_line(cluster, "", workers=2)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertIn("is done; the last loss was", self.programs[0].communicate(timeout=30)[0])
        self.assertLess(np.abs(np.array(self.weights(cluster, job)[0]["w"]) - np.arange(WIDTH)).max(), 0.2)

    def test_methods_with_local_steps_and_norms_of_all_gradients(self):
        cluster = self.cluster(workers=0, pservers=2)
        sgd = {"name": "sgd", "params": {"lr": 0.05}}
        for fields in ({"preset": "dgc", "optimizer": {"rule": sgd}}, {"preset": "diloco"}, {"preset": "localsgd"}, {"preset": "geo"},
                       {"preset": "asp", "optimizer": {"rule": sgd}}, {"preset": "losp"}):
            with self.subTest(**fields):
                spec = {**LINE, "workers": 2, "epochs": 20, **fields}
                spec.pop("optimizer") if "optimizer" not in fields else None
                programs = [self.program(cluster, 0), self.program(cluster, 0)]
                job = cluster.wait(cluster.submit(spec).id)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
                self.assertEqual([p.wait(30) for p in programs], [0, 0])
                files = cluster.files(job.id)
                rows = files["TR-line-N(0).csv"].decode().splitlines()[1:]
                self.assertLess(float(rows[-1].split(",")[4]), float(rows[0].split(",")[4]) / 5, rows[::100])

    def test_one_process_may_have_several_ranks(self):
        cluster = self.cluster(workers=0, pservers=1)
        undisturbed, _ = self.run_line(cluster, "", "")
        job, _ = self.run_line(cluster, "", workers=2, worker_processes=1)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertEqual(self.weights(cluster, job)[1], self.weights(cluster, undisturbed)[1])

    def test_a_program_that_is_killed_is_a_lost_worker(self):
        cluster = self.cluster(workers=0, pservers=2)
        undisturbed, _ = self.run_line(cluster, "+says", "+says", **SAYS)
        expected = self.weights(cluster, undisturbed)[1]
        programs = [self.program(cluster, 0.02, "+says") for _ in range(3)]  # one of them is a spare
        job = cluster.submit({**LINE, **SAYS})
        said = {program: "" for program in programs}
        for program in programs:
            os.set_blocking(program.stdout.fileno(), False)

        def trained():
            for program in programs:
                said[program] += (os.read(program.stdout.fileno(), 1 << 16) if select.select([program.stdout], [], [], 0)[0] else b"").decode()
                if "\n10\n" in said[program]:
                    return program

        victim = cluster.poll("a program is at step 10", trained, 60)
        os.kill(victim.pid, signal.SIGKILL)
        job = cluster.wait(job.id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertEqual(self.weights(cluster, job)[1], expected)
        self.assertGreaterEqual(len(job.recoveries), 1)
        for rank in (0, 1):  # what the killed program had reported is there, too
            self.assertEqual(self.check_reported(cluster, job, rank), self.check_reported(cluster, undisturbed, rank))

    def test_programs_whose_ranks_have_state_go_on_when_a_server_is_lost(self):
        """Residuals, and local steps: no program computes a step twice."""
        cluster = self.cluster(workers=0, pservers=3)
        residuals = {"codec": {"up": {"name": "topk", "params": {"fraction": 0.5, "error_feedback": 1}}}}
        for fields in (residuals, {**residuals, "recovery": {"replicas": 2}}, {"preset": "diloco", "optimizer": {}}):
            with self.subTest(**fields):
                job, _ = self.run_line(cluster, "", "", **fields)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
                expected = self.weights(cluster, job)[1]
                programs = [self.program(cluster, 0.05) for _ in range(2)]
                job = cluster.submit({**LINE, **fields, "pservers": 2})
                before = cluster.wait(job.id, lambda j: j.progress.step >= 10)
                victim = next(p for p in cluster.pservers if p.name in {at.node_id for at in before.placements})
                victim.kill()
                job = cluster.wait(job.id)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
                self.assertEqual(self.weights(cluster, job)[1], expected)
                self.assertEqual([r.from_step for r in job.recoveries], [r.step for r in job.recoveries])
                self.assertGreaterEqual(job.recoveries[0].step, 10)
                for program in programs:
                    steps = program.communicate(timeout=60)[0].split()[1:]
                    self.assertGreater(len(steps), 10)
                    self.assertEqual(steps, [str(i) for i in range(len(steps))])
                victim.start()
                cluster.wait_nodes(3)

    def test_a_server_is_lost_when_programs_have_all_steps(self):
        """The files of both programs are collected then; they are told that the job is done after the step that is repeated."""
        cluster = self.cluster(workers=0, pservers=2)
        undisturbed, _ = self.run_line(cluster, "", "")
        programs = [self.program(cluster, 0), self.program(cluster, 0, "+stops")]
        job = cluster.submit(LINE)
        victim = cluster.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
        victim = next(p for p in cluster.pservers if p.name in {at.node_id for at in victim.placements})
        frozen = lambda: [pid for pid in self.children(programs[1].pid) if self.stat(pid)[0] == "T"]
        (last,) = cluster.poll("one is frozen before it tells that it has finished", frozen, 60)
        finished = lambda: {n.id for n in cluster.node_list() if n.job_id == job.id and n.phase == coordinator_pb2.NODE_PHASE_FINISHED}
        cluster.poll("the others have told it", lambda: len(finished()) == 2)
        victim.freeze()
        os.kill(last, signal.SIGCONT)
        folder = cluster.coordinator.data_dir / "jobs" / job.id
        cluster.poll("files of both are collected", lambda: len(list(folder.glob("EV-line-N(?).csv"))) == 2)
        victim.kill()
        (last,) = cluster.poll("it is frozen again, after the step that is repeated", frozen, 60)
        os.kill(last, signal.SIGCONT)
        job = cluster.wait(job.id)
        self.assertEqual((job.state, job.restarts), (job_pb2.JOB_STATE_DONE, 1), job.message)
        self.assertEqual([p.wait(60) for p in programs], [0, 0], [p.stderr.read() for p in programs])
        self.assertEqual(self.weights(cluster, job)[1], self.weights(cluster, undisturbed)[1])

    @staticmethod
    def stat(pid):
        """State, parent and more of a process."""
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()

    @staticmethod
    def children(pid):
        return [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]

    def test_a_program_that_is_frozen_is_a_lost_worker(self):
        cluster = self.cluster(workers=0, pservers=1)
        undisturbed, _ = self.run_line(cluster, "", "")
        expected = self.weights(cluster, undisturbed)[1]
        for spare in (1, 0):
            with self.subTest(spare=spare):
                programs = [self.program(cluster, 0.02) for _ in range(2 + spare)]
                job = cluster.submit({**LINE, "timeouts": {"step_ms": 2000}})
                cluster.poll("step 20", lambda: cluster.get(job.id).progress.step >= 20, 60)
                victim = self.first_program(cluster, job)
                os.kill(victim, signal.SIGSTOP)
                job = cluster.wait(job.id, seconds=90)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
                self.assertEqual(self.weights(cluster, job)[1], expected)
                self.assertEqual(len(job.recoveries), 1)
                self.assertLessEqual(job.recoveries[0].step - job.recoveries[0].from_step, 1)
                os.kill(victim, signal.SIGCONT)
                frozen = next(p for p in programs if p.pid == victim)
                self.assertEqual(frozen.wait(30), 1)
                self.assertIn("psgd-worker has ended", frozen.stderr.read())
                self.end_programs()

    def first_program(self, cluster, job):
        """The process of a program that trains."""
        return int(self.parent(next(n for n in cluster.node_list() if n.loop and n.job_id == job.id)))

    def test_a_program_that_exits_or_leaves_hands_its_rank_over(self):
        cluster = self.cluster(workers=0, pservers=1)
        undisturbed, _ = self.run_line(cluster, "", "")
        expected = self.weights(cluster, undisturbed)[1]
        for trick, code in (("exit", 3), ("leave", 0)):
            with self.subTest(trick=trick):
                job, programs = self.run_line(cluster, trick, "", pause=0.01)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
                self.assertEqual([p.wait(30) for p in programs], [code, 0], [p.stderr.read() for p in programs])
                self.assertEqual(self.weights(cluster, job)[1], expected)

    def test_what_is_not_finite_ends_the_job_and_names_it(self):
        cluster = self.cluster(workers=0, pservers=1)
        for trick, text in (("nan", "step 6: the loss is not finite"), ("inf", "not finite")):
            with self.subTest(trick=trick):
                job, programs = self.run_line(cluster, trick, "")
                self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)
                self.assertIn(text, job.message)
                self.end_programs()

    def test_a_program_that_reports_what_it_may_not_ends_the_job(self):
        cluster = self.cluster(workers=0, pservers=1)
        for lie, text in (("3+1", "step 6: the program has reported what is none of the job's program_metrics"),
                          ("0+nan", "step 6: the program has reported a metric that is not finite"),
                          ("0+0", "step 6: the program has reported a metric when variables were ready")):
            with self.subTest(lie=lie):
                job, programs = self.run_line(cluster, f"lies+{lie}", **SAYS)
                self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)
                self.assertIn(text, job.message)
                self.assertEqual(programs[0].wait(30), 0)  # it has left in order, and the job's server is free at once
        job, programs = self.run_line(cluster, "+says", max_steps=1, recovery={"on_worker_loss": "LOSS_ACTION_FAIL"})
        self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)  # its program has ended by an error
        self.assertIn("the job's program_metrics have no \"bias\"; they are: none", programs[0].communicate(timeout=30)[1])

    def test_a_program_that_computes_for_ever_is_named(self):
        cluster = self.cluster(workers=0, pservers=1)
        for trick in "never", "chatty":  # silent, or reporting again and again
            with self.subTest(trick=trick):
                job, _ = self.run_line(cluster, trick, **SAYS, timeouts={"step_ms": 3000}, recovery={"max_restarts": 1, "on_worker_loss": "LOSS_ACTION_FAIL"})
                self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)
                self.assertIn("step 6: the program has computed for 2700 ms, with 2 of 2 variables not ready", job.message)
                self.assertNotIn("pserver", job.message)
                self.end_programs()

    def test_native_workers_and_programs_are_kept_apart(self):
        cluster = self.cluster(workers=1, pservers=1)
        with self.assertRaises(grpc.RpcError) as refused:
            cluster.submit(LINE, no_queue=True, workers=1)
            job = cluster.wait(cluster.submit(LINE, no_queue=True, workers=1).id)
            raise AssertionError(job)
        self.assertIn("whose programs have joined for line", refused.exception.details())

    def test_what_a_foreign_model_cannot_have_is_refused(self):
        cluster = self.cluster(workers=0, pservers=1)
        model = LINE["model"]
        for fields, text in (
                ({"model": {**model, "preset": "mlp"}}, "spec.model.foreign"), ({"metrics": [{"name": "mse"}]}, "spec.metrics"),
                ({"data": {"name": "glyphs"}}, "spec.data.name"), ({"eval_every_steps": 3}, "spec.eval_every_steps"),
                ({"exchange": {"name": "ring"}}, "spec.exchange"),
                ({"model": {"foreign": [{"name": "a b", "shape": [1]}]}}, "spec.model.foreign[0].name"),
                ({"model": {"foreign": [{"name": "a"}]}}, "spec.model.foreign[0].shape"),
                ({"model": {"foreign": [{"name": "a", "shape": [0]}]}}, "spec.model.foreign[0].shape"),
                ({"model": {"foreign": [{"name": "a", "shape": [1 << 30]}, {"name": "b", "shape": [2]}]}}, "spec.model"),
                ({"model": {"foreign": 2 * [{"name": "a", "shape": [1]}]}}, "two variables"),
                ({"model": {"foreign": [{"name": "a", "shape": [1], "normal": 1, "uniform": 1}]}}, "more than one of"),
                ({"model": {"foreign": [{"name": "a", "shape": [1], "uniform": -1}]}}, "spec.model.foreign[0].uniform")):
            with self.subTest(fields=fields), self.assertRaises(grpc.RpcError) as refused:
                cluster.submit({**LINE, **fields})
            self.assertIn(text, refused.exception.details())

    def test_a_job_file_of_a_foreign_model_is_not_for_psgd_train(self):
        path = pathlib.Path(self.folder.name) / "job.json"
        path.write_text(json.dumps(LINE))
        said = subprocess.run([os.path.join(harness.BIN, "psgd"), "train", path], capture_output=True, text=True)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("psgd submit takes the job", said.stderr)

    def run_mixed(self, cluster, pause, victim=None, programs=1, **fields):
        """Runs a job of native workers and PyTorch ones; kills one of them at step 30. Returns the job and its variables."""
        examples = ROOT / "clients/examples/pytorch"
        started = [self.program(cluster, pause, os.path.join(harness.data_path(), "mnist"), examples, name="mixed.py")
                   for _ in range(programs)]
        job = cluster.submit({"title": "both", "workers": 2, "programs": 1, "block_size": 32, "epochs": 1, "max_steps": 120,
                              "eval_every_steps": 60, "model": {"preset": "mlp"}, "data": {"name": "mnist"}, "program_metrics": ["accuracy", "clock"],
                              "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.002}}}, **fields})
        if victim is not None:
            cluster.poll("step 30", lambda: cluster.get(job.id).progress.step >= 30, 60)
            if victim == "program":
                node = next(n for n in cluster.node_list() if n.loop and n.job_id == job.id)
                os.kill(next(p.pid for p in started if str(p.pid) == self.parent(node)), signal.SIGKILL)
            else:
                node = next(n for n in cluster.node_list() if not n.loop and n.job_id == job.id and n.role == job_pb2.NODE_ROLE_WORKER)
                next(p for p in cluster.workers if p.address == node.address).kill()
        job = cluster.wait(job.id, seconds=120)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        files = cluster.files(job.id)
        path = pathlib.Path(self.folder.name) / "both.safetensors"
        path.write_bytes(files[next(name for name in files if name.startswith("MODEL") and name.endswith("(ps).safetensors"))])
        for p in started:
            p.kill()
        return job, {name: bytes(memoryview(v)) for name, v in psgd.safetensors.load(path).items()}

    @staticmethod
    def parent(node):
        """The process that has started the worker of a node, which its port finds."""
        port = node.address.rsplit(":", 1)[1]
        said = subprocess.run(["ss", "-Hltnp", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
        pid = said.split("pid=")[1].split(",")[0]
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]

    @unittest.skipUnless(torch, "no python3-torch")
    def test_a_native_worker_and_a_pytorch_one_serve_a_job(self):
        self.need_mnist()
        cluster = self.cluster(workers=2, pservers=2, data=harness.data_path())
        job, undisturbed = self.run_mixed(cluster, 0.02)
        for rank, said in ((0, False), (1, True)):
            accuracy, clock = self.columns(cluster, job, rank, "accuracy", "clock")
            self.assertGreater(np.mean(accuracy[-20:]), 0.8)
            np.testing.assert_array_equal(clock, list(range(120)) if said else 120 * [np.nan])
        self.assertEqual(dict(job.progress.program_metrics), {"clock": 119})
        evaluations = list(csv.DictReader(cluster.files(job.id)["EV-both-N(1).csv"].decode().splitlines()))
        self.assertGreater(float(evaluations[-1]["accuracy"]), 0.8)  # the program's worker evaluates as the others
        with self.assertRaises(grpc.RpcError) as refused:
            cluster.submit({"workers": 2, "programs": 1, "model": {"preset": "resnet"}, "data": {"name": "cifar10"}})
        self.assertIn("spec.programs: is 1, and the model has the state stem_norm.running_mean", refused.exception.details())
        self.assertEqual(len(job.recoveries), 0)
        for victim, programs in (("program", 2), ("native", 1)):
            with self.subTest(victim=victim):
                job, left = self.run_mixed(cluster, 0.02, victim, programs)
                self.assertEqual(len(job.recoveries), 1)
                self.assertLessEqual(job.recoveries[0].step - job.recoveries[0].from_step, 1)
                self.assertEqual(left, undisturbed)
                self.assertEqual(self.columns(cluster, job, 1, "step", "clock"), [list(range(1, 121)), list(range(120))])

    def test_programs_are_not_for_every_job(self):
        cluster = self.cluster(workers=1, pservers=1)
        fine = {"title": "both", "workers": 2, "programs": 1, "model": {"preset": "mlp"}}
        for fields, text in (({"programs": 2}, "spec.programs: is 2; 0 to 1 (workers - 1) are allowed"),
                             ({"workers_min": 1}, "spec.programs: is 1; a job with nodes, workers_min"),
                             ({"worker_processes": 1}, "spec.worker_processes: is 1; with programs at least 2"),
                             ({"exchange": {"name": "ring"}}, "spec.exchange"),
                             ({"model": LINE["model"], "data": LINE["data"]}, "spec.programs: is 1; with model.foreign only 2")):
            with self.subTest(fields=fields), self.assertRaises(grpc.RpcError) as refused:
                cluster.submit({**fine, **fields})
            self.assertIn(text, refused.exception.details())
        with self.assertRaises(grpc.RpcError) as refused:
            cluster.submit({**fine, "workers": 3}, no_queue=True)
        self.assertIn("needs 2 workers, 1 idle of 1 known; needs 1 worker whose programs have joined for both, 0 idle of 0 known",
                      refused.exception.details())

    @unittest.skipUnless(torch, "no python3-torch")
    def test_pytorch_workers_train_as_plain_pytorch_on_the_joint_batch(self):
        cluster = self.cluster(workers=0, pservers=2, data=self.folder.name)
        sys.path.insert(0, self.folder.name)
        import digits
        from torch.nn import functional

        import psgd.torch as psgd_torch

        net = digits.network()
        first = pathlib.Path(self.folder.name) / "first.safetensors"
        psgd.safetensors.save(first, {name: p.detach() for name, p in net.named_parameters()})
        programs = [self.program(cluster, os.path.join(self.folder.name, "saved"), name="curve.py") for _ in range(2)]
        job = cluster.wait(cluster.submit({
            "title": "digits", "workers": 2, "block_size": 16, "epochs": 10, "max_steps": 50, "data": {"params": {"samples": 2048}},
            "model": {"foreign": psgd.foreign(first)}, "init_from": "first.safetensors",
            "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.003}}}}).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        said = [json.loads(p.communicate(timeout=60)[0]) for p in programs]
        self.assertEqual([len(one["sums"]) for one in said], [51, 51])
        self.assertEqual(said[0]["sums"], said[1]["sums"])  # SHA-256 of the weights of each step, and of the end
        optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
        data = digits.Digits()
        for step in range(50):
            indices = said[0]["samples"][step] + said[1]["samples"][step]
            self.assertEqual(len(set(indices)), 32)
            loss = functional.cross_entropy(net(data.x[indices]), data.y[indices])
            self.assertAlmostEqual((said[0]["losses"][step] + said[1]["losses"][step]) / 2, float(loss), delta=1e-5)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    @unittest.skipUnless(torch, "no python3-torch")
    def test_the_examples_join_with_three_changed_lines(self):
        self.need_mnist()
        examples, data = ROOT / "clients/examples/pytorch", pathlib.Path(harness.data_path())
        sys.path.insert(0, str(examples))
        import char_transformer
        import mnist

        import psgd.torch as psgd_torch

        text = pathlib.Path(self.folder.name) / "text"
        text.write_text((data / "text/tinyshakespeare.txt").read_text()[:80000])
        few = pathlib.Path(self.folder.name) / "few"  # as evaluations take long
        few.mkdir()
        for name, head, size, count in (("train-images", 16, 784, 3200), ("train-labels", 8, 1, 3200), ("t10k-images", 16, 784, 1000),
                                        ("t10k-labels", 8, 1, 1000)):
            with gzip.open(next((data / "mnist").glob(f"{name}*"))) as file:
                (few / f"{name}-idx").write_bytes(file.read(head + size * count))
        cluster = self.cluster(workers=0, pservers=1)
        for name, title, where, net, block in (("mnist", "mnist", few, mnist.Net(), 64),
                                               ("char_transformer", "text", text, None, 12)):
            with self.subTest(name=name):
                plain, ours = ((examples / f"{name}{end}.py").read_text().splitlines() for end in ("", "_psgd"))
                changed = [line for line in difflib.ndiff(plain, ours) if line.startswith("+")]
                self.assertLessEqual(len(changed), 3, changed)
                net = net or char_transformer.Net(len(char_transformer.Text(text).symbols))
                env = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python"), "PSGD_WORKER": os.path.join(harness.BIN, "psgd-worker"),
                       "PSGD_COORDINATOR": cluster.coordinator.address, "OMP_NUM_THREADS": "1"}
                programs = [subprocess.Popen([sys.executable, "-W", "ignore", examples / f"{name}_psgd.py", where], env=env, text=True,
                                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
                self.programs += programs
                job = cluster.wait(cluster.submit({
                    "title": title, "workers": 2, "block_size": block, "epochs": 2 if name == "mnist" else 1, "data": {"params": {"samples": 40 * block}},
                    "model": {"foreign": psgd_torch.foreign(net)}, "codec": {"up": {"name": "int8"}},
                    "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.002}}}}).id, seconds=300)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
                said = [p.communicate(timeout=60) for p in programs]
                self.assertEqual([p.returncode for p in programs], [0, 0], said)
                figures = [float(re.search(r"\d\.\d{4}", line).group()) for line in said[0][0].splitlines()]
                if name == "mnist":
                    self.assertGreater(figures[1], 0.85)
                    self.assertEqual(said[0][0], said[1][0])  # both evaluate the same weights
                else:
                    self.assertLess(figures[-1], 3.4)  # at the beginning 4.2

    @unittest.skipUnless(torch, "no python3-torch")
    def test_a_pytorch_script_with_three_changed_lines(self):
        cluster = self.cluster(workers=0, pservers=2)
        sys.path.insert(0, self.folder.name)
        import digits

        import psgd.torch as psgd_torch

        spec = {"title": "digits", "workers": 2, "block_size": 32, "epochs": 6, "data": {"params": {"samples": 2048}},
                "program_metrics": ["accuracy", "grad_norm"],
                "model": {"foreign": psgd_torch.foreign(digits.network())}, "codec": {"up": {"name": "int8"}},
                "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.003}}}}
        left = {}
        for trick, fields in (("", {}), ("forks", {}), ("late", {}),
                              ("rounds", {"epochs": 1, "max_steps": 4, "optimizer": {"rule": {"name": "sgd", "params": {"lr": 1}}}})):
            with self.subTest(trick=trick):
                saved = [os.path.join(self.folder.name, f"saved{i}") for i in (0, 1)]
                programs = [self.program(cluster, path, trick, name="digits.py") for path in saved]
                job = cluster.wait(cluster.submit({**spec, **fields}).id)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
                self.assertEqual([p.wait(30) for p in programs], [0, 0], [p.stderr.read() for p in programs])
                files = cluster.files(job.id)
                accuracy, norm = self.columns(cluster, job, 1, "accuracy", "grad_norm")
                self.assertEqual((np.isfinite(accuracy).all(), np.isfinite(norm).all()), (trick != "late", trick == "late"))
                self.assertTrue(accuracy[-1] > 0.8 if trick != "late" else 0 < norm[-1] < norm[0], (accuracy, norm))
                path = pathlib.Path(self.folder.name) / "digits.safetensors"
                path.write_bytes(files[next(name for name in files if name.endswith("(ps).safetensors"))])
                net = digits.network()
                net.load_state_dict(psgd.safetensors.load_torch(path), strict=True)
                data = digits.Digits()
                with torch.no_grad():
                    right = float((net(data.x).argmax(1) == data.y).float().mean())
                self.assertGreater(right, 0.95)
                for one in saved:  # each script's network ends with the job's model
                    for name, value in torch.load(one).items():
                        self.assertTrue(torch.equal(value, net.state_dict()[name]), name)
                left[trick] = net.state_dict()
        for name, value in left[""].items():
            self.assertTrue(torch.equal(value, left["forks"][name]))


if __name__ == "__main__":
    harness.main()
