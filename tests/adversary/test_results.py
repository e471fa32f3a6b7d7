# SPDX-License-Identifier: Apache-2.0
"""test_results.py - a member of a job leaves files that are not its own, or that are too large, or
says that it has finished what it never did."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import timeline  # noqa: E402
from harness import FINAL, SMALL, ClusterTest, coordinator_pb2, job_pb2, main  # noqa: E402
from rogue import Rogue  # noqa: E402

MODEL, REPORT = job_pb2.ARTIFACT_KIND_MODEL, job_pb2.ARTIFACT_KIND_REPORT
LOG, EVENTS = job_pb2.ARTIFACT_KIND_LOG, job_pb2.ARTIFACT_KIND_EVENTS
# Workers exchange among themselves: one of them can end the job alone.
RING = {**SMALL, "title": "own", "exchange": {"name": "ring"}}
MIB = 1 << 20
STEPS = 320  # of SMALL with one worker


def progress(rank, step):
    return coordinator_pb2.WorkerProgress(rank=rank, step=step, total_steps=STEPS)


class ResultTest(ClusterTest):
    def setUp(self):
        self.c = self.cluster(workers=0, pservers=0)
        self.rogue = Rogue(self.c.coordinator.address)
        self.addCleanup(self.rogue.close)
        self.rogue.claims = {"progress": [progress(0, STEPS)]}
        self.c.wait_nodes(1)

    def leave(self, *files, **fields):
        """The job of a worker that leaves these files, when it is over."""
        self.rogue.leaves = list(files)
        return self.c.wait(self.c.submit(RING, **fields).id, lambda j: j.state in FINAL)

    def test_its_own_files_are_taken(self):
        mine = [("TR-own-N(0).csv", REPORT, b"time_s\n"), ("EV-own-N(0).csv", REPORT, b"epoch\n"),
                ("MODEL-own-N(0).safetensors", MODEL, b"model"), ("MODEL-own-N(0).onnx", MODEL, b"m"),
                ("TB-own-N(0)/events.out.tfevents.psgd", EVENTS, b"e"), ("any.log", LOG, b"{}\n")]
        parts = [("ROUND-own-N(0).part", REPORT, b"no part")]
        job = self.leave(*mine, *parts)
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_DONE", job.message)
        files = self.c.files(job.id)
        self.assertFalse([name for name in files if "ROUND" in name])  # it is no record
        for name, kind, content in mine:
            if kind != LOG:
                self.assertEqual(files[name], content)

    def test_files_of_others_are_refused(self):
        for name, kind in (("weights.f32", MODEL), ("MODEL-own-N(1).safetensors", MODEL),
                           ("MODEL-own-N(ps).safetensors", MODEL), ("MODEL-x-N(0).onnx", MODEL),
                           ("EV-own-N(1).csv", REPORT), ("ROUND-own-N(1).part", REPORT),
                           ("ROUND-own.csv", REPORT), ("TR-own-N(2).csv", REPORT),
                           ("TR-own-N(0).csv", MODEL), ("TB-own-N(1)/events.out.tfevents.psgd", EVENTS),
                           ("LOG-own-N(rogue).jsonl", REPORT), ("summary.json", REPORT),
                           ("trace.part", REPORT)):
            job = self.leave((name, kind, b"junk"))
            self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", name)
            self.assertIn("rogue", job.message)
            self.assertIn("leaves no file", job.message)
            self.assertNotIn(b"junk", self.c.files(job.id).values())

    def test_a_part_of_a_timeline_is_junk(self):
        event = b'{"ph":"i","name":"mark","pid":1,"tid":1,"ts":1}\n'
        job = self.leave(("trace.part", REPORT, b'"' * 10000 + b"\n]}\n" + event + b"\xff\n{"), trace={})
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_DONE", job.message)
        (mark,) = timeline.read(self, self.c.files(job.id)["TRACE-own.json.gz"])["traceEvents"]
        self.assertEqual(mark["name"], "mark")
        job = self.leave(("trace.part", REPORT, bytes(100 * MIB)), trace={})
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED")
        self.assertIn(f"104857600 bytes, at most {64 * MIB} are allowed", job.message)

    def test_a_file_comes_once(self):
        job = self.leave(("TR-own-N(0).csv", REPORT, b"one"), ("TR-own-N(0).csv", REPORT, b"two"))
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED")
        self.assertIn("came before", job.message)

    def test_no_file_is_larger_than_it_can_be(self):
        for name, kind in (("MODEL-own-N(0).safetensors", MODEL), ("TR-own-N(0).csv", REPORT),
                           ("ROUND-own-N(0).part", REPORT), ("x", LOG)):
            job = self.leave((name, kind, bytes(100 * MIB)))
            self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", name)
            self.assertRegex(job.message, r"104857600 bytes, at most \d+ are allowed")
            # What flows before the refusal arrives is bounded by windows, not by the file.
            self.assertLess(self.rogue.sent, 20 * MIB)

    def must_fail(self, job, why):
        self.assertEqual(job_pb2.JobState.Name(job.state), "JOB_STATE_FAILED", job.message)
        self.assertEqual(job.reason, "NODE_FAILED", job.message)
        self.assertRegex(job.message, rf"^worker rogue \(\S+\) failed: it says that it has finished, but "
                                      rf"{why}")

    def test_who_is_not_at_the_end_has_not_finished(self):
        for claims in ([], [progress(0, STEPS - 1)], [progress(0, STEPS + 1)], [progress(1, STEPS)]):
            self.rogue.claims = {"progress": claims}
            step = claims[0].step if claims and claims[0].rank == 0 else 0
            self.must_fail(self.leave(), rf"its rank 0 is at step {step} of {STEPS}$")

    def test_servers_know_who_has_not_trained(self):
        """It says that it is at the end, but brought nothing."""
        self.c.pservers.append(self.c.add("pserver", 0))
        self.c.wait_nodes(2)
        for policy in ("bsp", "asp"):
            with self.subTest(policy=policy):
                job = self.c.wait(self.c.submit(SMALL, consistency={"name": policy}).id)
                self.must_fail(job, "contributions of its rank 0 are missing on pserver-0$")


if __name__ == "__main__":
    main()
