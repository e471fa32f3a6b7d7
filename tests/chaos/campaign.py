# SPDX-License-Identifier: Apache-2.0
"""campaign.py - kills, freezes, stops and scales jobs at random while they train, and fills disks.

One seed decides victim, fault, instant and the delay of the restart. Each synchronous job must end with
the SHA-256 and the reports of the same job that nobody disturbs, and the ledgers of its servers must have
each contribution exactly once. An asynchronous job must end, and have learnt. Nothing may be left behind.
A failure prints the seed and the number of the job; both repeat the draws:

    tests/chaos/campaign.py --seed 7 --faults 1000
    tests/chaos/campaign.py --seed 7 --faults 6 --first 31
"""
import argparse
import csv
import hashlib
import io
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("adversary", "cluster")]
import disks  # noqa: E402

if __name__ == "__main__":
    disks.enter(is_required=False)

import grpc  # noqa: E402
from harness import (SLOW, ClusterTest, coordinator_pb2, evaluated, job_pb2, rows_of,  # noqa: E402
                     tensors)
from test_checkpoints import CLICKS, JOB, KINDS, losses, rounds, write_clicks  # noqa: E402

DONE = job_pb2.JOB_STATE_DONE
FINAL = (DONE, job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_CANCELLED)
LOADING = (job_pb2.JOB_STATE_CAN_COMMIT, job_pb2.JOB_STATE_PRE_COMMIT, job_pb2.JOB_STATE_DO_COMMIT)
LEASE_MS = int(1000 * SLOW)
DISK_MIB = 32
# 60 steps, which take at least 4.8 s where the job is disturbed.
RUN = {**JOB, "title": "chaos", "epochs": 6,
       "timeouts": {"leaseMs": LEASE_MS, "canCommitMs": 2 * LEASE_MS, "readyMs": 10 * LEASE_MS}}
PACE = {"straggler": {"name": "fixed", "params": {"rank": -1, "ms": 80}}}
DISTURBED = {**PACE, "checkpoint": {"everySteps": 4}, "recovery": {
    "maxRestarts": 100000, "onWorkerLoss": "LOSS_ACTION_REPEAT"}}
TABLE = {"name": "sparse", "params": {"admit_count": 2, "tick": 3, "decay": 0.9, "unseen_max": 4}}
COPIES = {"optimizer": {"rule": {"name": "adam", "params": {"lr": 0.001}}}, "recovery": {"replicas": 2}}
FEEDBACK = {"name": "int8", "params": {"error_feedback": 1}}
JOBS = {**KINDS, "copies": COPIES,
        "copies of top-k": {**KINDS["top-k with error feedback"], "recovery": {"replicas": 2}},
        "copies of dqlosp": {**KINDS["dqlosp"], "codec": {"up": {"name": "int8"}, "down": FEEDBACK}, "recovery": {"replicas": 2}},
        "copies of powersgd": {**KINDS["powersgd"], "recovery": {"replicas": 2}},
        "feedback of weights": {"codec": {"up": {"name": "int8"}, "down": FEEDBACK}},
        "differences": {"codec": {"up": {"name": "topk", "params": {"fraction": 0.1, "error_feedback": 0, "difference": 1}}}},
        "ring": {"exchange": {"name": "ring"}},
        "plain": {"exchange": {"name": "plain"}, "codec": {"up": {"name": "int8"}}},
        "diloco": {"update": {"name": "diloco", "params": {"steps": 2}}, "optimizer": {}},
        "sparse tables": {**CLICKS, "epochs": 6, "model": {**CLICKS["model"], "table": TABLE}},
        "sparse tables as int8": {**CLICKS, "epochs": 6, "model": {**CLICKS["model"], "table": TABLE},
                                  "codec": {"up": {"name": "int8"}, "down": {"name": "int8"}}},
        "a fixed vocabulary as int8": {**CLICKS, "epochs": 6, "codec": {"down": {"name": "int8"}}},
        "rounds with sparse tables": {**CLICKS, **rounds("localsgd"), "epochs": 6, "model": {**CLICKS["model"], "table": TABLE}},
        "copies of sparse tables": {**CLICKS, "epochs": 6, "model": {**CLICKS["model"], "table": TABLE}, "recovery": {"replicas": 2}}}
