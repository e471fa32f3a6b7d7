# SPDX-License-Identifier: Apache-2.0
"""test_defaults.py - services that are started as the older systems' were: without a setting."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile

import grpc

from fidelity import ARGUMENTS, CONNECTION, SERVER, Fidelity
from harness import BIN, PATIENCE, SMALL, main


class Defaults(Fidelity):
    """Services that are started without a setting."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-defaults-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, program, *args):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PSGD_", "XDG_"))}
        with (self.folder / f"{program}.err").open("a") as said:
            p = subprocess.Popen([BIN / program, *args], cwd=self.folder, text=True,
                                 env={**env, "HOME": str(self.folder)}, stdout=subprocess.PIPE,
                                 stderr=said)
        self.addCleanup(lambda: (p.kill(), p.wait(), p.stdout.close()))
        line = p.stdout.readline()
        self.assertIn("listening on", line)
        return line.split()[-1]

    def test_data_directories_lie_side_by_side(self):
        state = self.folder / ".local/state/psgd"
        at = self.start("psgd-coordinator", "--listen", "127.0.0.1:0")
        self.start("psgd-worker", "--listen", "127.0.0.1:0", "--coordinator", at)
        self.assertTrue((state / "psgd-coordinator/jobs.db").exists())
        self.assertTrue((state / "psgd-worker").exists())
        self.assertFalse((self.folder / "psgd-data").exists())

    def test_jobs_of_the_former_directory_are_kept(self):
        (self.folder / "psgd-data/coordinator").mkdir(mode=0o700, parents=True)
        (self.folder / "psgd-data/coordinator/jobs.db").touch()
        self.start("psgd-coordinator", "--listen", "127.0.0.1:0")
        self.assertGreater((self.folder / "psgd-data/coordinator/jobs.db").stat().st_size, 0)
        self.assertFalse((self.folder / ".local/state/psgd/psgd-coordinator").exists())

    def test_a_node_has_one_name(self):
        """Also the one by which scripts of before read it."""
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        nodes = json.loads(self.psgd("--format", "json", "nodes", coordinator=c.coordinator.address))
        self.assertEqual({n["node_id"] for n in nodes}, {"worker-0", "pserver-0"})
        self.assertEqual([n["id"] for n in nodes], [n["node_id"] for n in nodes])
        self.assertEqual({c.status(p).node.node_id for p in c.nodes}, {"worker-0", "pserver-0"})

    def test_a_default_port_that_is_taken_is_one_line(self):
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):  # another program has it: as good
                taken.bind(("127.0.0.1", 15387))
                taken.listen()
            at = self.start("psgd-worker", "--coordinator", "127.0.0.1:9")
        self.assertFalse(at.endswith(":15387"))
        said = (self.folder / "psgd-worker.err").read_text()
        self.assertIn("127.0.0.1:15387 is in use; taking a free port", said)
        self.assertNotIn("UNKNOWN", said)


