# SPDX-License-Identifier: Apache-2.0
"""A coordinator, and nodes, whose disks take 200 ms longer for every write and sync (slow_disk.c)
while a job runs: nobody is lost, questions are answered as if nothing were, events come in order.
Reads of nodes are slow too. A question about an old job is answered from the coordinator's disk, so
its reads are not."""
import statistics
import threading
import time

import grpc
from harness import (BIN, PATIENCE, SMALL, ClusterTest, coordinator_pb2, job_pb2, main,
                     node_pb2, node_pb2_grpc)

SLOW_MS = 200
SLOW_DISK = {"LD_PRELOAD": str(BIN.parent / "tests" / "slow_disk.so"), "SLOW_DISK_MS": str(SLOW_MS)}


def figures(sorted_ms):
    return (f"median {statistics.median(sorted_ms):.1f} ms, "
            f"p99 {sorted_ms[len(sorted_ms) * 99 // 100]:.1f} ms, "
            f"worst {sorted_ms[-1]:.1f} ms of {len(sorted_ms)}")


class SlowDiskTest(ClusterTest):
    def must_be_in_order(self, events):
        numbers = [e.sequence for e in events]
        self.assertEqual(numbers, sorted(set(numbers)))
        states = [e.job.state for e in events if e.kind == coordinator_pb2.JOB_EVENT_KIND_STATE]
        self.assertEqual(states, sorted(states))
        self.assertEqual(states[-1], job_pb2.JOB_STATE_DONE)

    def nobody_must_be_lost(self, c, job_id):
        done = c.get(job_id)
        self.assertEqual(done.state, job_pb2.JOB_STATE_DONE, f"{done.reason} {done.message}")
        self.assertEqual(done.attempt, 1)
        self.assertNotIn("NODE_LOST", c.coordinator.log())
        self.assertTrue(all(n.alive for n in c.node_list()))


class SlowCoordinatorTest(SlowDiskTest):
    def setUp(self):
        env = dict(SLOW_DISK)

        def prepare(folder):
            self.switch = folder / "slow"
            env.update(SLOW_DISK_DIR=f"{folder}/coordinator/", SLOW_DISK_ON=str(self.switch))

        self.c = self.cluster(workers=2, pservers=1, coordinator_env=env, prepare=prepare)
        self.c.wait_nodes(3)

    def probe(self, old, new, seconds):
        """Milliseconds of each question, until seconds() is false."""
        api, took = self.c.api, []
        calls = [
            lambda: api.GetJob(coordinator_pb2.GetJobRequest(job_id=old), timeout=10 * PATIENCE),
            lambda: api.GetJob(coordinator_pb2.GetJobRequest(job_id=new), timeout=10 * PATIENCE),
            lambda: api.ListJobs(coordinator_pb2.ListJobsRequest(), timeout=10 * PATIENCE),
            lambda: api.ListNodes(coordinator_pb2.ListNodesRequest(), timeout=10 * PATIENCE),
            lambda: api.GetServerInfo(coordinator_pb2.GetServerInfoRequest(), timeout=10 * PATIENCE)]
        while seconds():
            for call in calls:
                begun = time.monotonic()
                call()
                took.append((time.monotonic() - begun) * 1e3)
            self.c.pause()
        return sorted(took)

    def test_nobody_waits_for_the_disk(self):
        c = self.c
        old = c.wait(c.submit(SMALL).id).id
        until = time.monotonic() + 3
        before = self.probe(old, old, lambda: time.monotonic() < until)
        self.switch.touch()
        events, took, ends = [], [], threading.Event()
        begun = time.monotonic()
        job = c.submit(SMALL)
        took_to_submit = time.monotonic() - begun
        prober = threading.Thread(
            target=lambda: took.extend(self.probe(old, job.id, lambda: not ends.is_set())))
        prober.start()
        try:
            for event in c.api.WatchJob(coordinator_pb2.WatchJobRequest(job_id=job.id),
                                        timeout=120 * PATIENCE):
                events.append(event)
        finally:
            ends.set()
            prober.join()
        self.nobody_must_be_lost(c, job.id)
        self.must_be_in_order(events)
        self.assertGreaterEqual(took_to_submit, SLOW_MS / 1e3)  # or the disk was not slow

        print(f"submitted in {took_to_submit:.1f} s, ended after {time.monotonic() - begun:.1f} s\n"
              f"before: {figures(before)}\nslow:   {figures(took)}", flush=True)
        # Whoever waits for the disk waits SLOW_MS at least; what is below is the machine's load.
        self.assertLess(statistics.median(took), 50 * PATIENCE / 6)
        self.assertLess(took[len(took) * 99 // 100], SLOW_MS)


class Probe:
    """Asks a node for its status every 20 ms, whether it has answered or not, so that each moment
    in which it does not answer counts."""

    def __init__(self, node):
        self.channel = grpc.insecure_channel(node.address)
        self.stub = node_pb2_grpc.NodeServiceStub(self.channel)
        self.took, self.ends = [], threading.Event()
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()

    def ask(self):
        asked = []
        while not self.ends.wait(0.02):
            begun = time.monotonic()
            call = self.stub.GetStatus.future(node_pb2.GetStatusRequest(), timeout=10 * PATIENCE)
            call.add_done_callback(
                lambda _, begun=begun: self.took.append((time.monotonic() - begun) * 1e3))
            asked.append(call)
        for call in asked:
            call.result()

    def stop(self):
        """Milliseconds of each question, sorted."""
        self.ends.set()
        self.thread.join()
        self.channel.close()
        return sorted(self.took)


class SlowNodesTest(SlowDiskTest):
    """The data set is sent, the log and the curves are written, and all files are collected."""

    def test_no_node_waits_for_its_disk(self):
        data, folder = self.need_mnist(), []

        def env(name):
            return {**SLOW_DISK, "SLOW_DISK_READS": "1", "SLOW_DISK_DIR": f"{folder[0]}/{name}/",
                    "SLOW_DISK_ON": str(folder[0] / "slow")}

        c = self.cluster(workers=2, pservers=1, data=data, node_env=env, prepare=folder.append,
                         node_args=["--log-level", "debug"])
        c.wait_nodes(3)
        (folder[0] / "slow").touch()
        probes = {node.name: Probe(node) for node in c.nodes}
        events, took = [], {}
        try:
            job = c.submit(SMALL, workers=2,
                           data={"name": "mnist", "trainLimit": 2000, "testLimit": 500})
            for event in c.api.WatchJob(coordinator_pb2.WatchJobRequest(job_id=job.id),
                                        timeout=120 * PATIENCE):
                events.append(event)
            self.nobody_must_be_lost(c, job.id)
            c.wait_idle()
        finally:
            took = {name: probe.stop() for name, probe in probes.items()}
        self.must_be_in_order(events)
        files = c.files(job.id)
        for name, answers in took.items():
            print(f"{name}: {figures(answers)}", flush=True)
            self.assertTrue(any(name in file and "LOG" in file and b"RUNNING" in content
                                for file, content in files.items()), sorted(files))
        # Who waits for the disk waits SLOW_MS at least; what is below is the machine's load.
        for name, answers in took.items():
            self.assertLess(statistics.median(answers), 50 * PATIENCE / 6, name)
            self.assertLess(answers[len(answers) * 99 // 100], SLOW_MS, name)


if __name__ == "__main__":
    main()
