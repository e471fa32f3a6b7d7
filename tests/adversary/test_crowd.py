# SPDX-License-Identifier: Apache-2.0
"""test_crowd.py - one host registers nodes that do not exist, opens streams that nobody reads, or
starts a node twice. Honest nodes and users come in all the same."""
import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import grpc  # noqa: E402
from harness import (ENDLESS, SMALL, ClusterTest, Process, coordinator_pb2,  # noqa: E402
                     job_pb2, main)

GHOSTS = 4200  # more than may be known


class CrowdTest(ClusterTest):
    def test_ghosts_do_not_keep_nodes_out(self):
        c = self.cluster(workers=0, pservers=0)
        refused = 0
        for i in range(GHOSTS):
            try:
                c.api.RegisterNode(coordinator_pb2.RegisterNodeRequest(
                    node_id=f"ghost-{i}", role=job_pb2.NODE_ROLE_WORKER, incarnation=1,
                    address=f"127.0.0.1:{1 + i}"))
            except grpc.RpcError as e:
                self.assertEqual(e.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                refused += 1
        self.assertLess(len(self.ghosts(c)), 4096)  # another host would have room
        c.pservers.append(c.add("pserver", 0))
        c.workers.append(c.add("worker", 0))
        c.poll("honest nodes", lambda: {n.id for n in self.all_nodes(c)} >= {"worker-0", "pserver-0"})
        job = c.wait(c.submit(SMALL).id)  # ghosts that were chosen are not chosen again
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        c.poll("no ghosts", lambda: not self.ghosts(c))

    def all_nodes(self, c):
        nodes, token = [], ""
        while True:
            page = c.api.ListNodes(coordinator_pb2.ListNodesRequest(page_size=1000, page_token=token))
            nodes += page.nodes
            token = page.next_page_token
            if not token:
                return nodes

    def ghosts(self, c):
        return [n for n in self.all_nodes(c) if n.id.startswith("ghost-")]

    def test_streams_of_one_host_are_bounded(self):
        c = self.cluster(workers=0, pservers=0)
        job = c.submit(SMALL)
        for what, most, open_stream in (
                ("watchers", 250, lambda: c.api.WatchJob(
                    coordinator_pb2.WatchJobRequest(job_id=job.id))),
                ("downloads", 50, lambda: c.api.ReclaimLogs(
                    coordinator_pb2.ReclaimLogsRequest(job_id=job.id, follow=True)))):
            with self.subTest(what), contextlib.ExitStack() as until:
                streams = [open_stream() for _ in range(most + 5)]
                for stream in streams:
                    until.callback(stream.cancel)
                refused = c.poll("five refusals", lambda: self.ended(streams, 5))
                for stream in refused:
                    self.assertEqual(stream.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                    self.assertIn(f"{most} are allowed", stream.details())
        self.assertEqual(c.get(job.id).state, job_pb2.JOB_STATE_QUEUED)

    @staticmethod
    def ended(streams, count):
        """The streams that have ended, if there are so many."""
        ended = [stream for stream in streams if not stream.is_active()]
        return ended if len(ended) == count else None

    def test_a_second_process_with_an_id_is_refused_while_the_first_lives(self):
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        job = c.submit(ENDLESS)
        c.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
        twin = Process("psgd-worker", "twin", c.folder,
                       ["--coordinator", c.coordinator.address, "--node-id", "worker-0"])
        self.addCleanup(lambda: twin.process.poll() is not None or twin.stop())
        c.poll("the refusal", lambda: "has the node id worker-0 and lives" in twin.log())
        step = c.get(job.id).progress.step
        c.wait(job.id, lambda j: j.progress.step > step + 20)  # the job has not noticed
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
        c.wait(job.id)
        address = c.workers[0].address
        self.assertEqual([n.address for n in c.node_list() if n.id == "worker-0"], [address])
        c.workers[0].kill()
        c.poll("the twin's turn", lambda: [n.address for n in c.node_list()
                                           if n.id == "worker-0" and n.alive] == [twin.address])
        after = c.wait(c.submit(SMALL).id)
        self.assertEqual(after.state, job_pb2.JOB_STATE_DONE, after.message)

    def test_a_worker_that_is_started_anew_loses_its_attempt_only(self):
        """As a supervisor does it: the same id and the same address, whether or not it was missed before."""
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        job = c.submit(ENDLESS)
        c.wait(job.id, lambda j: j.progress.step > 5)
        address = c.workers[0].address
        c.workers[0].kill()
        c.workers[0].start()
        self.assertEqual(c.workers[0].address, address)
        job = c.wait(job.id)
        self.assertEqual((job_pb2.JobState.Name(job.state), job.reason), ("JOB_STATE_FAILED", "NODE_LOST"))
        self.assertEqual(job.message, f"worker worker-0 ({address}) is lost: its process has ended")
        after = c.wait(c.submit(SMALL).id)
        self.assertEqual(after.state, job_pb2.JOB_STATE_DONE, after.message)


if __name__ == "__main__":
    main()
