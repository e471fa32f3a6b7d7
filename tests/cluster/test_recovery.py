# SPDX-License-Identifier: Apache-2.0
"""test_recovery.py - a process of a synchronous job dies or freezes, and the job goes on by itself:
from its last checkpoint, on the nodes that are there, to the bits of a run that nothing disturbed."""
import csv
import io
import json
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import time

from harness import (BIN, FRAGILE, PATIENCE, SLOW, SMALL, ClusterTest, coordinator_pb2, evaluated,
                     job_pb2, main, rows_of, same_with_any_registry, tensors)
from test_checkpoints import CLICKS, clicks_folder, rounds

LEASE_MS = int(2000 * SLOW)
# 10 steps an epoch.
JOB = {**SMALL, "title": "lost", "workers": 4, "epochs": 3, "seed": 5,
       "timeouts": {"leaseMs": LEASE_MS, "canCommitMs": LEASE_MS, "readyMs": 5 * LEASE_MS}}
PACE = {"straggler": {"name": "fixed", "params": {"rank": -1, "ms": 100}}}
# For jobs that lose processes two or three times, after 2 or 3 steps each: the last kill must not come after the last step.
MORE = {"epochs": 5}
# Where nobody freezes, a lease ends only because the machine has no time for a process.
NO_LEASE = {"timeouts": {"leaseMs": 60000}}
# Jobs whose ranks have state of their own: (name, worker processes, how often they lose servers, fields).
STATES = [("top-k", 4, ({}, {"replicas": 2}),
           {"codec": {"up": {"name": "topk", "params": {"fraction": 0.1, "error_feedback": 1}}}}),
          ("losp", 2, ({},), {"update": {"name": "losp", "params": {"steps": 2}}, "optimizer": {}}),
          ("powersgd", 4, ({}, {"replicas": 2}), {"model": {"preset": "mlp", "widths": [100]}, "codec": {"up": {"name": "powersgd"}}}),
          ("differences, weights as int8", 4, ({},), {"codec": {
              "up": {"name": "topk", "params": {"fraction": 0.1, "error_feedback": 0, "difference": 1}}, "down": {"name": "int8"}}}),
          ("dqlosp", 2, ({"replicas": 2},), {"update": {"name": "dqlosp", "params": {"steps": 2}}, "optimizer": {}, "codec": {
              "up": {"name": "int8"}, "down": {"name": "int8", "params": {"error_feedback": 1}}}}),
          ("diloco", 4, ({"replicas": 2},), {"update": {"name": "diloco", "params": {"steps": 2}}, "optimizer": {}})]
EARLY = {"stopAt": {"metric": "accuracy", "value": 0.1}, "evalEverySteps": 6}  # ends at step 6
COPIES = {"recovery": {"replicas": 2}}
WORDS = {"model": {"preset": "ngram", "params": {"rows": 20000, "width": 16, "hidden": 4, "dropout": 0}}, "epochs": 2, "blockSize": 10,
         "evalEverySteps": 4, "data": {"name": "ngram", "folder": "text", "files": ["words.txt"], "trainLimit": 400, "testLimit": 50,
                                       "params": {"cutoff": 0}}}
AGEING = {"name": "sparse", "params": {"admit_count": 2, "tick": 3, "decay": 0.9, "unseen_max": 4}}
PAIRS = {**WORDS, "model": {"preset": "skipgram", "params": {"width": 8}, "table": AGEING},
         "data": {**WORDS["data"], "name": "skipgram"}}
QUEUED, RUNNING, COLLECTING, DONE, FAILED = (job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING, job_pb2.JOB_STATE_COLLECTING,
                                             job_pb2.JOB_STATE_DONE, job_pb2.JOB_STATE_FAILED)


def write_words(folder):
    (folder / "text").mkdir()
    (folder / "text" / "words.txt").write_text("".join(f"w{i * i % 97} w{i % 13} w{i * 7 % 31} w{i % 5}\n" for i in range(600)))


def model_of(files):
    """The tensors of the servers' model; of an exchange among workers those of worker 0."""
    return tensors(next(files[name] for name in sorted(files, reverse=True)
                        if name.endswith(("-N(ps).safetensors", "-N(0).safetensors"))))


def trained(report):
    """Rows of a TR file without what was measured."""
    return [(r["epoch"], r["batch"], r["step"], r["loss"], r["accuracy"])
            for r in csv.DictReader(io.StringIO(report.decode()))]


def times(report):
    return [float(r["time_s"]) for r in csv.DictReader(io.StringIO(report.decode()))]


