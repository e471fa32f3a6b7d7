# SPDX-License-Identifier: Apache-2.0
"""campaign.py - kills, freezes and stops the processes of synchronous jobs at random, while they train.

One seed decides victim, signal, instant and the delay of the restart. Each job must end with the
SHA-256 and the reports of the same job that nobody disturbs, and must leave nothing behind. A failure
prints the seed; --seed repeats the draws.

    tests/chaos/campaign.py --seed 7 --faults 100
"""
import argparse
import hashlib
import pathlib
import random
import shutil
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import SLOW, ClusterTest, evaluated, job_pb2, rows_of, tensors  # noqa: E402
from test_checkpoints import CLICKS, JOB, KINDS, losses, write_clicks  # noqa: E402

DONE = job_pb2.JOB_STATE_DONE
LOADING = (job_pb2.JOB_STATE_CAN_COMMIT, job_pb2.JOB_STATE_PRE_COMMIT, job_pb2.JOB_STATE_DO_COMMIT)
LEASE_MS = int(1500 * SLOW)
# 30 steps, which take at least 3 s.
RUN = {**JOB, "title": "chaos", "epochs": 3,
       "timeouts": {"leaseMs": LEASE_MS, "canCommitMs": 2 * LEASE_MS, "readyMs": 10 * LEASE_MS}}
DISTURBED = {"straggler": {"name": "fixed", "params": {"rank": -1, "ms": 100}},
             "checkpoint": {"everySteps": 4}, "recovery": {"maxRestarts": 100000}}
TABLE = {"name": "sparse", "params": {"admit_count": 2, "tick": 3, "decay": 0.9, "unseen_max": 4}}
JOBS = {**KINDS, "ring": {"exchange": {"name": "ring"}},
        "diloco": {"update": {"name": "diloco", "params": {"steps": 2}}, "optimizer": {}},
        "sparse tables": {**CLICKS, "epochs": 3, "model": {**CLICKS["model"], "table": TABLE}}}
ARGS = argparse.Namespace(seed=1, faults=16)


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


