#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_trace.py - the timeline of a job in a cluster: trace: {from_step, steps}."""
import collections
import json
import re
import subprocess
import time

import grpc
import timeline
from harness import BIN, PATIENCE, SMALL, ClusterTest, coordinator_pb2, job_pb2, main, tensors

MODEL = "MODEL-t-N(ps).safetensors"
# Large enough that 2 % of what a rank computes are many readings of a clock.
JOB = {**SMALL, "title": "t", "model": {"preset": "mlp", "widths": [512]}, "workers": 2, "pservers": 1, "epochs": 2, "evalEverySteps": 10,
       "codec": {"up": {"name": "int8"}, "down": {"name": "int8"}}}
STEPS = 40  # 2 epochs of 2000 samples, blocks of 50 at 2 workers


class Timeline(ClusterTest):
    def trained(self, c, **fields):
        job = c.wait(c.submit({**JOB, **fields}).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        return job, c.files(job.id)

    def test_two_workers_and_a_server(self):
        c = self.cluster(workers=2, pservers=1)
        began_us = time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6
        job, files = self.trained(c, trace={"fromStep": 5, "steps": 30})
        root = timeline.read(self, files["TRACE-t.json.gz"])
        slices = timeline.slices_of(root)
        self.assertEqual({a.name: a.kind for a in job.artifacts}["TRACE-t.json.gz"],
                         job_pb2.ARTIFACT_KIND_REPORT)
        self.assertEqual(timeline.processes_of(root), {1: "worker 0", 2: "worker 1", 3: "server 0"})
        timeline.check_nesting(self, slices)
        timeline.check_rounds(self, slices, files["ROUND-t.csv"], 5, 34, ranks=2)
        self.assertEqual({e["args"]["step"] for e in slices}, set(range(5, 35)))
        names = {(e["cat"], e["pid"], e["tid"], e["name"].split(" ")[0]) for e in slices}
        self.assertEqual(names, {("worker", pid, 1, n) for pid in (1, 2)
                                 for n in ("step", "data", "forward", "backward", "wait", "evaluate")} |
                         {("worker", pid, 2, n) for pid in (1, 2) for n in ("encode", "send", "decode")} |
                         {("server", 3, 1, n) for n in ("decode", "sum", "step", "serve", "wait")})
        self.assertFalse(list((c.folder / "coordinator" / "jobs" / job.id).glob(".*")))  # parts are gone
        self.check_clock(root, slices, began_us)
        self.check_arrows(root)
        self.check_waits(slices)

    def check_clock(self, root, slices, began_us):
        """All processes of this cluster have the same clock, so what is aligned is wrong by the error."""
        error_us = root["otherData"]["clock_error_us"]
        labels = [e["args"]["clock_error_us"] for e in root["traceEvents"] if e["name"] == "process_labels"]
        self.assertEqual(len(labels), 3)
        self.assertEqual(max(labels), error_us)
        self.assertTrue(0 < min(labels) and error_us < 1e6, labels)
        self.assertGreaterEqual(min(e["ts"] for e in slices), began_us - error_us)
        self.assertLessEqual(max(e["ts"] + e["dur"] for e in slices),
                             time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6 + error_us)

    def check_arrows(self, root):
        """Each rank pushes each step: every arrow begins at it, passes the server and ends at it."""
        slack = 2 * root["otherData"]["clock_error_us"]
        arrows = timeline.arrows_of(root)
        self.assertEqual(set(arrows), {f"{rank}.{step}.0" for rank in (0, 1) for step in range(5, 35)})
        for name, ends in arrows.items():
            rank = int(name.split(".")[0])
            self.assertEqual({ph: [e["pid"] for e in at] for ph, at in ends.items()},
                             {"s": [rank + 1], "t": [3], "f": [rank + 1]}, name)
            s, t, f = (ends[ph][0]["ts"] for ph in "stf")
            self.assertLessEqual(s, f, name)  # by one clock
            self.assertLessEqual(s, t + slack, name)
            self.assertLessEqual(t, f + slack, name)

    def check_waits(self, slices):
        """A server waits for workers, a worker for the server; a worker has pushed before a wait ends."""
        whom = collections.defaultdict(set)
        for e in slices:
            if e["name"] == "wait":
                whom[e["cat"]].update(e["args"]["waits_for"])
        self.assertEqual(whom["server"], {"worker 0", "worker 1"})
        self.assertEqual(whom["worker"], {"server 0"})

    def test_slices_of_servers_are_what_they_count(self):
        c = self.cluster(workers=2, pservers=2)
        _, files = self.trained(c, pservers=2, trace={"steps": STEPS})
        root = timeline.read(self, files["TRACE-t.json.gz"])
        for node in json.loads(files["summary.json"])["nodes"]:
            if node["role"] != "pserver":
                continue
            mine = [e for e in timeline.slices_of(root) if e["pid"] == 3 + node["rank"]]
            kinds = collections.Counter(e["name"] for e in mine)
            counted = node["counters"]
            self.assertEqual(kinds["sum"], int(counted["applied"]))
            self.assertEqual(kinds["serve"], int(counted["messages_down"]) - 2 * STEPS)  # acknowledgements
            timeline.check_nesting(self, mine)

    def traced(self, c, job_id, *options):
        folder = c.folder / "traced"
        out = subprocess.run([BIN / "psgd", "-c", c.coordinator.address, "trace", job_id, "-o", folder, *options],
                             capture_output=True, text=True, timeout=60 * PATIENCE)
        return out.returncode, out.stdout, out.stderr, folder

    def test_steps_of_a_job_that_trains(self):
        """psgd trace: as often as one asks; the job goes on to the same bits. With two ranks on one worker."""
        c = self.cluster(workers=1, pservers=2)
        c.wait_nodes(3)
        fields = {"pservers": 2, "workerProcesses": 1, "epochs": 12}
        _, straight = self.trained(c, **fields)
        job = c.submit({**JOB, **fields, "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 20}}})
        c.wait(job.id, lambda j: j.progress.step > 2)
        names = []
        for steps in (8, 3):
            code, said, error, folder = self.traced(c, job.id, "--steps", str(steps))
            self.assertEqual(code, 0, error)
            name, first = re.search(rf"/(TRACE-t-\d+\.json\.gz): {steps} steps from step (\d+); open", said).groups()
            root = timeline.read(self, (folder / name).read_bytes())
            slices = timeline.slices_of(root)
            self.assertEqual(timeline.processes_of(root), {1: "worker 0", 2: "worker 1", 3: "server 0", 4: "server 1"})
            self.assertEqual({e["args"]["step"] for e in slices}, set(range(int(first), int(first) + steps)))
            self.assertEqual({e["pid"] for e in slices}, {1, 2, 3, 4})
            self.assertEqual(sum(e["name"] == "step" and e["pid"] == 2 for e in slices), steps)
            timeline.check_nesting(self, slices)
            names.append(name)
        code, _, error, _ = self.traced(c, job.id, "--steps", "1000")
        self.assertEqual(code, 1)
        self.assertRegex(error, r"job \S+ ends after 240 steps: 1000 from step \d+ on are too many")
        job = c.wait(job.id)
        files = c.files(job.id)
        self.assertEqual({name for name in files if name.startswith("TRACE")}, set(names))
        self.assertEqual(tensors(files[MODEL]), tensors(straight[MODEL]))
        timeline.check_rounds(self, slices, files["ROUND-t.csv"], int(first), int(first) + 2, ranks=2)
        self.assertEqual({a["name"] for a in json.loads(files["manifest.json"])["files"] if "TRACE" in a["name"]},
                         set(names))
        code, _, error, _ = self.traced(c, job.id)
        self.assertEqual(code, 1)
        self.assertIn("does not train", error)
        job = c.submit({**JOB, **fields, "trace": {"steps": 4}, "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 20}}})
        c.wait(job.id, lambda j: j.progress.step > 2)
        self.assertIn("has `trace`", self.traced(c, job.id)[2])

    def test_a_job_whose_pace_is_not_known_yet(self):
        """No steps are named before it is; else they are over when nodes hear of them."""
        c = self.cluster(workers=2, pservers=1)
        c.wait_nodes(3)
        job = c.submit({**JOB, "model": {"preset": "mlp", "widths": [16]}, "epochs": 100000,
                        "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 1}}})
        c.wait(job.id, lambda j: j.progress.step > 2)
        for _ in range(2):
            code, _, error, _ = self.traced(c, job.id, "--steps", "3")
            self.assertEqual(code, 0, error)

    def test_a_process_is_lost_meanwhile(self):
        """There is no timeline then; there is one of the next attempt, on the nodes that are left."""
        c = self.cluster(workers=2, pservers=1)
        c.wait_nodes(3)
        job = c.submit({**JOB, "epochs": 1000, "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 20}}})
        c.wait(job.id, lambda j: j.progress.step > 2)
        asked = c.api.TraceJob.future(coordinator_pb2.TraceJobRequest(job_id=job.id, steps=5000), timeout=60 * PATIENCE)
        c.poll("it is named", lambda: "timeline of 5000 steps" in c.coordinator.log())
        c.workers[1].kill()
        self.assertEqual(asked.exception().details(),
                         f"job {job.id} goes on with its next attempt: ask again when it trains")
        c.wait(job.id, lambda j: j.restarts == 1 and j.state == job_pb2.JOB_STATE_RUNNING)
        c.poll("it trains", lambda: self.traced(c, job.id, "--steps", "3")[0] == 0)
        name, = {a.name for a in c.get(job.id).artifacts}
        root = timeline.read(self, (c.folder / "traced" / name).read_bytes())
        self.assertEqual(timeline.processes_of(root), {1: "worker 0", 2: "worker 1", 3: "server 0"})

    def test_a_timeline_nobody_waits_for_is_given_up(self):
        """Another one can be had at once."""
        c = self.cluster(workers=2, pservers=1)
        c.wait_nodes(3)
        job = c.submit({**JOB, "epochs": 1000, "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 20}}})
        c.wait(job.id, lambda j: j.progress.step > 2)
        with self.assertRaises(grpc.RpcError) as caught:
            c.api.TraceJob(coordinator_pb2.TraceJobRequest(job_id=job.id, steps=10000), timeout=1)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        c.poll("it is given up", lambda: self.traced(c, job.id, "--steps", "2")[0] == 0)
        self.assertFalse(list((c.folder / "coordinator" / "jobs" / job.id).glob(".trace*")))
        with self.assertRaises(grpc.RpcError) as caught:
            c.api.TraceJob(coordinator_pb2.TraceJobRequest(job_id=job.id, steps=10001), timeout=10)
        self.assertIn("steps: is 10001; 1 to 10000 are allowed", caught.exception.details())

    def test_a_job_without_it_has_no_file_and_the_same_bits(self):
        c = self.cluster(workers=2, pservers=1)
        _, with_it = self.trained(c, trace={})
        _, without = self.trained(c)
        self.assertIn("TRACE-t.json.gz", with_it)
        self.assertEqual(set(with_it) - set(without), {"TRACE-t.json.gz"})
        self.assertEqual(tensors(with_it[MODEL]), tensors(without[MODEL]))


if __name__ == "__main__":
    main()