class Times(Fidelity):
    """Times that cannot work together."""

    def test_a_lease_is_at_least_three_heartbeats(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

        def started(lease):
            return subprocess.run(
                [BIN / "psgd-coordinator", "--listen", "192.0.2.1:1", "--insecure", "--heartbeat", "2s", "--lease", lease,
                 "--data-dir", folder], capture_output=True, text=True, timeout=20 * PATIENCE)

        refused = started("5s")
        self.assertEqual(refused.returncode, 4)
        self.assertIn("--lease 5000ms: is less than three times --heartbeat 2000ms", refused.stderr)
        self.assertNotIn("--lease", started("6s").stderr)  # it fails for the address alone


    def test_a_job_s_time_outs_are_at_least_three_heartbeats(self):
        c = self.cluster(workers=0, pservers=0, coordinator_args=["--heartbeat", "500ms"])
        for field, ms in (("leaseMs", 1499), ("stepMs", 1499)):
            with self.assertRaises(grpc.RpcError) as e:
                c.submit(SMALL, timeouts={field: ms})
            name = {"leaseMs": "lease_ms", "stepMs": "step_ms"}[field]
            self.assertIn(f"spec.timeouts.{name}: is 1499; at least 1500 is allowed, 3 heartbeats", e.exception.details())
        job = c.submit(SMALL, timeouts={"leaseMs": 1500, "stepMs": 1500})
        self.assertEqual(job.spec.timeouts.lease_ms, 1500)


class Watching(Fidelity):
    """The submitting console of Parallel-SGD showed nodes, versions and every worker."""

    def setUp(self):
        self.c = self.cluster(workers=2, pservers=1)
        self.c.wait_nodes(3)
        self.folder = self.c.folder

    def test_nodes_and_versions_of_a_job(self):
        version = self.psgd("--version").split()[1]
        said = self.psgd("submit", "--preset", "bsp", "-W", 2, "-P", 1, "--max-steps", 5, "--watch",
                         coordinator=self.c.coordinator.address)
        for p in self.c.nodes:
            self.assertRegex(said, rf"(worker|pserver) \d: {p.name} at {p.address}, psgd {version}\n")

    def watched(self, *args, until):
        """What a watch of a job has said when until holds for its lines; then the job is
        cancelled."""
        job = self.c.submit({**SMALL, "workers": 2, "epochs": 0, "maxSeconds": 100 * PATIENCE})
        watch = subprocess.Popen([BIN / "psgd", "--coordinator", self.c.coordinator.address, *args,
                                  "watch", job.id, "--workers"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (watch.kill(), watch.wait(), watch.stdout.close()))
        said = []
        for line in watch.stdout:
            said.append(line)
            if until(said):
                self.psgd("cancel", job.id, coordinator=self.c.coordinator.address)
                return said
        self.fail(f"the watch has ended: {''.join(said)[-4000:]}")

    def test_every_worker_on_demand(self):
        line = (r"worker {} worker-\d  step [1-9]\d*  loss \d\.\d+  acc \d\.\d+  "
                r"waited \d+\.\d s")
        self.watched(until=lambda said: all(
            any(re.search(line.format(rank), s) for s in said) for rank in (0, 1)))
        said = self.watched("--format", "jsonl", until=lambda said: [0, 1] in [
            [w["rank"] for w in json.loads(s).get("workers") or []] for s in said])
        for told in map(json.loads, said):
            for worker in told.get("workers") or []:
                self.assertFalse(worker.get("past"), worker)
        job = self.c.submit(SMALL)
        said = self.psgd("watch", job.id, coordinator=self.c.coordinator.address)
        self.assertNotIn("waited", said)


class NodeLogs(Fidelity):
    """Parallel-SGD gave back the whole log of a worker, not only the lines about a job."""

    def test_the_end_of_a_node_s_log(self):
        c = self.cluster(workers=1, pservers=1)
        self.folder = c.folder
        at = c.coordinator.address
        jobs = [c.wait(c.submit({**SMALL, "epochs": 1}).id).id for _ in range(2)]
        said = self.psgd("--format", "jsonl", "logs", "--node", "worker-0", coordinator=at)
        self.assertTrue(c.workers[0].log().startswith(said[:2000]), said[:300])
        self.assertIn("registered with", said)  # of no job
        self.assertEqual(len([job for job in jobs if job in said]), 2)
        short = self.psgd("--format", "jsonl", "logs", "--node", "worker-0", "--bytes", 700,
                          coordinator=at)
        self.assertLessEqual(len(short), 700)
        self.assertIn(short.splitlines()[0], said)
        self.assertTrue(all(json.loads(line) for line in short.splitlines()))
        self.assertIn("worker-0  ", self.psgd("logs", "--node", "worker-0", coordinator=at))
        lines = json.loads(self.psgd("--format", "json", "logs", "--node", "worker-0",
                                     coordinator=at))
        self.assertEqual({line["node"] for line in lines}, {"worker-0"})

    def test_refusals(self):
        c = self.cluster(workers=1, pservers=0)
        c.wait_nodes(1)
        self.folder = c.folder
        at = c.coordinator.address
        said = self.psgd("logs", "--node", "nobody", code=SERVER, coordinator=at)
        self.assertIn("there is no node nobody; psgd nodes lists them", said)
        for args in (("logs",), ("logs", "-f", "--node", "worker-0")):
            self.assertIn("logs takes a JOB, or --node ID", self.psgd(*args, code=ARGUMENTS))
        self.assertIn("262144", self.psgd("logs", "--node", "worker-0", "--bytes", 300000,
                                          code=ARGUMENTS))
        c.workers[0].kill()
        said = self.psgd("logs", "--node", "worker-0", code=CONNECTION, coordinator=at)
        self.assertIn("the node's log", said)


if __name__ == "__main__":
    main()