class Recovery(ClusterTest):
    def straight(self, c, **fields):
        job = c.wait(c.submit({**JOB, **NO_LEASE, "straggler": {"name": "none"}, **fields}).id)
        self.assertEqual(job.state, DONE, job.message)
        self.assertEqual((job.restarts, job.goodput), (0, 1.0))
        return c.files(job.id)

    def must_be_whole(self, c, job, straight):
        """The job is done, and its files are those of the straight run."""
        self.assertEqual(job.state, DONE, f"{job.reason} {job.message}")
        files = c.files(job.id)
        self.assertEqual(model_of(files), model_of(straight))
        for rank in range(4):
            ev, tr = f"EV-lost-N({rank}).csv", f"TR-lost-N({rank}).csv"
            self.assertEqual(evaluated(files[ev]), evaluated(straight[ev]))
            self.assertEqual(trained(files[tr]), trained(straight[tr]))
            self.assertEqual(times(files[tr]), sorted(times(files[tr])))
        rounds = [line.split(",")[0] for line in files["ROUND-lost.csv"].decode().splitlines()]
        self.assertEqual(rounds, [line.split(",")[0]
                                  for line in straight["ROUND-lost.csv"].decode().splitlines()])
        said = json.loads(files["summary.json"])
        self.assertEqual(len(said["recoveries"]), job.restarts)
        self.assertAlmostEqual(said["goodput"], job.goodput)
        return files

    def stored(self, c, job_id, step):
        c.poll(f"a checkpoint of step {step}", lambda: any(
            p.step >= step for p in c.api.ListCheckpoints(
                coordinator_pb2.ListCheckpointsRequest(job_id=job_id), timeout=10 * PATIENCE).checkpoints))

    def test_killed_workers_and_servers(self):
        """First with checkpoints; then from the beginning. Fewer processes are left each time."""
        c = self.cluster(workers=4, pservers=2)
        c.wait_nodes(6)
        straight = self.straight(c, pservers=2)
        job = c.submit({**JOB, **PACE}, pservers=2, checkpoint={"everySteps": 5})
        self.stored(c, job.id, 10)
        c.workers[3].kill()
        job = c.wait(job.id, lambda j: j.restarts == 1 and j.state == RUNNING)
        r = job.recoveries[0]
        self.assertEqual((r.attempt, r.reason, list(r.node_ids)), (1, "NODE_LOST", ["worker-3"]))
        self.assertGreaterEqual(r.from_step, 10)
        self.assertGreaterEqual(r.step, r.from_step)
        self.assertEqual(len({p.node_id for p in job.placements}), 5)
        c.pservers[0].kill()
        job = c.wait(job.id)
        files = self.must_be_whole(c, job, straight)
        self.assertEqual(job.restarts, 2)
        # The logs of the lost attempts are there: of the first, that of the killed worker too.
        for attempt, node in (("", "worker-3"), (".2", "pserver-0"), (".3", "pserver-1")):
            self.assertIn(f"LOG-lost-N({node}){attempt}.jsonl", files)
        self.assertTrue(0 < job.goodput < 1, job.goodput)
        out = subprocess.run([BIN / "psgd", "watch", job.id, "--coordinator", c.coordinator.address],
                             capture_output=True, text=True, timeout=60 * PATIENCE).stdout
        self.assertRegex(out, r"recovered worker-3 \(NODE_LOST\), back after (\d+\.\d s|\d+ ms), \d+ steps? repeated")
        self.assertRegex(out, r"recovered worker-3 .*\nnodes +worker \d: worker-[0-2] at ")  # who has its ranks now
        self.assertRegex(out, r"recovered pserver-0 .*\n(nodes| ) +(worker .*\n +)*pserver 0: pserver-1 at ")
        self.assertEqual(out.count(": worker-3 at "), 1, out)
        self.assertRegex(out, r"goodput +\d+ %")
        # Without checkpoints it begins anew.
        job = c.submit({**JOB, **PACE, "recovery": {"onWorkerLoss": "LOSS_ACTION_RESTART"}},
                       workerProcesses=2, pservers=1)
        c.wait(job.id, lambda j: j.progress.step > 3)
        c.workers[0].kill()
        job = c.wait(job.id)
        self.must_be_whole(c, job, straight)
        self.assertEqual([r.from_step for r in job.recoveries], [0])

    def kill_some(self, c, spec, straight, draw, choose, kills):
        """Runs a job of which the processes that `choose` chooses are killed at random instants."""
        job = c.submit({**spec, **NO_LEASE})
        for i in range(kills):
            before = c.wait(job.id, lambda j, i=i: j.restarts == i and j.state == RUNNING
                            and j.progress.step > max([r.from_step for r in j.recoveries] + [1]) + 1)
            until = time.monotonic() + draw.uniform(0, 0.15)
            c.poll("the instant", lambda until=until: time.monotonic() > until)
            victims = choose(draw, [p for p in c.nodes if p.name in {at.node_id for at in before.placements}])
            for victim in victims:
                victim.kill()
            killed = time.time()
            try:
                job = c.wait(job.id, lambda j, i=i: j.restarts == i + 1 and j.state == RUNNING)
            finally:
                for victim in victims:  # else the other jobs of the test would lack them
                    victim.start()
            r = job.recoveries[i]
            noticed = r.notice_time.seconds + r.notice_time.nanos * 1e-9 - killed
            print(f"{[v.name for v in victims]} killed at step {before.progress.step}: noticed at {r.step} after {noticed:.2f} s, goes on "
                  f"from {r.from_step} {r.seconds:.2f} s later", flush=True)
            self.assertIn("its process has ended", r.message)  # not by its lease
            c.wait_nodes(len(c.nodes))
        job = c.wait(job.id)
        self.must_be_whole(c, job, straight)
        self.assertEqual(job.restarts, kills)
        for r in job.recoveries:
            self.assertLessEqual(r.step - r.from_step, 1, job.recoveries)
        self.assertLessEqual(job.progress.steps_repeated, kills)
        return job

    @same_with_any_registry
    def test_a_lost_worker_without_state_rolls_nothing_back(self):
        """Checkpoints are far apart: at most the step that was under way is repeated, and reports are whole."""
        c = self.cluster(workers=4, pservers=3)
        c.wait_nodes(7)
        draw = random.Random(11)
        for name, codec in (("f32", {}), ("int8", {"codec": {"up": {"name": "int8"}, "down": {
                "name": "int8", "params": {"error_feedback": 1}}}})):
            straight = self.straight(c, pservers=1, evalEverySteps=4, **MORE, **codec)
            for pservers in (1, 2, 3):
                with self.subTest(codec=name, pservers=pservers):
                    self.kill_some(c, {**JOB, **PACE, **MORE, **codec, "pservers": pservers,
                                       "evalEverySteps": 4, "checkpoint": {"everySteps": 10000}},
                                   straight, draw, lambda d, _: [d.choice(c.workers)], kills=3)
                    c.wait_idle()

    @same_with_any_registry
    def test_an_exchange_among_workers_that_loses_some_rolls_nothing_back(self):
        """Any worker that is left has the state of all of them; two of four may be lost at once."""
        c = self.cluster(workers=4, pservers=0)
        c.wait_nodes(4)
        draw = random.Random(23)
        for exchange, lost, more in (("ring", 1, {}), ("plain", 2, {"workerProcesses": 3}), ("ccdc", 1, {}),
                                     ("tree", 1, {"codec": {"up": {"name": "int8"}, "down": {"name": "int8"}}})):
            fields = {**MORE, "evalEverySteps": 4, "exchange": {"name": exchange}, **more}
            with self.subTest(exchange=exchange, lost=lost, **more):
                straight = self.straight(c, **fields)
                self.kill_some(c, {**JOB, **PACE, **fields, "checkpoint": {"everySteps": 10000}}, straight, draw,
                               lambda d, there, lost=lost: d.sample(there, min(lost, len(there) - 1)), kills=2)
                c.wait_idle()

    @same_with_any_registry
    def test_a_frozen_worker_of_an_exchange_costs_a_step_at_most(self):
        """Its lease ends it; what it sends when it is thawed belongs to an attempt that is over."""
        c = self.cluster(workers=4, pservers=0)
        c.wait_nodes(4)
        fields = {"exchange": {"name": "ring"}, "evalEverySteps": 4}
        straight = self.straight(c, **fields)
        job = c.submit({**JOB, **PACE, **fields})
        c.wait(job.id, lambda j: j.state == RUNNING and j.progress.step > 3)
        c.workers[1].freeze()
        job = c.wait(job.id, lambda j: j.restarts == 1 and j.state == RUNNING)
        c.workers[1].thaw()
        self.must_repeat_a_step(c, c.wait(job.id), straight, [["worker-1"]])
        self.assertGreater(job.recoveries[0].silent_seconds, LEASE_MS / 1000 - 0.5)
        c.wait_idle()
        last = self.instead_of_first(c, "worker", c.workers, "exit-at:FINISHED")
        with self.subTest("a worker is lost when it has all steps"):
            self.must_repeat_a_step(c, c.wait(c.submit({**JOB, **PACE, **fields}).id), straight, [[last.name]])
            last.wait()

    @same_with_any_registry
    def test_a_frozen_worker_does_not_delay_what_the_others_give(self):
        """It cannot say at which step it is when another one is lost. Any that can gives the state of all, which is in memory once."""
        c = self.cluster(workers=4, pservers=0, coordinator_args=["--lease", "60s"])
        fields = {"exchange": {"name": "ring"}, "evalEverySteps": 4}
        straight = None
        for _ in range(3):  # where others have the processors even an answer that nobody waits for takes its time
            c.wait_nodes(4)
            straight = straight or self.straight(c, **fields)
            job = c.submit({**JOB, **PACE, **fields, "timeouts": {"leaseMs": 60000}})
            c.wait(job.id, lambda j: j.state == RUNNING and j.progress.step > 3)
            c.workers[1].freeze()
            killed = time.monotonic()
            c.workers[2].kill()
            self.stored(c, job.id, 1)
            took = time.monotonic() - killed
            c.workers[1].thaw()
            job = c.wait(job.id)
            self.must_repeat_a_step(c, job, straight, [["worker-2"]])
            files = c.files(job.id)
            held = re.findall(r"holds (\d+) files in (\d+) bytes of memory", "".join(
                content.decode() for name, content in files.items() if name.startswith("LOG-lost-N(worker-")))
            weights = sum(len(values) for _, values in model_of(files).values())
            print(f"the state of all is stored after {took:.2f} s: {held}, {weights} bytes of weights", flush=True)
            self.assertEqual({int(count) for count, _ in held}, {5}, held)  # 4 ranks, and the weights
            # the weights, and once what the ranks have in common: weights and the state of Adam
            self.assertLess(max(int(memory) for _, memory in held), 4 * weights + 65536)
            if took < 5:
                return
            c.workers[2].start()
            c.wait_idle()
        self.fail("what the others give waits for the 5 s that a server has to say its step")

    def test_workers_are_lost_after_so_many_steps_that_their_reports_are_long(self):
        """They are said anew with the contributions of the next attempt, in pieces that a message has room for."""
        c = self.cluster(workers=4, pservers=1)
        c.wait_nodes(5)
        long = {"epochs": 100, "evalEverySteps": 5, "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 4}}}
        straight = self.straight(c, pservers=1, **{**long, "straggler": {"name": "none"}})
        job = c.submit({**JOB, **long}, pservers=1)
        for lost, step in enumerate((400, 450)):  # of 1000: the second loss too has to come before the end
            c.wait(job.id, lambda j, step=step: j.state == RUNNING and j.progress.step > step)
            c.workers[lost].kill()
            c.wait(job.id, lambda j, lost=lost: j.restarts > lost and j.state in (RUNNING, DONE, FAILED))
        job = c.wait(job.id)
        self.must_be_whole(c, job, straight)
        self.assertTrue(all(r.step <= r.from_step + 1 for r in job.recoveries), job.recoveries)

    def test_a_node_is_lost_when_it_has_all_steps(self):
        """It is lost before it tells that it has finished. The last step is repeated, and not all of them."""
        c = self.cluster(workers=4, pservers=2)
        c.wait_nodes(6)
        jobs = [("f32", 4, ({}, {"replicas": 2}), {}), *STATES]
        straights = {name: self.straight(c, pservers=1, **fields) for name, _, _, fields in jobs}
        of_servers = [(name, processes, recovery, fields) for name, processes, ways, fields in jobs for recovery in ways]
        for role, nodes, cases in (("worker", c.workers, [("f32", 4, {}, {})]), ("pserver", c.pservers, of_servers)):
            last = self.instead_of_first(c, role, nodes, "exit-at:FINISHED")
            for name, processes, recovery, fields in cases:
                with self.subTest(name, role=role, **recovery):
                    job = c.wait(c.submit({**JOB, **fields, "pservers": 2, "workerProcesses": processes, "recovery": recovery}).id)
                    self.must_repeat_a_step(c, job, straights[name], [[last.name]])
                    last.wait()
                    last.start()
                    c.wait_nodes(6)
            last.stop()
            nodes.remove(last)
            nodes[0].start()
            c.wait_nodes(6)

    def test_a_node_is_lost_while_files_are_collected(self):
        """One node is frozen when all have finished, so the coordinator waits for its files; then it is killed. The last step is repeated."""
        c = self.cluster(workers=4, pservers=2)
        c.wait_nodes(6)
        kinds = {"f32": {}, "top-k": STATES[0][3]}
        kinds = {**kinds, **{f"{name}, stops early": {**fields, **EARLY} for name, fields in kinds.items()}}
        straights = {name: self.straight(c, pservers=2, **fields) for name, fields in kinds.items()}
        last = self.instead_of_first(c, "worker", c.workers, "stop-at:FINISHED")
        for victim, kind, more in ((c.workers[1], "f32", {}), (c.pservers[0], "f32", COPIES), *((c.pservers[0], kind, {}) for kind in kinds)):
            with self.subTest(kind, victim=victim.name, **more):
                is_early = "stopAt" in kinds[kind]  # servers do not finish such a job, and files are collected only with their consent
                observed = c.workers[1] if is_early else victim
                job = c.submit({**JOB, "pservers": 2, **kinds[kind], **more})
                c.poll("it is frozen before it tells that it has finished", last.is_frozen)
                c.poll("the others have told it", lambda: any(
                    (n.id, n.phase) == (observed.name, coordinator_pb2.NODE_PHASE_FINISHED) for n in c.node_list()))
                if is_early:
                    victim.kill()
                    last.thaw()
                else:
                    victim.freeze()
                    last.thaw()
                    c.wait(job.id, lambda j: j.state == COLLECTING)
                    victim.kill()
                c.poll("it is frozen again, after the step that is repeated", last.is_frozen)
                last.thaw()
                self.must_repeat_a_step(c, c.wait(job.id), straights[kind], [[victim.name]])
                victim.start()
                c.wait_nodes(6)

    def instead_of_first(self, c, role, nodes, fault):
        """A node with a fault, which serves in the place of the first of its role."""
        nodes[0].stop()
        nodes.append(c.add(role, len(nodes), ["--fault", fault]))
        c.wait_nodes(len(c.nodes) - 1)
        return nodes[-1]

    def must_repeat_a_step(self, c, job, straight, lost):
        self.must_be_whole(c, job, straight)
        self.assertEqual([list(r.node_ids) for r in job.recoveries], lost)
        self.assertTrue(all(r.step - r.from_step <= 1 for r in job.recoveries), job.recoveries)

    @same_with_any_registry
    def test_a_step_is_repeated_with_the_weights_from_before_it(self):
        """Workers die while much is on its way: some slices have been stepped then, and others not."""
        c = self.cluster(workers=4, pservers=3)
        c.wait_nodes(7)
        large = {"model": {"preset": "mlp", "widths": [1024, 512]}, "epochs": 30, "evalEverySteps": 1000}
        straight = self.straight(c, pservers=1, **large)
        draw = random.Random(13)
        for _ in range(2):
            self.kill_some(c, {**JOB, **large, "pservers": 3}, straight, draw,
                           lambda d, nodes: [d.choice([p for p in nodes if p in c.workers])], kills=2)
            c.wait_idle()

    @same_with_any_registry
    def test_a_lost_server_whose_shards_are_on_another_rolls_nothing_back(self):
        """Alone, and together with a worker; on servers with 1, 2 and 3 threads. No checkpoint is asked for."""
        c = self.cluster(workers=4, pservers=0)
        c.pservers = [c.add("pserver", i, ["--threads", str(i + 1)]) for i in range(3)]
        c.wait_nodes(7)
        draw = random.Random(12)

        def choose(draw, nodes):
            servers, workers = ([p for p in nodes if p in of] for of in (c.pservers, c.workers))
            return [draw.choice(servers)] + draw.choice([[], [draw.choice(workers)]])

        for name, fields, counts in (("sgd", {}, (2, 3)), ("adam", {"optimizer": {"rule": {"name": "adam"}}}, (3,)),
                                     ("int8", {"codec": {"up": {"name": "int8"}}}, (2,))):
            straight = self.straight(c, pservers=1, evalEverySteps=4, **MORE, **fields)
            for pservers in counts:
                with self.subTest(name, pservers=pservers):
                    self.kill_some(c, {**JOB, **PACE, **MORE, **fields, "pservers": pservers,
                                       "evalEverySteps": 4, "recovery": {"replicas": 2}},
                                   straight, draw, choose, kills=3)
                    c.wait_idle()

    @same_with_any_registry
    def test_a_lost_server_is_computed_anew_of_what_workers_have_kept(self):
        """One, two at once, or the only one; from the beginning, or from a checkpoint. No step but the one under way is repeated."""
        c = self.cluster(workers=4, pservers=0)
        c.pservers = [c.add("pserver", i, ["--threads", str(i + 1)]) for i in range(3)]
        c.wait_nodes(7)
        draw = random.Random(14)

        def choose(draw, nodes):
            servers = [p for p in nodes if p in c.pservers]
            return draw.sample(servers, draw.choice([1, 2]) if len(servers) > 1 else 1)  # there is another one

        for name, every, fields, counts in (("momentum", 10000, {"optimizer": {"rule": {"name": "momentum"}}}, (1, 3)),
                                            ("int8, adam", 7, {"codec": {"up": {"name": "int8"}},
                                                               "optimizer": {"rule": {"name": "adam"}}}, (3,))):
            straight = self.straight(c, pservers=1, evalEverySteps=4, **MORE, **fields)
            for pservers in counts:
                with self.subTest(name, pservers=pservers):
                    self.kill_some(c, {**JOB, **PACE, **MORE, **fields, "pservers": pservers, "evalEverySteps": 4,
                                       "checkpoint": {"everySteps": every}}, straight, draw, choose, kills=3)
                    c.wait_idle()

    @same_with_any_registry
    def test_rows_of_tables_are_lost_with_servers_and_workers(self):
        """Sparse tables that admit by count and age, and a fixed vocabulary by rows: the same rows as without a loss."""
        folder = clicks_folder(self)
        c = self.cluster(workers=4, pservers=0, data=str(folder))
        c.pservers = [c.add("pserver", i, ["--threads", str(i + 1)]) for i in range(3)]
        c.wait_nodes(7)
        draw = random.Random(16)
        rows = {**CLICKS, **MORE, "evalEverySteps": 4}
        ageing = {**rows, "model": {**rows["model"], "table": AGEING}}
        rounded = {"codec": {"up": {"name": "int8"}, "down": {"name": "int8"}}}
        for name, fields in (("sparse", ageing), ("rows", rows), ("sparse, int8", {**ageing, **rounded})):
            straight = self.straight(c, pservers=1, **fields)
            with self.subTest(name):
                job = self.kill_some(c, {**JOB, **PACE, **fields, "pservers": 2, "checkpoint": {"everySteps": 10000}}, straight,
                                     draw, lambda d, nodes: [d.choice([p for p in nodes if p in of]) for of in
                                                             d.choice(([c.workers], [c.pservers]))], kills=2)
                self.assertEqual(rows_of(c.files(job.id)), rows_of(straight))
                c.wait_idle()

    @same_with_any_registry
    def test_a_fixed_vocabulary_whose_weights_are_encoded_goes_back_to_a_checkpoint(self):
        """A worker's rows are what the codec has made of many messages: servers cannot give them once more."""
        folder = clicks_folder(self)
        c = self.cluster(workers=4, pservers=2, data=str(folder))
        c.wait_nodes(6)
        fields = {**CLICKS, **MORE, "codec": {"down": {"name": "int8"}}, "pservers": 2}
        straight = self.straight(c, **fields)
        for victim in (c.workers[1], c.pservers[1]):
            job = c.submit({**JOB, **NO_LEASE, **PACE, **fields}, checkpoint={"everySteps": 4})
            self.stored(c, job.id, 4)
            c.wait(job.id, lambda j: j.progress.step > 4)
            victim.kill()
            victim.start()
            job = c.wait(job.id)
            self.must_be_whole(c, job, straight)
            self.assertEqual([(list(r.node_ids), r.from_step % 4, r.from_step > 0) for r in job.recoveries], [([victim.name], 0, True)])
            c.wait_nodes(6)

    @same_with_any_registry
    def test_rounds_with_sparse_tables_go_back_to_their_last_checkpoint(self):
        """They lose a worker, a server, and one of each; then fewer processes carry their ranks and rows."""
        folder = clicks_folder(self)
        c = self.cluster(workers=4, pservers=3, data=str(folder))
        c.wait_nodes(7)
        for update in ("localsgd", "geo_sum_lag"):
            fields = {**CLICKS, **rounds(update), **MORE, "model": {**CLICKS["model"], "table": AGEING}}
            straight = self.straight(c, pservers=1, **fields)
            with self.subTest(update):
                job = c.submit({**JOB, **PACE, **fields}, pservers=3, checkpoint={"everySteps": 4})
                for i, victims in enumerate(([c.workers[0]], [c.pservers[0]], [c.workers[1], c.pservers[1]])):
                    self.stored(c, job.id, 4 + 4 * i)
                    for victim in victims:
                        victim.kill()
                    c.wait(job.id, lambda j, i=i: j.restarts == i + 1 and j.state == RUNNING)
                job = c.wait(job.id)
                files = self.must_be_whole(c, job, straight)
                self.assertEqual(rows_of(files), rows_of(straight))
                self.assertEqual([r.from_step % 4 for r in job.recoveries], [0, 0, 0])
                self.assertTrue(all(r.from_step > 0 for r in job.recoveries), job.recoveries)
                for victim in (*c.workers[:2], *c.pservers[:2]):
                    victim.start()
                c.wait_nodes(7)

    def test_a_shrink_by_call_is_made_again(self):
        """At the same step: if a server or a worker is lost before that step, and if servers are computed anew behind it, or
        their copies are used. The straight job has its only tick at that step."""
        folder = clicks_folder(self)
        c = self.cluster(workers=4, pservers=3, data=str(folder))
        c.wait_nodes(7)
        draw = random.Random(20)
        steps = 120

        def fields_of(tick):
            return {**CLICKS, "epochs": 1000, "maxSteps": steps, "evalEverySteps": 40,
                    "model": {**CLICKS["model"], "table": {**AGEING, "params": {**AGEING["params"], "tick": tick}}}}

        def kill(job_id, of):
            restarts = c.get(job_id).restarts
            there = {p.node_id for p in c.get(job_id).placements}
            victim = draw.choice([p for p in of if p.name in there])
            victim.kill()
            c.wait(job_id, lambda j: j.restarts == restarts + 1 and j.state == RUNNING)
            victim.start()

        for recovery, first in (({}, c.pservers), ({"replicas": 2}, c.pservers), ({}, c.workers)):
            with self.subTest(first=first[0].name, **recovery):
                job = c.submit({**JOB, **PACE, **fields_of(0), "pservers": 2, "recovery": recovery})
                # so late that the next multiple of the step is behind the end
                c.wait(job.id, lambda j: j.progress.step > steps // 2 - 8)
                shrunk = c.api.ChangeTables(coordinator_pb2.ChangeTablesRequest(
                    job_id=job.id, action=job_pb2.TABLES_ACTION_SHRINK), timeout=30 * PATIENCE).step
                self.assertGreater(2 * shrunk, steps)
                self.assertEqual(list(c.get(job.id).table_shrinks), [shrunk])
                kill(job.id, first)
                self.assertLess(c.get(job.id).recoveries[-1].from_step, shrunk)
                c.wait(job.id, lambda j: j.progress.step > shrunk + 1)
                kill(job.id, c.pservers)
                self.assertGreater(c.get(job.id).recoveries[-1].from_step, shrunk)
                job = c.wait(job.id)
                self.assertEqual((job.state, job.restarts), (DONE, 2), job.message)
                straight = self.straight(c, pservers=1, **fields_of(shrunk))
                files = c.files(job.id)
                self.assertEqual(model_of(files), model_of(straight))
                self.assertEqual(rows_of(files), rows_of(straight))
                c.wait_idle()

    @same_with_any_registry
    def test_a_model_of_nothing_but_sparse_tables_rolls_nothing_back(self):
        """It loses a worker; servers whose rows are computed anew; a server whose rows are on another one."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-pairs-"))
        self.addCleanup(shutil.rmtree, folder)
        write_words(folder)
        c = self.cluster(workers=4, pservers=0, data=str(folder))
        c.pservers = [c.add("pserver", i, ["--threads", str(i + 1)]) for i in range(3)]
        c.wait_nodes(7)
        draw = random.Random(19)
        straight = self.straight(c, pservers=1, **PAIRS)
        for of, pservers, recovery in ((c.workers, 2, {}), (c.pservers, 1, {}), (c.pservers, 3, {}), (c.pservers, 2, {"replicas": 2})):
            with self.subTest(role=of[0].name, pservers=pservers, **recovery):
                job = self.kill_some(c, {**JOB, **PACE, **PAIRS, "pservers": pservers, "recovery": recovery}, straight, draw,
                                     lambda d, nodes, of=of: [d.choice([p for p in nodes if p in of])], kills=2)
                files = c.files(job.id)
                self.assertTrue(rows_of(straight))
                self.assertEqual(rows_of(files), rows_of(straight))
                c.wait_idle()

    @same_with_any_registry
    def test_a_lost_server_whose_rows_are_on_another_rolls_nothing_back(self):
        """Killed alone and together with a worker, and frozen, on servers with 1, 2 and 3 threads."""
        folder = clicks_folder(self)
        write_words(folder)
        c = self.cluster(workers=4, pservers=0, data=str(folder))
        c.pservers = [c.add("pserver", i, ["--threads", str(i + 1)]) for i in range(3)]
        c.wait_nodes(7)
        draw = random.Random(17)

        def choose(draw, nodes):
            servers, workers = ([p for p in nodes if p in of] for of in (c.pservers, c.workers))
            return [draw.choice(servers)] + draw.choice([[], [draw.choice(workers)]])

        rows = {**CLICKS, **MORE, "evalEverySteps": 4}
        sparse = {**rows, "model": {**rows["model"], "table": AGEING}}
        for name, fields, pservers in (("sparse", sparse, 2), ("sparse", sparse, 3), ("rows", rows, 2), ("words", {**WORDS, **MORE}, 3)):
            straight = self.straight(c, pservers=1, **fields)
            copied = {**JOB, **PACE, **fields, "pservers": pservers, "recovery": {"replicas": 2}}
            with self.subTest(name, pservers=pservers):
                job = self.kill_some(c, copied, straight, draw, choose, kills=2)
                self.assertEqual(rows_of(c.files(job.id)), rows_of(straight))
                c.wait_idle()
        job = c.submit({**copied, **sparse})
        of_job = {p.node_id for p in c.wait(job.id, lambda j: j.progress.step > 3).placements}
        victim = draw.choice([p for p in c.pservers if p.name in of_job])
        victim.freeze()
        c.wait(job.id, lambda j: j.restarts == 1 and j.state == RUNNING)
        victim.thaw()
        job = c.wait(job.id)
        straight = self.straight(c, pservers=1, **sparse)
        self.must_repeat_a_step(c, job, straight, [[victim.name]])
        self.assertEqual(rows_of(c.files(job.id)), rows_of(straight))

    @same_with_any_registry
    def test_ranks_with_state_go_on_where_they_are_when_servers_are_lost(self):
        """Residuals, local optimizers, replicas, steps taken ahead of the exchange: with contributions kept, and with copies of shards."""
        c = self.cluster(workers=4, pservers=0)
        c.pservers = [c.add("pserver", i, ["--threads", str(i + 1)]) for i in range(3)]
        c.wait_nodes(7)
        draw = random.Random(15)
        for name, processes, ways, fields in STATES:
            straight = self.straight(c, pservers=1, evalEverySteps=4, **MORE, **fields)
            for recovery in ways:
                with self.subTest(name, **recovery):
                    self.kill_some(c, {**JOB, **PACE, **MORE, **fields, "pservers": 2, "evalEverySteps": 4,
                                       "workerProcesses": processes, "recovery": recovery,
                                       "checkpoint": {"everySteps": 10000}}, straight, draw,
                                   lambda d, nodes: [d.choice([p for p in nodes if p in c.pservers])], kills=2)
                    c.wait_idle()

    @same_with_any_registry
    def test_a_server_is_lost_of_which_nothing_is_kept(self):
        """A server and a worker; more than fits; and if the user says so. Each time from the last checkpoint."""
        c = self.cluster(workers=4, pservers=2)
        c.wait_nodes(6)
        straight = self.straight(c, pservers=2)
        for fields, victims in (({}, [c.pservers[0], c.workers[1]]),
                                ({"model": {"preset": "mlp", "widths": [400]}, "recovery": {"replayMib": 1}}, [c.pservers[0]]),
                                ({"recovery": {"onServerLoss": "LOSS_ACTION_RESTART"}}, [c.pservers[1]])):
            job = c.submit({**JOB, **PACE, **fields}, pservers=2, checkpoint={"everySteps": 6})
            self.stored(c, job.id, 6)
            c.wait(job.id, lambda j: j.progress.step >= 8)
            for victim in victims:
                victim.kill()
            job = c.wait(job.id)
            self.assertEqual(job.state, DONE, job.message)
            if "model" not in fields:
                self.must_be_whole(c, job, straight)
            self.assertEqual([r.from_step % 6 for r in job.recoveries], [0], job.recoveries)
            for victim in victims:
                victim.start()
            c.wait_nodes(6)

    def test_a_killed_process_is_noticed_long_before_its_lease(self):
        c = self.cluster(workers=2, pservers=2)
        c.wait_nodes(4)
        for victim in (c.workers[1], c.pservers[0]):
            job = c.submit({**JOB, **PACE, "workers": 2, "epochs": 1000,
                            "timeouts": {"leaseMs": 60000}})
            c.wait(job.id, lambda j: j.progress.step > 3)
            killed = time.time()
            victim.kill()
            job = c.wait(job.id, lambda j: j.restarts == 1 and j.state == RUNNING)
            r = job.recoveries[0]
            took = r.notice_time.seconds + r.notice_time.nanos * 1e-9 - killed
            print(f"{victim.name}: noticed after {took:.3f} s, trains again {r.seconds:.3f} s later",
                  flush=True)
            self.assertLess(took, PATIENCE)  # of the 60 s of its lease
            self.assertIn("its process has ended", r.message)
            c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
            c.wait(job.id)
            victim.start()
            c.wait_idle()
            c.wait_nodes(4)

    def test_nobody_waits_for_the_answer_of_a_process_that_has_ended(self):
        """It ended before it was sent Abort, or CanCommit."""
        c = self.cluster(workers=4, pservers=1, coordinator_args=["--lease", "60s"])
        c.wait_nodes(5)
        large = {"leaseMs": 60000, "canCommitMs": 20000}
        job = c.submit({**JOB, **PACE, "epochs": 1000, "timeouts": large})
        for after in (0.002, 0.01, 0.03, 0.05):  # the second dies while the attempt of the first is ended
            before = c.wait(job.id, lambda j: j.state == RUNNING and j.progress.step >
                            max([r.from_step for r in j.recoveries], default=1) + 2)
            victims = [p for p in c.workers if p.name in {at.node_id for at in before.placements}][:2]
            killed = time.monotonic()
            victims[0].process.kill()
            while time.monotonic() < killed + after:  # a poll is too coarse
                pass
            for victim in reversed(victims):
                victim.kill()
            c.wait(job.id, lambda j, before=before, gone={v.name for v in victims}: j.restarts > before.restarts
                   and j.state == RUNNING and not gone & {at.node_id for at in j.placements})
            took = time.monotonic() - killed
            print(f"{after * 1000:.0f} ms apart: trains again after {took:.2f} s", flush=True)
            self.assertLess(took, 5)  # which a process that is frozen has to answer Abort
            for victim in victims:
                victim.start()
            c.wait_nodes(5)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)
        c.wait(job.id)
        c.wait_idle()
        c.workers[3].kill()
        killed = time.monotonic()
        job = c.submit({**JOB, "timeouts": large}, workersMin=4, workersMax=4)
        c.wait(job.id, lambda j: j.state == QUEUED and j.attempt == 1)
        took = time.monotonic() - killed
        print(f"not asked any more after {took:.2f} s", flush=True)
        self.assertLess(took, 20)  # which nodes have to answer
        c.workers[3].start()
        self.assertEqual(c.wait(job.id).state, DONE)

    def test_a_frozen_worker_does_not_come_back_into_the_job(self):
        c = self.cluster(workers=4, pservers=1)
        c.wait_nodes(5)
        straight = self.straight(c)
        job = c.submit({**JOB, **PACE}, checkpoint={"everySteps": 5})
        self.stored(c, job.id, 5)
        c.workers[1].freeze()
        job = c.wait(job.id, lambda j: j.restarts == 1 and j.state == RUNNING)
        self.assertGreater(job.recoveries[0].silent_seconds, LEASE_MS / 1000 - 0.5)
        c.workers[1].thaw()
        job = c.wait(job.id)
        self.assertEqual(job.restarts, 1)
        self.must_be_whole(c, job, straight)
        c.wait_idle()

    @same_with_any_registry
    def test_a_frozen_worker_keeps_what_a_lost_server_needs(self):
        """Nobody waits for it longer than its lease, and what the others have given is discarded."""
        c = self.cluster(workers=4, pservers=1)
        c.wait_nodes(5)
        straight = self.straight(c)
        job = c.submit({**JOB, **PACE}, checkpoint={"everySteps": 5})
        self.stored(c, job.id, 5)
        c.workers[3].freeze()
        c.pservers[0].kill()
        folder = c.folder / "coordinator" / "jobs" / job.id / "checkpoints"
        c.poll("what is left is collected", lambda: any(folder.glob(".*-1.tmp")))
        c.wait(job.id, lambda j: j.restarts == 1, seconds=20)
        c.workers[3].thaw()
        c.pservers[0].start()
        self.must_be_whole(c, c.wait(job.id), straight)
        self.assertEqual(list(folder.glob(".*")), [])

    def test_an_asynchronous_job_goes_on_after_a_lost_server(self):
        """The steps since are counted and said."""
        c = self.cluster(workers=2, pservers=2)
        c.wait_nodes(4)
        job = c.submit({**JOB, **PACE, "epochs": 1, "consistency": {"name": "asp"}}, workers=2, pservers=2)
        c.wait(job.id, lambda j: j.progress.step > 3)
        c.pservers[1].kill()
        job = c.wait(job.id)
        self.assertEqual((job.state, job.restarts), (DONE, 1), f"{job.reason} {job.message}")
        r = job.recoveries[0]
        self.assertEqual((r.reason, list(r.node_ids), r.from_step), ("NODE_LOST", ["pserver-1"], 0))
        self.assertGreater(r.step, 3)
        self.assertGreaterEqual(job.progress.steps_repeated, r.step)

    def test_what_is_shown_of_a_job_that_recovers(self):
        """What it waits for, and a time that remains which fits the pace of its steps."""
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        job = c.submit({**JOB, **PACE, "epochs": 3, "workers": 1,
                        "checkpoint": {"everySteps": 10}}, pservers=1)
        c.wait(job.id, lambda j: j.progress.step >= 40 and j.result)
        self.stored(c, job.id, 40)
        c.pservers[0].kill()
        waits = c.wait(job.id, lambda j: j.reason == "WAITING_FOR_NODES")
        self.assertEqual((waits.progress.eta_seconds, waits.progress.samples_per_second), (0, 0))
        shown = subprocess.run([BIN / "psgd", "--coordinator", c.coordinator.address, "list"],
                               capture_output=True, text=True, timeout=20 * PATIENCE).stdout
        self.assertIn(waits.message[:40], shown)
        c.pservers[0].start()
        etas = []

        def look(j):
            if j.state == RUNNING and j.progress.eta_seconds > 0:
                etas.append((j.progress.step, j.progress.eta_seconds))
            return j.progress.step >= 80
        c.wait(job.id, look)
        self.assertTrue(etas)
        for step, eta in etas:  # 40 steps an epoch, of at least 0.1 s
            self.assertGreater(eta, 0.05 * (120 - step), etas)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=10 * PATIENCE)

    def test_it_waits_for_what_it_cannot_do_without(self):
        """Also over the end of the coordinator; and no longer than it was told to."""
        c = self.cluster(workers=4, pservers=1)
        c.wait_nodes(5)
        straight = self.straight(c)
        job = c.submit({**JOB, **PACE}, checkpoint={"everySteps": 5})
        self.stored(c, job.id, 5)
        c.pservers[0].kill()
        job = c.wait(job.id, lambda j: j.state == QUEUED and j.reason == "WAITING_FOR_NODES")
        self.assertIn("needs 1 pserver, 0 idle", job.message)
        c.coordinator.kill()
        c.restart_coordinator()
        c.pservers[0].start()
        job = c.wait(job.id)
        self.must_be_whole(c, job, straight)
        job = c.submit({**JOB, **PACE, "recovery": {"waitSeconds": 1}})
        c.wait(job.id, lambda j: j.progress.step > 1)
        c.pservers[0].kill()
        job = c.wait(job.id)
        self.assertEqual((job.state, job.reason), (FAILED, "NODE_LOST"))
        self.assertIn("pserver-0", job.message)
        self.assertIn("within 1.0 s (recovery.wait_seconds): needs 1 pserver", job.message)

    def test_nodes_die_while_the_coordinator_reads_a_checkpoint_for_the_others(self):
        """An attempt that is given up while its files are read ends, and the coordinator goes on."""
        deaths = 8
        c = self.cluster(workers=3, pservers=2)
        mortal = c.add("worker", 9, ["--fault", "exit-at:PREPARING"])
        c.wait_nodes(6)
        job = c.submit({**JOB, **PACE, "epochs": 1000, "model": {"preset": "mlp", "widths": [600, 600]}},
                       workerProcesses=3, pservers=2, checkpoint={"everySteps": 5}, recovery={"maxRestarts": 100000})
        for n in range(deaths):
            c.wait(job.id, lambda j: j.state == RUNNING and j.progress.step > 6)
            worker = c.workers[n % 3]
            worker.kill()  # the job needs the other one
            c.poll("the other one has died", lambda: mortal.process.poll() is not None)
            mortal.process.stdout.close()
            worker.start()
            mortal.start()
            self.assertIsNone(c.coordinator.process.poll(), f"after {n + 1} deaths")
        self.assertEqual(mortal.stop(), 0)

    def test_only_so_often_and_only_if_it_may(self):
        c = self.cluster(workers=4, pservers=1)
        c.wait_nodes(5)
        job = c.submit({**JOB, **PACE, "epochs": 1000, "recovery": {"maxRestarts": 1}})
        c.wait(job.id, lambda j: j.progress.step > 1)
        c.workers[0].kill()
        c.wait(job.id, lambda j: j.restarts == 1 and j.state == RUNNING)
        c.workers[1].kill()
        job = c.wait(job.id)
        self.assertEqual((job.state, job.reason), (FAILED, "NODE_LOST"))
        self.assertIn("worker-1", job.message)
        for w in c.workers[:2]:
            w.start()
        c.wait_idle()
        c.wait_nodes(5)
        job = c.submit({**JOB, **PACE, **FRAGILE})
        c.wait(job.id, lambda j: j.progress.step > 1)
        c.workers[0].kill()
        job = c.wait(job.id)
        self.assertEqual((job.state, job.reason, job.restarts), (FAILED, "NODE_LOST", 0))


if __name__ == "__main__":
    main()
