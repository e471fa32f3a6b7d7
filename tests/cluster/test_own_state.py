# SPDX-License-Identifier: Apache-2.0
"""What programs that compute a model keep in the job's checkpoints: it comes back after a loss, in other processes and jobs."""
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

import test_own_loop

import grpc  # noqa: E402
import harness  # noqa: E402

import psgd  # noqa: E402
from psgd.v1 import job_pb2  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

# Linear regression whose samples follow from random numbers that the program keeps, and from nothing else.
WANDERER = """
import json, sys, time
import numpy as np, psgd
with psgd.join("line", coordinator=sys.argv[1]) as worker:
    for step in worker.steps(timeout=60):
        draw = np.random.default_rng(step.rank)
        if "draws" in step.state:
            draw.bit_generator.state = json.loads(step.state["draws"])
        w, b = (np.asarray(v.weights) for v in step.variables)
        x = draw.normal(size=(step.block_size, 8)).astype(np.float32)
        error = x @ w + b - (x @ np.arange(8, dtype=np.float32) + 3)
        step.loss(float((error * error).mean() / 2))
        np.asarray(step.variables[0].gradient)[:] = x.T @ error / len(error)
        np.asarray(step.variables[1].gradient)[:] = error.mean()
        step.state["draws"] = json.dumps(draw.bit_generator.state).encode()
        step.ready()
        print(step.clock, flush=True)
        time.sleep(float(sys.argv[2]))
"""
# What the functions say that are called wrongly.
WRONG = """
import sys, psgd
said = []
def refused(what):
    try:
        what()
    except (psgd.WorkerError, KeyError) as error:
        said.append(str(error))
with psgd.join("line", coordinator=sys.argv[1]) as worker:
    for step in worker.steps(timeout=60):
        if step.clock == 0:
            refused(lambda: step.state["none"])
            refused(lambda: step.state.__setitem__("a b", b""))
            refused(lambda: step.state.__setitem__("much", bytes(1 << 20)))
            if step.state.room:
                step.state["all"] = bytes(step.state.room - 20)
                step.state["all"] = b"x" * (step.state.room - 20)
                refused(lambda: step.state.__setitem__("more", b""))
                del step.state["all"]
                refused(lambda: step.state.__delitem__("all"))
                for i in range(256):
                    step.state[str(i)] = i.to_bytes(2, "little")
                refused(lambda: step.state.__setitem__("256", b""))
                step.state["7"] = b""
                assert step.state["7"] == b"" and step.state["255"] == b"\\xff\\x00" and len(step.state) == 256
        step.loss(0)
        step.ready()
        if step.clock == 0:
            refused(lambda: step.state.__setitem__("late", b""))
print("\\n".join(said))
"""
# Dropout, batch norm, and, in rounds, an optimizer of the program's own.
DROPS = """
import hashlib, sys, time
import psgd.torch, torch, torch.nn.functional as F
import digits
torch.set_num_threads(1)
torch.manual_seed(3)
net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.BatchNorm1d(32), torch.nn.Dropout(0.3), torch.nn.Linear(32, 10))
data = digits.Digits()
with psgd.torch.join(net, "drops", coordinator=sys.argv[1]) as worker:
    if sys.argv[3] == "rounds":
        own = torch.optim.AdamW(net.parameters(), lr=0.003)
        falls = torch.optim.lr_scheduler.ExponentialLR(own, 0.99)
        worker.keep(own=own, falls=falls)
        for round in worker.rounds():
            for _ in range(2):
                i = torch.randint(len(data), (16,))
                loss = F.cross_entropy(net(data.x[i]), data.y[i])
                own.zero_grad(); loss.backward(); own.step()
            falls.step()
            worker.submit(loss)
            print(round.clock, flush=True)
            time.sleep(float(sys.argv[2]))
    else:
        for x, y in worker.batches(data):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            worker.step()
            print(worker.now.clock, flush=True)
            torch.rand(1 if worker.now.clock else 3)  # of no effect on the next step
            time.sleep(float(sys.argv[2]))
print("model", hashlib.sha256(b"".join(t.numpy().tobytes() for t in net.state_dict().values())).hexdigest(), flush=True)
"""
LINE = {**test_own_loop.LINE, "program_state_mib": 1, "checkpoint": {"every_steps": 10}}


