#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""psgd explain: names what bounds jobs of which that is known, and what it foretells comes true."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

from harness import BIN, PATIENCE, SMALL, ClusterTest, main

# Little to compute, much to exchange.
HEAVY = {"model": {"preset": "mlp", "widths": [512]}, "blockSize": 8, "epochs": 100000}

LARGE_IMAGES = 9000  # of 64 x 64 bytes: more than 32 MiB


def write_images(test, count):
    """Images of noise in MNIST's format, in a folder for PSGD_DATA."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-images-"))
    test.addCleanup(shutil.rmtree, folder, True)
    (folder / "mnist").mkdir()
    for kind, n in (("train", count), ("t10k", 16)):
        (folder / "mnist" / f"{kind}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, n, 64, 64) + os.urandom(n << 12))
        (folder / "mnist" / f"{kind}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, n) + bytes(i % 10 for i in range(n)))
    return str(folder)


class ExplainTest(ClusterTest):
    def explain(self, c, job_id, *args):
        p = subprocess.run([str(BIN / "psgd"), "--coordinator", c.coordinator.address, "--format", "json",
                            "explain", *args, job_id], capture_output=True, text=True, timeout=60 * PATIENCE)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        said = json.loads(p.stdout)
        self.assertAlmostEqual(sum(said["shares"].values()), 1, places=6)
        return said

    def run_psgd(self, c, *args):
        p = subprocess.run([str(BIN / "psgd"), "--coordinator", c.coordinator.address, *args], capture_output=True,
                           text=True, timeout=60 * PATIENCE)
        return p.returncode, p.stderr

    def trained(self, c, **changes):
        job = c.wait(c.submit({**SMALL, **changes}).id)
        return self.explain(c, job.id)

    def explained(self, c, **fields):
        """A job while it trains, which is then cancelled."""
        job = c.submit({**SMALL, **fields})
        c.wait(job.id, until=lambda j: j.progress.step > 5, seconds=60)
        said = self.explain(c, job.id, "--for", "4s")
        self.run_psgd(c, "cancel", job.id)
        c.wait(job.id)
        c.wait_idle()
        return said

    def explain_now(self, c, windows=1, **fields):
        """What bounds the exchange of a job while it trains. `shares` are the means of so many windows of 3 s."""
        job = c.submit({**SMALL, **fields})
        c.wait(job.id, until=lambda j: j.progress.step > 20, seconds=60)
        self.explain(c, job.id, "--for", "2s")  # leaves a timeline with the job, which is no report of it
        all_said = [self.explain(c, job.id, "--for", "3s") for _ in range(windows)]
        for said in all_said:
            self.assertEqual(said["cause"], "exchange", said)
            now = said["exchange"]
            print({k: round(v, 2) for k, v in now["shares"].items()}, now["step_seconds"], file=sys.stderr)
            self.assertGreaterEqual(now["steps"], 3)
            self.assertGreater(sum(now["shares"].values()), 0.4)
        self.assertEqual(len({said["exchange"]["bound_by"] for said in all_said}), 1, all_said)
        now["shares"] = {way: sum(said["exchange"]["shares"][way] for said in all_said) / windows for way in now["shares"]}
        self.run_psgd(c, "cancel", job.id)
        c.wait(job.id)
        c.wait_idle()
        return {**now, "steps_per_second": said["steps_per_second"],
                **{(f["codec_up"], f["codec_down"], f["times_servers"], f["local_steps"]): f["steps_per_second"]
                   for f in said["forecasts"]}}

    def must_be_foretold(self, c, said, forecast, **fields):
        """With these fields the job has the rate that was foretold: (codec up, codec down, times the servers, local steps)."""
        job = c.submit({**SMALL, **fields})
        c.wait(job.id, until=lambda j: j.progress.step > 20, seconds=60)
        after = self.explain(c, job.id, "--for", "3s")["steps_per_second"]
        print(f"{forecast}: {said['steps_per_second']:.2f} steps/s; foretold {said[forecast]:.2f}, measured {after:.2f}",
              file=sys.stderr)
        self.must_agree(after, said[forecast])
        self.run_psgd(c, "cancel", job.id)
        c.wait(job.id)
        c.wait_idle()

    def must_come_true(self, before, share, after):
        foretold = before["steps_per_second"] / (1 - share)
        print(f"{before['steps_per_second']:.2f} steps/s; foretold {foretold:.2f}, "
              f"measured {after['steps_per_second']:.2f}", file=sys.stderr)
        self.must_agree(after["steps_per_second"], foretold)

    def must_agree(self, measured, expected):
        self.assertLess(abs(measured - expected), 0.25 * expected)


class Explain(ExplainTest):
    """Of jobs that compute, or whose steps are short."""

    def test_computing_is_named(self):
        c = self.cluster(workers=1, pservers=1)
        cnn = {"workers": 1, "epochs": 100, "model": {"preset": "cnn"}, "data": {"name": "glyphs", "trainLimit": 3000, "testLimit": 50}}
        said, after = (self.explained(c, **cnn, blockSize=size) for size in (64, 32))
        self.assertEqual(said["cause"], "compute")
        self.assertEqual(len(said["workers"]), 1)
        self.must_come_true(said, said["shares"]["compute"] / 2, after)

    def test_folders_that_lack_files_are_refused(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-explain-"))
        self.addCleanup(shutil.rmtree, folder, True)

        def psgd(*args):
            p = subprocess.run([str(BIN / "psgd"), *args], cwd=folder, capture_output=True, text=True,
                               timeout=60 * PATIENCE)
            return p.returncode, p.stderr

        (folder / "job.json").write_text(json.dumps({**SMALL, "workers": 2}))
        self.assertEqual(psgd("train", "job.json", "--out", "run"), (0, ""))
        self.assertEqual(psgd("explain", "run"), (0, ""))
        summary = json.loads((folder / "run" / "summary.json").read_text())
        del summary["nodes"][1]["ranks"][0]["seconds_computing"]
        (folder / "run" / "summary.json").write_text(json.dumps(summary))
        code, err = psgd("explain", "run")
        self.assertEqual(code, 1)
        self.assertIn("worker 1: summary.json does not say where its time went", err)
        (folder / "run" / "summary.json").unlink()
        code, err = psgd("explain", "run")
        self.assertEqual(code, 1)
        self.assertIn("summary.json", err)

    def test_a_slow_disk_is_named(self):
        """The training data is larger than what a worker keeps in memory, and each read of its disk takes 2 ms."""
        data, slow = write_images(self, LARGE_IMAGES), []

        def env(name):
            return {"LD_PRELOAD": str(BIN.parent / "tests" / "slow_disk.so"), "SLOW_DISK_MS": "2", "SLOW_DISK_READS": "1",
                    "SLOW_DISK_DIR": f"{slow[0].parent}/{name}/", "SLOW_DISK_ON": str(slow[0])}

        c = self.cluster(workers=2, pservers=1, data=data, node_env=env, prepare=lambda f: slow.append(f / "slow"))
        held_up = {"rank": 0, "ms": 10, "others_ms": 10}  # so that a step takes some time when the disk is fast
        fields = {**SMALL, "workers": 2, "model": {"preset": "linear"}, "blockSize": 16, "epochs": 100,
                  "straggler": {"name": "fixed", "params": held_up},
                  "data": {"name": "mnist", "params": {"rows": 64, "columns": 64}, "trainLimit": LARGE_IMAGES, "testLimit": 16}}
        slow[0].touch()
        job = c.submit(fields)
        c.wait(job.id, until=lambda j: j.progress.step > 20)
        now = self.explain(c, job.id, "--for", "3s")
        self.run_psgd(c, "cancel", job.id)
        c.wait(job.id)
        said = self.explain(c, job.id)  # of a job that was cancelled, too
        for found in (now, said):
            self.assertEqual(found["cause"], "data", found)
            self.assertIn("Reading samples from a disk bounds this job", found["sentences"][0])
        self.must_agree(now["steps_per_second"], said["steps_per_second"])
        c.wait_idle()
        slow[0].unlink()
        job = c.submit(fields)
        c.wait(job.id, until=lambda j: j.progress.step > 20)
        after = self.explain(c, job.id, "--for", "3s")
        self.must_come_true(now, now["shares"]["data"], after)
        self.assertEqual(after["cause"], "compute")

    def test_a_server_with_too_much_to_do_is_named(self):
        """The one thread of a server takes 2 ms longer for each slice that two workers send packed, who have little to compute."""
        slow = {"LD_PRELOAD": str(BIN.parent / "tests" / "slow_decode.so"), "SLOW_DECODE_MS": "2"}
        c = self.cluster(workers=2, pservers=0)
        packed = {"codec": {"up": {"name": "int8", "params": {"lossless": 1}}, "down": {"name": "f32"}}}
        c.pservers = [c.add("pserver", 0, ["--threads", "1"], env=slow)]
        said = self.explain_now(c, workers=2, **HEAVY, **packed)
        self.assertEqual((said["bound_by"], said["server_thread"]), ("server", "server 0, serving"), said)
        c.pservers.append(c.add("pserver", 1, ["--threads", "1"], env=slow))
        self.must_be_foretold(c, said, ("", "", 2, 0), workers=2, pservers=2, **HEAVY, **packed)


class ExplainWaits(ExplainTest):
    """Of a job whose steps are long and hardly compute: others of the kind may run beside it."""

    def test_a_straggler_is_named(self):
        c = self.cluster(workers=2, pservers=1)
        straggler = {"rank": 1, "ms": 100, "others_ms": 30}
        job = c.submit({**SMALL, "workers": 2, "epochs": 5, "straggler": {"name": "fixed", "params": straggler}})
        c.wait(job.id, until=lambda j: j.progress.step > 5)
        now = self.explain(c, job.id, "--for", "3s")
        c.wait(job.id)
        said = self.explain(c, job.id)
        self.assertEqual((said["cause"], said["slowest_rank"], said["surety"]), ("straggler", 1, "sure"))
        self.assertEqual((now["cause"], now["slowest_rank"]), ("straggler", 1))
        self.assertEqual((now["while_training"], said["while_training"]), (True, False))
        self.must_agree(now["steps_per_second"], said["steps_per_second"])
        waiting = c.submit({**SMALL, "workers": 3})
        code, err = self.run_psgd(c, "explain", waiting.id)
        self.assertEqual(code, 1)
        self.assertIn(f"job {waiting.id} is QUEUED and has no reports", err)
        self.assertEqual(self.run_psgd(c, "cancel", waiting.id), (0, ""))
        after = self.trained(c, workers=2, epochs=5,
                             straggler={"name": "fixed", "params": {**straggler, "ms": 30}})
        self.must_come_true(said, said["shares"]["straggler"], after)
        self.assertEqual(after["cause"], "compute")  # both take 30 ms
        newest = c.submit({**SMALL, "workers": 2, "title": "slow-one", "epochs": 3,
                           "straggler": {"name": "fixed", "params": {"rank": 0, "ms": 50}}})
        c.wait(newest.id)
        p = subprocess.run([str(BIN / "psgd"), "--coordinator", c.coordinator.address, "explain", "slow-one"],
                           capture_output=True, text=True, timeout=60 * PATIENCE)
        lines = p.stdout.split("\n")
        self.assertEqual(p.stderr, "")
        self.assertRegex(lines[0], r"^A straggler bounds this job: worker 0, node worker-\d\.$")
        self.assertEqual(lines[5], "")
        self.assertEqual(lines[6].split()[:3], ["worker", "node", "steps/s"])
        self.assertEqual([line.split()[0] for line in lines[7:9]], ["0", "1"])


if __name__ == "__main__":
    main()
