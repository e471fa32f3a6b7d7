# SPDX-License-Identifier: Apache-2.0
"""test_basic.py - jobs from submission to their files."""
import contextlib
import csv
import io
import json
import math
import os
import pathlib
import sys

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import read_events

from harness import (ENDLESS, FINAL, PATIENCE, SMALL, ClusterTest, coordinator_pb2, evaluated, job_pb2, main)


class Basic(ClusterTest):
    def test_a_job_runs_to_its_artifacts(self):
        c = self.cluster(workers=2, pservers=2)
        job = c.wait(c.submit(SMALL, workers=2, pservers=2).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        self.assertGreater(job.result["accuracy"], 0.5)
        files = c.files(job.id)
        for name in ["TR-small-N(0).csv", "TR-small-N(1).csv", "EV-small-N(0).csv",
                     "EV-small-N(1).csv", "MODEL-small-N(0).safetensors", "MODEL-small-N(0).onnx",
                     "MODEL-small-N(ps).safetensors", "summary.json", "manifest.json"]:
            self.assertIn(name, files)
        self.assertEqual(*(evaluated(files[f"EV-small-N({i}).csv"]) for i in range(2)))
        rows = list(csv.DictReader(io.StringIO(files["TR-small-N(0).csv"].decode())))
        self.assertEqual(len(rows), job.progress.total_steps)
        for column in ["time_s", "epoch", "batch", "step", "loss", "accuracy", "samples_per_s",
                       "bytes_up", "bytes_down", "wait_s"]:
            self.assertIn(column, rows[0])
        manifest = json.loads(files["manifest.json"])
        self.assertEqual({f["name"] for f in manifest["files"]} | {"manifest.json"},
                         {a.name for a in job.artifacts} | {"manifest.json"})
        self.assertTrue(any(n.startswith("LOG-") for n in files))
        c.wait_idle()

    def test_the_onnx_file_has_the_same_weights(self):
        c = self.cluster(workers=1, pservers=1)
        job = c.wait(c.submit(SMALL, epochs=1).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        files = c.files(job.id, kinds=[job_pb2.ARTIFACT_KIND_MODEL])
        raw = files["MODEL-small-N(0).safetensors"]
        start = 8 + int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:start])
        meta = header.pop("__metadata__")
        expected = {name: raw[start + e["data_offsets"][0]:start + e["data_offsets"][1]]
                    for name, e in header.items()}
        # ModelProto: graph = 7, metadata_props = 14; GraphProto: initializer = 5;
        # TensorProto: name = 8, raw_data = 9.
        model = list(read_events.fields(files["MODEL-small-N(0).onnx"]))
        graph, = [value for number, value in model if number == 7]
        tensors = [dict(read_events.fields(value)) for number, value in read_events.fields(graph)
                   if number == 5]
        self.assertEqual({t[8].decode(): t[9] for t in tensors}, expected)
        entries = [dict(read_events.fields(value)) for number, value in model if number == 14]
        self.assertEqual({e[1].decode(): e[2].decode() for e in entries}, meta)
        spec = json.loads(meta.pop("spec"))
        self.assertEqual(meta, {"job": job.id, "title": "small",
                                "step": str(job.progress.total_steps)})
        self.assertEqual(set(spec), {"model", "data", "metrics"})
        self.assertEqual((spec["model"]["widths"], spec["data"]["name"]), ([16], "glyphs"))

    def test_evaluations_say_what_the_job_asks_for(self):
        c = self.cluster(workers=2, pservers=1)
        metrics = [{"name": "accuracy"}, {"name": "perplexity"}, {"name": "true_positives"},
                   {"name": "binary_sum_cross_entropy"}, {"name": "top_k", "params": {"k": 3}},
                   {"name": "auc", "params": {"positive": 4}}]
        job = c.wait(c.submit(SMALL, workers=2, metrics=metrics).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        names = [metric["name"] for metric in metrics]
        self.assertEqual(set(job.result), {"loss", *names})
        files = c.files(job.id)
        self.assertEqual(*(evaluated(files[f"EV-small-N({i}).csv"]) for i in range(2)))
        rows = list(csv.DictReader(io.StringIO(files["EV-small-N(0).csv"].decode())))
        self.assertEqual(list(rows[0]), ["epoch", "step", "loss", *names, "time_s", "bytes_up", "bytes_down"])
        steps = list(csv.DictReader(io.StringIO(files["TR-small-N(0).csv"].decode())))
        for row in rows:
            before = next(s for s in steps if s["step"] == row["step"])
            for column in ("time_s", "bytes_up", "bytes_down"):
                self.assertGreaterEqual(float(row[column]), float(before[column]))
        for column in ("bytes_up", "bytes_down"):
            self.assertEqual(rows[-1][column], steps[-1][column])
        for name in ["loss", *names]:
            self.assertAlmostEqual(float(rows[-1][name]), job.result[name], delta=1e-6)
        self.assertAlmostEqual(math.log(job.result["perplexity"]), job.result["loss"], delta=1e-5)
        self.assertGreater(job.result["top_k"], job.result["accuracy"])
        self.assertGreater(job.result["auc"], 0.5)
        self.assertEqual(set(json.loads(files["summary.json"])["result"]), {"loss", *names})
        # Each worker half of the test set: the result has the same bits.
        split = c.wait(c.submit(SMALL, workers=2, metrics=metrics, split_evaluation=True).id)
        self.assertEqual(split.state, job_pb2.JOB_STATE_DONE, split.message)
        self.assertEqual(dict(split.result), dict(job.result))
        files = c.files(split.id)
        self.assertNotEqual(*(evaluated(files[f"EV-small-N({i}).csv"]) for i in range(2)))

    def test_every_worker_leaves_a_run_for_tensorboard(self):
        c = self.cluster(workers=2, pservers=1)
        job = c.wait(c.submit(SMALL, workers=2).id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        files = c.files(job.id, kinds=[job_pb2.ARTIFACT_KIND_EVENTS])
        self.assertEqual(sorted(files), [f"TB-small-N({rank})/events.out.tfevents.psgd"
                                         for rank in range(2)])
        for rank in range(2):
            path = c.folder / f"events-{rank}"
            path.write_bytes(files[f"TB-small-N({rank})/events.out.tfevents.psgd"])
            points = read_events.read(path)
            reports = c.files(job.id, kinds=[job_pb2.ARTIFACT_KIND_REPORT])
            for report, curves in (("TR", {"train/loss": "loss", "train/accuracy": "accuracy",
                                           "speed/samples_per_s": "samples_per_s",
                                           "speed/wait_s": "wait_s",
                                           "wire/bytes_up": "bytes_up",
                                           "wire/bytes_down": "bytes_down"}),
                                   ("EV", {"test/loss": "loss", "test/accuracy": "accuracy"})):
                text = reports[f"{report}-small-N({rank}).csv"].decode()
                rows = list(csv.DictReader(io.StringIO(text)))
                self.assertGreater(len(rows), 0)
                for tag, column in curves.items():
                    curve = [p for p in points if p[2] == tag]
                    self.assertEqual([p[1] for p in curve], [int(row["step"]) for row in rows], tag)
                    for point, row in zip(curve, rows):
                        value = float(row[column])  # nine digits here, float32 there
                        self.assertAlmostEqual(point[3], value, delta=1.2e-7 * abs(value), msg=tag)
            start, end = job.start_time.seconds, job.end_time.seconds
            self.assertTrue(all(start - 1 <= p[0] <= end + 1 for p in points))

    def test_service_after_service_job_after_job(self):
        c = self.cluster(workers=1, pservers=1)
        for _ in range(3):
            self.assertEqual(c.wait(c.submit(SMALL).id).state, job_pb2.JOB_STATE_DONE)

    def test_a_request_id_makes_a_submission_safe(self):
        c = self.cluster(workers=0, pservers=0)
        one = c.submit(SMALL, request_id="r-1")
        self.assertEqual(c.submit(SMALL, request_id="r-1").id, one.id)
        with self.assertRaises(grpc.RpcError) as e:
            c.submit({**SMALL, "epochs": 3}, request_id="r-1")
        self.assertEqual(e.exception.code(), grpc.StatusCode.ALREADY_EXISTS)

    def test_a_bad_specification_is_answered_with_every_violation(self):
        c = self.cluster(workers=0, pservers=0)
        with self.assertRaises(grpc.RpcError) as e:
            c.submit({"workers": 100000, "optimizer": {"rule": {"name": "adma"}},
                      "codec": {"up": {"name": "int9"}}, "consistency": {"name": "ssp", "params": {"bnd": 1}}})
        self.assertEqual(e.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        details = dict(e.exception.trailing_metadata())["grpc-status-details-bin"]
        for field in [b"spec.workers", b"spec.optimizer.rule.name", b"spec.codec.up.name",
                      b"spec.consistency.params"]:
            self.assertIn(field, details)

    def test_jobs_queue_with_a_reason_and_run_side_by_side(self):
        c = self.cluster(workers=2, pservers=2)
        c.wait_nodes(4)
        a = c.submit(ENDLESS, title="a")
        b = c.submit(ENDLESS, title="b")
        for job in (a, b):
            c.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
        third = c.submit(SMALL, title="third")
        queued = c.poll("a reason", lambda: (lambda j: j if j.message else None)(c.get(third.id)))
        self.assertEqual(queued.state, job_pb2.JOB_STATE_QUEUED)
        self.assertIn("worker", queued.message)
        self.assertFalse({p.node_id for p in c.get(a.id).placements} &
                         {p.node_id for p in c.get(b.id).placements})
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=a.id))
        self.assertEqual(c.wait(third.id).state, job_pb2.JOB_STATE_DONE)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=b.id))
        self.assertEqual(c.wait(b.id).state, job_pb2.JOB_STATE_CANCELLED)
        c.wait_idle()

    def refused(self, c, **fields):
        """The details of a submission that would have to wait."""
        with self.assertRaises(grpc.RpcError) as e:
            c.submit(SMALL, no_queue=True, **fields)
        self.assertEqual(e.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        details = dict(e.exception.trailing_metadata())["grpc-status-details-bin"]
        self.assertIn(b"WOULD_WAIT", details)
        return details.decode(errors="replace")

    def test_a_job_that_may_not_wait_is_refused_or_runs(self):
        c = self.cluster(workers=1, pservers=1)
        c.wait_nodes(2)
        holder = c.submit(ENDLESS, title="holder", request_id="h", no_queue=True)
        c.wait_state(holder.id, job_pb2.JOB_STATE_RUNNING)
        said = self.refused(c, title="hurried", request_id="r")
        self.assertIn(f"needs 1 worker, 0 idle of 1 known; busy: worker-0 (job {holder.id})", said)
        self.assertIn(f"busy: pserver-0 (job {holder.id})", said)
        again = c.submit(ENDLESS, title="holder", request_id="h", no_queue=True)
        self.assertEqual(again.id, holder.id)  # the same request, though its nodes are held
        jobs = c.api.ListJobs(coordinator_pb2.ListJobsRequest()).jobs
        self.assertEqual([job.id for job in jobs], [holder.id])  # nothing is stored
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=holder.id))
        c.wait(holder.id)
        c.wait_idle()
        job = c.submit(SMALL, title="hurried", request_id="r", no_queue=True)  # not used up
        self.assertEqual(c.wait(job.id).state, job_pb2.JOB_STATE_DONE)
        self.assertIn("needs 2 workers, 1 idle of 1 known", self.refused(c, workers=2))

    def test_a_job_that_may_not_wait_and_loses_its_nodes_has_failed(self):
        c = self.cluster(workers=1, pservers=1, coordinator_args=["--fault", "exit-at:QUEUED"])
        c.wait_nodes(2)
        with self.assertRaises(grpc.RpcError):
            c.submit(SMALL, title="hurried", request_id="r", no_queue=True)
        c.coordinator.wait()
        c.workers[0].kill()
        c.coordinator.args = c.coordinator.args[:c.coordinator.args.index("--fault")]
        c.restart_coordinator()
        made = c.poll("the job", lambda: c.api.ListJobs(coordinator_pb2.ListJobsRequest()).jobs)
        job = c.wait(made[0].id)
        self.assertEqual((job.state, job.reason), (job_pb2.JOB_STATE_FAILED, "WOULD_WAIT"))
        self.assertIn("needs 1 worker, 0 idle", job.message)
        self.assertGreaterEqual(job.end_time.seconds, job.create_time.seconds)

    def test_a_node_that_is_stopped_says_so(self):
        c = self.cluster(workers=2, pservers=0)
        c.wait_nodes(2)
        self.assertEqual(c.workers[0].stop(), 0)
        c.workers[1].kill()
        nodes = {n.id: n for n in c.node_list()}  # at once, before any lease
        self.assertEqual((nodes["worker-0"].left, nodes["worker-0"].alive), (True, False))
        self.assertFalse(nodes["worker-1"].left)
        c.workers[0].start()  # at the address that it had, or another
        c.poll("worker-0 is back", lambda: [
            n for n in c.node_list() if n.id == "worker-0" and n.alive and not n.left])

    def shared_by(self, process):
        """Number of memories for payloads that a process has open."""
        count = 0
        for fd in pathlib.Path(f"/proc/{process.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it has been closed meanwhile
                count += "memfd:psgd-payloads" in os.readlink(fd)
        return count

    def test_payloads_go_through_memory_of_which_a_killed_worker_leaves_nothing(self):
        """By the counters of both sides; a push and a pull stream have a memory each. Not with --sockets-only."""
        for flags, memories in ([], 2), (["--sockets-only"], 0):
            c = self.cluster(workers=2, pservers=1, node_args=flags,
                             node_env=lambda name: {"PSGD_THREADS": "1"} if name == "pserver-0" else {})
            job = c.submit({**ENDLESS, "model": {"preset": "mlp", "widths": [256]}}, workers=2)
            c.wait(job.id, lambda j: j.progress.step > 10)
            counters = c.status(c.pservers[0]).counters
            worker = c.status(c.workers[0]).progress[0]
            for counted in counters, worker:
                self.assertGreaterEqual(counted.bytes_up + counted.bytes_down, counted.bytes_through_memory)
                if memories:  # all but the first contribution, which goes before the server's answer, and short messages
                    self.assertGreater(counted.bytes_through_memory, (counted.bytes_up + counted.bytes_down) / 2)
                else:
                    self.assertEqual(counted.bytes_through_memory, 0)
            self.assertEqual([self.shared_by(p) for p in c.nodes], [2 * memories, memories, memories])
            c.workers[1].kill()
            self.assertEqual(c.wait(job.id).state, job_pb2.JOB_STATE_FAILED)
            c.poll("nothing shared is left", lambda: not any(self.shared_by(p) for p in (c.pservers[0], c.workers[0])))

    def test_pages(self):
        c = self.cluster(workers=0, pservers=0)
        ids = [c.submit(SMALL, title=f"t{i}").id for i in range(5)]
        seen, token = [], ""
        while True:
            page = c.api.ListJobs(coordinator_pb2.ListJobsRequest(page_size=2, page_token=token))
            seen += [j.id for j in page.jobs]
            token = page.next_page_token
            if not token:
                break
        self.assertEqual(seen, ids[::-1])

    def test_logs_while_it_runs_and_a_watch_that_resumes(self):
        c = self.cluster(workers=1, pservers=1)
        job = c.submit(ENDLESS)
        c.wait_state(job.id, job_pb2.JOB_STATE_RUNNING)
        c.poll("a log of a running job", lambda: any(
            c.files(job.id, kinds=[job_pb2.ARTIFACT_KIND_LOG]).values()))
        stream = c.api.WatchJob(coordinator_pb2.WatchJobRequest(job_id=job.id), timeout=30 * PATIENCE)
        first = [next(stream) for _ in range(3)]
        stream.cancel()
        again = next(c.api.WatchJob(coordinator_pb2.WatchJobRequest(
            job_id=job.id, after_sequence=first[0].sequence), timeout=30 * PATIENCE))
        self.assertEqual(again.sequence, first[1].sequence)
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
        self.assertEqual(c.wait(job.id).state, job_pb2.JOB_STATE_CANCELLED)
        c.api.DeleteJob(coordinator_pb2.DeleteJobRequest(job_id=job.id))
        with self.assertRaises(grpc.RpcError) as e:
            c.get(job.id)
        self.assertEqual(e.exception.code(), grpc.StatusCode.NOT_FOUND)


if __name__ == "__main__":
    main()
