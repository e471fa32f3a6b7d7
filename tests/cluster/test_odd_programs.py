# SPDX-License-Identifier: Apache-2.0
"""Programs in C that compute a job's model and do what they should not; with sanitizers, too."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import harness
from psgd.v1 import job_pb2

JOB = {"title": "odd", "workers": 2, "block_size": 1, "epochs": 1, "data": {"params": {"samples": 2 * 40}},
       "model": {"foreign": [{"name": "w", "shape": [70], "uniform": 0.1}, {"name": "b", "shape": [3]}]},
       "optimizer": {"rule": {"name": "sgd", "params": {"lr": 0.1}}}}


class OddPrograms(harness.ClusterTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.programs, self.cluster_ = pathlib.Path(folder.name), [], self.cluster(workers=0, pservers=1)
        self.addCleanup(self.end_programs)

    def end_programs(self):
        for p in self.programs:
            p.kill()
            p.communicate()

    def start(self, what):
        """Starts a program; it has joined when this returns."""
        with open(self.folder / f"{len(self.programs)}.err", "w", encoding="utf-8") as log:
            self.programs.append(subprocess.Popen(
                [os.environ["PSGD_ODD_LOOP"], self.cluster_.coordinator.address, what], stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, "PSGD_WORKER": os.path.join(harness.BIN, "psgd-worker"), "XDG_STATE_HOME": str(self.folder)}))
        self.assertEqual(self.programs[-1].stdout.readline(), "joined\n")
        return self.programs[-1]

    def told(self):
        """What the programs and their workers have written; nothing of a sanitizer."""
        text = "".join(path.read_text() for path in sorted(self.folder.glob("*.err")))
        self.assertNotRegex(text, r"Sanitizer|runtime error:")
        return text

    def ended(self, job):
        return self.cluster_.wait(job.id, seconds=60 * harness.SLOW)

    def together(self, *whats):
        """Runs a job of these programs; returns it when it has ended, and their exit codes if it is done."""
        programs = [self.start(what) for what in whats]
        job = self.ended(self.cluster_.submit(JOB))
        done = job.state == job_pb2.JOB_STATE_DONE
        return job, [p.wait(60 * harness.SLOW) for p in programs] if done else []

    def stands_in(self, odd, code):
        """Runs a job of one worker, which the odd program begins and a good one ends."""
        first = self.start(odd)
        job = self.cluster_.submit({**JOB, "workers": 1, "timeouts": {"step_ms": int(3000 * harness.SLOW)}})
        self.cluster_.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
        second = self.start("good")
        job = self.ended(job)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.message}\n{self.told()}")
        self.assertEqual(len(job.recoveries), 1)
        self.assertEqual(second.wait(60 * harness.SLOW), 0, self.told())
        if code is not None:
            self.assertEqual(first.wait(60 * harness.SLOW), code, self.told())
        self.told()

    def test_a_program_that_forks(self):
        job, codes = self.together("fork", "good")
        self.assertEqual((job.state, codes), (job_pb2.JOB_STATE_DONE, [0, 0]), f"{job.message}\n{self.told()}")

    def test_a_program_that_exits_without_leave(self):
        self.stands_in("exit", 3)

    def test_a_program_that_never_asks_for_a_step(self):
        """Its worker is lost; the program itself goes on as it likes."""
        self.stands_in("idle", None)

    def test_a_program_that_sends_what_is_not_finite(self):
        job, _ = self.together("nan", "good")
        self.assertEqual(job.state, job_pb2.JOB_STATE_FAILED)
        # The server says so, or the worker whose push it has refused: the coordinator has the first that comes.
        self.assertRegex(job.message, r"diverged: (PushGradient to pserver-0: )?rank \d, clock 5: w: slice 0: value 0 is not finite")
        self.told()


if __name__ == "__main__":
    unittest.main()