class Campaign(ClusterTest):
    def done(self, c, job_id):
        job = c.wait(job_id, seconds=120)
        self.assertEqual(job.state, DONE, f"{job.reason} {job.message}")
        return job, c.files(job_id)

    def must_be_alike(self, files, straight):
        self.assertEqual(digest(files), digest(straight))
        for rank in range(4):
            ev, tr = f"EV-chaos-N({rank}).csv", f"TR-chaos-N({rank}).csv"
            self.assertEqual(evaluated(files[ev]), evaluated(straight[ev]))
            self.assertEqual(losses(files[tr]), losses(straight[tr]))
            self.assertEqual(files[tr].count(b"\n"), straight[tr].count(b"\n"))

    def sleep(self, c, seconds):
        until = time.monotonic() + seconds
        c.poll("the moment", lambda: time.monotonic() > until)

    def reach(self, c, job_id, moment):
        """Waits until a checkpoint is being gathered; or kills a worker and waits until nodes load one. Gives up after 2 s, as the
        job may be over."""
        checkpoints = c.folder / "coordinator" / "jobs" / job_id / "checkpoints"
        until = time.monotonic() + 2

        def is_there():
            if moment == "saving" and list(checkpoints.glob(".*")):
                return True
            state = c.get(job_id).state if moment == "loading" else job_pb2.JOB_STATE_RUNNING
            return state in LOADING or time.monotonic() > until

        c.poll(f"the moment of {moment}", is_there)

    def tear(self, c, job_id, draw):
        """Cuts a file of the newest checkpoint off, as a disk does that lost its last write."""
        checkpoints = c.folder / "coordinator" / "jobs" / job_id / "checkpoints"
        whole = sorted(p for p in checkpoints.glob("[0-9]*") if p.is_dir())
        if not whole:
            return "nothing to tear"
        file = draw.choice(sorted(p for p in whole[-1].iterdir() if p.stat().st_size > 1))
        with open(file, "r+b") as torn:
            torn.truncate(file.stat().st_size // 2)
        return f"tore {whole[-1].name}/{file.name}"

    def strike(self, victim, how):
        victim.freeze() if how == "freeze" else victim.kill() if how == "kill" else victim.stop()

    def revive(self, c, victim, how, loses_disk):
        if how == "freeze":
            victim.thaw()
        elif victim is c.coordinator:
            c.restart_coordinator()
        else:
            if loses_disk:
                shutil.rmtree(c.folder / victim.name / "sessions", ignore_errors=True)
            victim.start()

    def harm(self, c, draw, job_id):
        """One fault, and its end. Says what it was. Two processes may be struck at once; a node may come back without its
        disk; the newest checkpoint may be torn before."""
        victims = draw.sample([c.coordinator, *c.workers, *c.pservers], draw.choice((1, 1, 2)))
        how, after_s, for_s = draw.choice(("kill", "freeze", "stop")), draw.uniform(0, 0.8), draw.uniform(0, 0.6)
        moment, loses_disk, tears = draw.choice(("", "", "saving", "loading")), draw.random() < 0.3, draw.random() < 0.15
        self.sleep(c, after_s)
        if moment == "loading":
            first = draw.choice([worker for worker in c.workers if worker not in victims])
            first.kill()
            first.start()
        if moment:
            self.reach(c, job_id, moment)
        torn = self.tear(c, job_id, draw) + ", " if tears else ""
        for victim in victims:
            self.strike(victim, how)
        self.sleep(c, for_s + (LEASE_MS / 1000 if how == "freeze" else 0))
        for victim in victims:
            self.revive(c, victim, how, loses_disk)
        names = " and ".join(victim.name for victim in victims)
        return f"{torn}{how} {names} after {after_s:.2f} s{' ' + moment if moment else ''}, for {for_s:.2f} s"

    def must_leave_nothing(self, c):
        c.wait_idle(seconds=60)
        c.poll("all nodes are known and free", lambda: sum(
            n.alive and not n.job_id for n in c.node_list()) == len(c.nodes), seconds=60)
        for p in c.nodes:
            sessions = c.folder / p.name / "sessions"
            c.poll(f"no sessions of {p.name}",
                   lambda s=sessions: not s.exists() or not list(s.iterdir()))
        self.assertEqual(list((c.folder / "coordinator" / "jobs").glob("*/checkpoints/.*")), [])

    def test_faults(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-clicks-"))
        self.addCleanup(shutil.rmtree, folder)
        write_clicks(folder)
        draw = random.Random(ARGS.seed)
        c = self.cluster(workers=4, pservers=2, data=str(folder), node_args=["--grace", "100ms"])
        c.wait_nodes(6)
        straight, left, restarts, began = {}, ARGS.faults, 0, time.monotonic()
        order = sorted(JOBS)
        draw.shuffle(order)
        while left > 0:
            name = order[(ARGS.faults - left) // 2 % len(order)]
            spec = {**RUN, **JOBS[name], "title": "chaos"}
            with self.subTest(seed=ARGS.seed, fault=ARGS.faults - left, job=name):
                if name not in straight:
                    straight[name] = self.done(c, c.submit(spec, pservers=2).id)[1]
                job = c.submit({**spec, **DISTURBED}, pservers=2)
                said = []
                for _ in range(min(2, left)):
                    said.append(self.harm(c, draw, job.id))
                    left -= 1
                job, files = self.done(c, job.id)
                restarts += job.restarts
                print(f"{name}: {'; '.join(said)}: {job.restarts} restarts, goodput "
                      f"{job.goodput:.2f}", flush=True)
                self.must_be_alike(files, straight[name])
                self.must_leave_nothing(c)
        print(f"seed {ARGS.seed}: {ARGS.faults} faults, {restarts} restarts, "
              f"{time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=ARGS.seed)
    parser.add_argument("--faults", type=int, default=ARGS.faults)
    ARGS = parser.parse_args()
    unittest.main(argv=sys.argv[:1], verbosity=2)