class OwnState(harness.ClusterTest):
    program, end_programs = test_own_loop.OwnLoop.program, test_own_loop.OwnLoop.end_programs

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name, text in (("wanderer.py", WANDERER), ("wrong.py", WRONG), ("drops.py", DROPS), ("digits.py", test_own_loop.TORCH)):
            (pathlib.Path(self.folder.name) / name).write_text(text)
        self.programs = []
        self.addCleanup(self.end_programs)

    def model(self, cluster, job):
        """The SHA-256 of the variables that the servers leave."""
        files = cluster.files(job.id)
        path = pathlib.Path(self.folder.name) / "model.safetensors"
        path.write_bytes(files[next(name for name in files if name.startswith("MODEL") and name.endswith("(ps).safetensors"))])
        return hashlib.sha256(b"".join(bytes(memoryview(v).cast("B")) for _, v in sorted(psgd.safetensors.load(path).items()))).hexdigest()

    def kill_one_at(self, cluster, job, step):
        """Kills a program that trains when the job has a checkpoint and is at `step`."""
        cluster.poll(f"step {step}", lambda: cluster.get(job.id).progress.step >= step and self.stored(cluster, job), 60)
        node = next(n for n in cluster.node_list() if n.loop and n.job_id == job.id)
        os.kill(int(test_own_loop.OwnLoop.parent(node)), signal.SIGKILL)

    def stored(self, cluster, job):
        return cluster.get(job.id).progress.checkpoints

    def run_job(self, cluster, spec, pause, kill=None, spare=0, **named):
        """Runs a job with a program a worker; returns it, its model and what the programs printed last."""
        programs = [self.program(cluster, pause, *named.get("arguments", ()), name=named["name"])
                    for _ in range(spec.get("worker_processes", spec["workers"]) + spare)]
        job = cluster.submit(spec)
        if kill:
            self.kill_one_at(cluster, job, kill)
        job = cluster.wait(job.id, seconds=120)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        said = [p.communicate(timeout=60)[0].splitlines()[-1] for p in programs if p.poll() != -signal.SIGKILL]
        self.end_programs()
        self.programs.clear()
        return job, self.model(cluster, job), said

    def test_state_comes_back_after_a_loss_and_in_a_resumed_job(self):
        cluster = self.cluster(workers=0, pservers=2)
        undisturbed, expected, _ = self.run_job(cluster, LINE, 0, name="wanderer.py")
        self.assertEqual(len(undisturbed.recoveries), 0)
        job, left, _ = self.run_job(cluster, LINE, 0.02, kill=25, spare=1, name="wanderer.py")
        self.assertEqual(left, expected)
        self.assertEqual(len(job.recoveries), 1)
        self.assertEqual(job.recoveries[0].from_step % 10, 0)
        self.assertGreater(job.recoveries[0].from_step, 0)
        # both ranks in one process, each with its own
        _, left, _ = self.run_job(cluster, {**LINE, "worker_processes": 1}, 0, name="wanderer.py")
        self.assertEqual(left, expected)
        # another job goes on from a checkpoint of the first one
        stored = sorted(int(name) for name in os.listdir(os.path.join(cluster.coordinator.data_dir, "jobs", undisturbed.id, "checkpoints"))
                        if name.isdigit())
        self.assertTrue(stored)
        resumed = subprocess.run([os.path.join(harness.BIN, "psgd"), "--coordinator", cluster.coordinator.address, "resume",
                                  f"{undisturbed.id}@{stored[0]}"], capture_output=True, text=True)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        for _ in range(2):
            self.program(cluster, 0, name="wanderer.py")
        job = cluster.wait(resumed.stdout.split()[1].rstrip(","))
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertEqual(self.model(cluster, job), expected)

    def test_programs_go_on_where_they_are_when_a_server_is_lost(self):
        """No step is computed again, and the draws that a program keeps go on. There is no checkpoint before."""
        cluster = self.cluster(workers=0, pservers=2)
        _, expected, _ = self.run_job(cluster, LINE, 0, name="wanderer.py")
        for i, recovery in enumerate(({}, {"replicas": 2})):
            with self.subTest(**recovery):
                programs = [self.program(cluster, 0.02, name="wanderer.py") for _ in range(2)]
                job = cluster.submit({**LINE, "pservers": 2, "recovery": recovery, "checkpoint": {"every_steps": 10000}})
                cluster.poll("step 20", lambda job=job: cluster.get(job.id).progress.step >= 20, 60)
                cluster.pservers[i].kill()
                job = cluster.wait(job.id, seconds=120)
                self.assertEqual((job.state, len(job.recoveries)), (job_pb2.JOB_STATE_DONE, 1), job.message)
                self.assertEqual(job.progress.steps_repeated, 0)
                for program in programs:
                    self.assertEqual([int(clock) for clock in program.communicate(timeout=60)[0].split()], list(range(job.progress.total_steps)))
                self.assertEqual(self.model(cluster, job), expected)
                self.end_programs()
                self.programs.clear()
                cluster.pservers[i].start()
                cluster.wait_nodes(2)

    def test_what_is_wrong_is_named(self):
        cluster = self.cluster(workers=0, pservers=1)
        for fields, texts in (({"program_state_mib": 1},
                               ["'none'", 'name: is "a b"; 1 to 64 of A-Z a-z 0-9 . _ - are allowed',
                                '"much": 1048576 bytes and 21 for the name; there is room for 1048568',
                                '"more": 0 bytes and 21 for the name; there is room for 0', "'all'",
                                '"256": there are 256 names; at most 256 are allowed',
                                "all variables of this step are ready: save state before the last one is"]),
                              ({"program_state_mib": 0},
                               ["'none'", *2 * ["the job keeps no state of programs: its program_state_mib is 0; 1 to 4096 are allowed"],
                                "all variables of this step are ready: save state before the last one is"])):
            with self.subTest(fields=fields):
                program = self.program(cluster, name="wrong.py")
                job = cluster.wait(cluster.submit({**LINE, **fields, "workers": 1, "max_steps": 3}).id)
                self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
                out, err = program.communicate(timeout=60)
                self.assertEqual(out.splitlines(), texts, err)
        for fields, text in (({"program_state_mib": 5000}, "spec.program_state_mib: is 5000; 0 to 4096 are allowed"),
                             ({"title": "t", "model": {"preset": "mlp"}, "data": {"name": "mnist"}, "optimizer": {}, "checkpoint": None},
                              "spec.program_state_mib: is 1, and no worker is a program that keeps state; set spec.programs, or 0 here")):
            with self.subTest(fields=fields), self.assertRaises(grpc.RpcError) as refused:
                cluster.submit({name: v for name, v in {**LINE, **fields}.items() if v is not None})
            self.assertIn(text, refused.exception.details())

    @unittest.skipUnless(torch, "no python3-torch")
    def test_pytorch_programs_keep_draws_buffers_and_optimizers(self):
        import psgd.torch

        net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.BatchNorm1d(32), torch.nn.Dropout(0.3), torch.nn.Linear(32, 10))
        cluster = self.cluster(workers=0, pservers=1)
        for mode, rule in (("steps", {"name": "adam", "params": {"lr": 0.003}}), ("rounds", {"name": "sgd", "params": {"lr": 1}})):
            spec = {"title": "drops", "workers": 1, "block_size": 32, "epochs": 1, "data": {"params": {"samples": 32 * 60}},
                    "model": {"foreign": psgd.torch.foreign(net)}, "optimizer": {"rule": rule},
                    "program_state_mib": 1, "checkpoint": {"every_steps": 10}}
            with self.subTest(mode=mode):
                _, expected, said = self.run_job(cluster, spec, 0, name="drops.py", arguments=[mode])
                job, left, after = self.run_job(cluster, spec, 0.02, kill=25, spare=1, name="drops.py", arguments=[mode])
                self.assertEqual(left, expected)
                self.assertEqual(len(job.recoveries), 1)
                self.assertGreater(job.recoveries[0].from_step, 0)
                self.assertEqual(after, said)  # weights and buffers of the network
                self.assertTrue(said[0].startswith("model "))


if __name__ == "__main__":
    unittest.main()