# A lost worker's part is missing, unless the job goes on from a checkpoint with all ranks. They learn at this rate whatever the timing.
LOOSE = {name: {"consistency": {"name": name}, "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.0005}}}}
         for name in ("asp", "ssp")}
GOES_ON = {"straggler": {"name": "fixed", "params": {"rank": -1, "ms": 40}}, "checkpoint": {"everySteps": 4},
           "recovery": {"maxRestarts": 100000}}
CHANCE = 0.1  # accuracy of a model that has learnt nothing, of ten classes
ARGS = argparse.Namespace(seed=1, faults=60, first=0)
A_JOB = 6  # faults


def digest(files):
    """The SHA-256 of what the job has computed: the tensors of its model, and the rows of tables."""
    h = hashlib.sha256()
    models = {name: data for name, data in files.items() if name.endswith(").safetensors")}
    model = models.get("MODEL-chaos-N(ps).safetensors", models.get("MODEL-chaos-N(0).safetensors"))
    for name, (shape, data) in sorted(tensors(model).items()):
        h.update(f"{name} {shape}".encode() + data)
    for key, row in sorted(rows_of(files).items()):
        h.update(repr(key).encode() + row)
    return h.hexdigest()


def mixed(x):
    """splitmix64, as in common/store/clocks.c."""
    mask = (1 << 64) - 1
    x = (x + 0x9e3779b97f4a7c15) & mask
    x = ((x ^ x >> 30) * 0xbf58476d1ce4e5b9) & mask
    x = ((x ^ x >> 27) * 0x94d049bb133111eb) & mask
    return x ^ x >> 31


def ledger_of(clocks, contributors):
    """(count, hash) if each contribution counts exactly once."""
    mask = (1 << 64) - 1
    return clocks * contributors, sum(mixed((mixed(t) + k) & mask) for t in range(clocks)
                                      for k in range(contributors)) & mask


class Campaign(ClusterTest):
    def submit(self, c, spec):
        self.since = {p: p.log_end() for p in c.pservers}
        return c.submit(spec, pservers=2).id

    def done(self, c, job_id):
        """(job, its files, the newest ledger of each server that finished it)"""
        job = c.wait(job_id, seconds=120)
        self.assertEqual(job.state, DONE, f"{job.reason} {job.message}")
        told = [re.findall(r"ledger: (\d+) contributions to each slice, hash ([0-9a-f]{16}); (\d+) slices differ",
                           p.log(self.since[p])) for p in c.pservers]
        return job, c.files(job_id), [(int(n), int(h, 16), int(d)) for n, h, d in (t[-1] for t in told if t)]

    def must_be_alike(self, files, straight):
        self.assertEqual(digest(files), digest(straight))
        for rank in range(4):
            ev, tr = f"EV-chaos-N({rank}).csv", f"TR-chaos-N({rank}).csv"
            self.assertEqual(evaluated(files[ev]), evaluated(straight[ev]))
            self.assertEqual(losses(files[tr]), losses(straight[tr]))
            self.assertEqual(files[tr].count(b"\n"), straight[tr].count(b"\n"))

    def must_be_exact(self, ledgers, straight):
        """Each contribution is in the ledger of each slice once, those of earlier attempts included."""
        self.assertTrue(ledgers and straight, (ledgers, straight))
        count = straight[0][0]
        self.assertEqual(count % 4, 0)
        for ledger in (*ledgers, *straight):
            self.assertEqual(ledger, (*ledger_of(count // 4, 4), 0))

    def must_have_learnt(self, files):
        """One of the last evaluations is far from chance; a step that is stale may spoil a single one."""
        last = [float(row["accuracy"]) for name, data in files.items() if name.startswith("EV-")
                for row in list(csv.DictReader(io.StringIO(data.decode())))[-3:]]
        self.assertTrue(last and max(last) > 2.5 * CHANCE, last)

    def sleep(self, c, seconds):
        until = time.monotonic() + seconds
        c.poll("the moment", lambda: time.monotonic() > until)

    def is_over(self, c, job_id):
        return c.get(job_id).state in FINAL

    def reach(self, c, job_id, moment):
        """Waits until a checkpoint is being gathered, or until nodes load one. Gives up after 2 s, as the
        job may be over."""
        checkpoints = c.folder / "coordinator" / "jobs" / job_id / "checkpoints"
        until = time.monotonic() + 2

        def is_there():
            if moment == "saving" and list(checkpoints.glob(".*")):
                return True
            state = c.get(job_id).state if moment == "loading" else job_pb2.JOB_STATE_RUNNING
            return state in (*LOADING, *FINAL) or time.monotonic() > until

        c.poll(f"the moment of {moment}", is_there)

    def tear(self, c, job_id, draw):
        """Cuts a file of the newest checkpoint off, as a disk does that lost its last write."""
        checkpoints = c.folder / "coordinator" / "jobs" / job_id / "checkpoints"
        whole = sorted(p for p in checkpoints.glob("[0-9]*") if p.is_dir())
        if not whole:
            return "nothing to tear"
        try:
            file = draw.choice(sorted(p for p in whole[-1].iterdir() if p.stat().st_size > 1))
            with open(file, "r+b") as torn:
                torn.truncate(file.stat().st_size // 2)
        except FileNotFoundError:
            return "removed before it was torn"
        return f"tore {whole[-1].name}/{file.name}"

    def strike(self, victim, how):
        {"freeze": victim.freeze, "kill": victim.kill, "stop": victim.stop,
         "fill": lambda: self.disks[victim.name].hog()}[how]()

    def revive(self, c, victim, how, loses_disk):
        if how == "freeze":
            victim.thaw()
        elif how == "fill":
            self.disks[victim.name].room()
        elif victim is c.coordinator:
            c.restart_coordinator()
        else:
            if loses_disk:
                shutil.rmtree(c.folder / victim.name / "sessions", ignore_errors=True)
            victim.start()

    def scale(self, c, job_id, draw):
        """Asks for other numbers of processes. It may be refused: the job is about to end, or too few nodes
        are idle."""
        numbers = {"worker_processes": draw.randint(1, 4), "pservers": draw.randint(1, 2)}
        if not c.get(job_id).spec.pservers:
            numbers.pop("pservers")
        asked = c.api.ScaleJob.future(coordinator_pb2.ScaleJobRequest(
            job_id=job_id, checkpoint_ms=int(5000 * SLOW), **numbers), timeout=10 * SLOW)
        return asked, "scale to " + " and ".join(map(str, numbers.values()))

    def harm(self, c, draw, job_id):
        """One fault, and its end. Says what it was. Two processes may be struck at once, or while the job is
        scaled; a node may come back without its disk; the newest checkpoint may be torn before."""
        victims = draw.sample([c.coordinator, *c.workers, *c.pservers], draw.choice((1, 1, 2)))
        how = draw.choice(("kill", "kill", "freeze", "freeze", "stop", "fill", "scale"))
        how = how if how != "fill" or self.disks else "kill"
        after_s, for_s = draw.uniform(0, 0.5), draw.uniform(0, 0.4)
        moment, loses_disk, tears = draw.choice(("", "", "saving", "loading")), draw.random() < 0.3, draw.random() < 0.15
        self.sleep(c, after_s)
        if how == "scale":
            asked, said = self.scale(c, job_id, draw)
            if draw.random() < 0.5:  # in the middle of it
                self.sleep(c, for_s)
                victims[0].kill()
                self.sleep(c, for_s)
                self.revive(c, victims[0], "kill", loses_disk)
                said += f", kill {victims[0].name} after {for_s:.2f} s"
            return f"{said}: {asked.code().name}"
        if moment == "loading":
            first = draw.choice([worker for worker in c.workers if worker not in victims])
            first.kill()
            first.start()
        if moment:
            self.reach(c, job_id, moment)
        torn = self.tear(c, job_id, draw) + ", " if tears else ""
        for victim in victims:
            self.strike(victim, how)
        self.sleep(c, for_s + {"freeze": LEASE_MS / 1000, "fill": 0.6}.get(how, 0))
        for victim in victims:
            self.revive(c, victim, how, loses_disk)
        names = " and ".join(victim.name for victim in victims)
        return f"{torn}{how} {names} after {after_s:.2f} s{' ' + moment if moment else ''}, for {for_s:.2f} s"

    def harm_the_end(self, c, draw, job_id):
        """Kills or stops a server when the last steps are taken, when all have been, or when files are collected."""
        victim, how = draw.choice(c.pservers), draw.choice(("kill", "kill", "stop"))
        after_s, for_s = draw.uniform(0, 0.25), draw.uniform(0, 0.2)

        def is_near():
            job = c.get(job_id)
            return job.state in FINAL or job.progress.step + 3 >= job.progress.total_steps > 0

        c.poll("the last steps", is_near, seconds=120)
        self.sleep(c, after_s)
        at = c.get(job_id)
        self.strike(victim, how)
        self.sleep(c, for_s)
        self.revive(c, victim, how, False)
        return f"{how} {victim.name} at the end, {job_pb2.JobState.Name(at.state)[10:]} at step {at.progress.step}"

    def must_leave_nothing(self, c):
        c.wait_idle(seconds=60)
        c.poll("all nodes are known and free", lambda: sum(
            n.alive and not n.job_id for n in c.node_list()) == len(c.nodes), seconds=60)
        for p in c.nodes:
            sessions = c.folder / p.name / "sessions"
            c.poll(f"no sessions of {p.name}",
                   lambda s=sessions: not s.exists() or not list(s.iterdir()))
            children = pathlib.Path(f"/proc/{p.process.pid}/task/{p.process.pid}/children")
            c.poll(f"no process that {p.name} has made", lambda f=children: not f.read_text())
        self.assertEqual(list((c.folder / "coordinator" / "jobs").glob("*/checkpoints/.*")), [])

    def forget(self, c, job_id):
        """Deletes a job, whose files would fill the coordinator's small disk."""
        c.api.DeleteJob(coordinator_pb2.DeleteJobRequest(job_id=job_id), timeout=60)
        self.assertFalse((c.folder / "coordinator" / "jobs" / job_id).exists())

    def start(self):
        """A cluster in which each process has a small disk, if the machine permits that."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-clicks-"))
        self.addCleanup(shutil.rmtree, folder)
        write_clicks(folder)
        self.disks = {}
        names = ["coordinator", *(f"worker-{i}" for i in range(4)), *(f"pserver-{i}" for i in range(2))]

        def prepare(folder):
            if disks.is_here():
                self.disks = {name: disks.Disk(folder / name, DISK_MIB) for name in names}

        # Of an address of its own, so that nobody else takes the port of a process that is away.
        host = f"127.{random.randrange(1, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}"
        c = self.cluster(workers=4, pservers=2, data=str(folder), prepare=prepare, place=lambda name: {"host": host},
                         node_args=["--grace", "100ms", "--min-free", "1"], coordinator_args=["--min-free", "4"])
        for disk in self.disks.values():
            self.addCleanup(disk.close)  # before the cluster, which removes the folder
        c.wait_nodes(6)
        return c

    def one(self, c, number, name, straight, most):
        """One job with up to `most` faults; (faults, restarts). Its draws follow from the seed and its number."""
        draw, is_exact = random.Random(f"{ARGS.seed}/{number}"), name in JOBS
        spec = {**RUN, **(JOBS[name] if is_exact else LOOSE[name]), "title": "chaos"}
        if is_exact and name not in straight:
            job, *straight[name] = self.done(c, self.submit(c, spec))
            self.forget(c, job.id)
        harmed = DISTURBED if is_exact else GOES_ON
        job_id = self.submit(c, {**spec, **harmed,
                                 "recovery": {**spec.get("recovery", {}), **harmed["recovery"]}})
        said, most = [], min(most, draw.randint(2, 4)) if is_exact else most  # the last one before it is over
        while len(said) < most and not self.is_over(c, job_id):
            is_last = is_exact and len(said) + 1 == most
            said.append((self.harm_the_end if is_last else self.harm)(c, draw, job_id))
        job, files, ledgers = self.done(c, job_id)
        print(f"{number} {name}: {'; '.join(said)}: {job.restarts} restarts, goodput {job.goodput:.2f}",
              flush=True)
        if is_exact:
            self.must_be_alike(files, straight[name][0])
            if "exchange" not in spec:  # workers have no ledgers
                self.must_be_exact(ledgers, straight[name][1])
        else:
            self.must_have_learnt(files)
        self.must_leave_nothing(c)
        self.forget(c, job_id)
        return len(said), job.restarts

    def test_faults(self):
        c, began, straight = self.start(), time.monotonic(), {}
        order = sorted({**JOBS, **LOOSE})
        random.Random(ARGS.seed).shuffle(order)
        number, faults, restarts = ARGS.first, 0, 0
        while faults < ARGS.faults:
            name = order[number % len(order)]
            with self.subTest(seed=ARGS.seed, first=number, job=name):
                most = min(A_JOB if name in JOBS else A_JOB // 2, ARGS.faults - faults)
                struck = (most, 0)  # if it fails
                try:
                    struck = self.one(c, number, name, straight, most)
                finally:
                    faults, restarts, number = faults + struck[0], restarts + struck[1], number + 1
        print(f"seed {ARGS.seed}: {faults} faults{'' if self.disks else ' without full disks'}, {restarts} "
              f"restarts, {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=ARGS.seed)
    parser.add_argument("--faults", type=int, default=ARGS.faults)
    parser.add_argument("--first", type=int, default=ARGS.first, help="number of the first job")
    ARGS = parser.parse_args()
    unittest.main(argv=sys.argv[:1], verbosity=2)
