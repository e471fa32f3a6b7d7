#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The methods of CoordinatorService as JSON over HTTP: what they answer, what is refused, what many and dead
clients cost."""
import hashlib
import http.client
import json
import re
import socket
import subprocess
import threading
import urllib.parse

from harness import ENDLESS, PATIENCE, SLOW, ClusterTest, free_ports, job_pb2, main
from tls_cluster import QUARANTINE_MIB, small_quarantine


def page_of(cluster):
    """The address of the page, when it is served."""
    return cluster.poll("a page", lambda: re.findall(r"page at https?://(\S+)/", cluster.coordinator.log()))[-1]


class Web(ClusterTest):
    """A cluster whose coordinator serves the page, which stays where it is when the coordinator is restarted."""

    def setUp(self):
        with small_quarantine():  # memory is measured
            self.c = self.cluster(workers=2, pservers=1, coordinator_args=["--web", f"127.0.0.1:{free_ports(1)[0]}"])
        self.c.wait_nodes(3)
        self.at = page_of(self.c)

    def ask(self, path, body=None, method=None, headers=None):
        """Status, headers and bytes of the answer."""
        connection = http.client.HTTPConnection(self.at, timeout=30 * PATIENCE)
        try:
            if body is not None:
                body = body if isinstance(body, bytes) else json.dumps(body).encode()
                headers = {"Content-Type": "application/json", **(headers or {})}
            connection.request(method or ("GET" if body is None else "POST"), path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def is_served(self):
        try:
            return self.ask("/")[0] == 200
        except OSError:
            return False

    def call(self, name, body=None, **query):
        status, _, said = self.ask(f"/api/v1/{name}" + (f"?{urllib.parse.urlencode(query)}" if query else ""), body)
        self.assertEqual(status, 200, said)
        return json.loads(said)

    def error(self, *args, **more):
        status, _, said = self.ask(*args, **more)
        return status, json.loads(said)["error"]

    def events(self, job_id, count, after=0):
        """So many events with an id: [(id, message)]."""
        connection = http.client.HTTPConnection(self.at, timeout=30 * PATIENCE)
        connection.request("GET", f"/api/v1/WatchJob?job_id={job_id}", headers={"Last-Event-ID": str(after)} if after else {})
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "text/event-stream"))
        found, number = [], 0
        while len(found) < count:
            line = answer.readline()
            if not line:
                break
            if line.startswith(b"id: "):
                number = int(line[4:])
            elif line.startswith(b"data: ") and number:
                found.append((number, json.loads(line[6:])))
                number = 0
        connection.close()
        return found


class Api(Web):
    def test_a_job_from_its_submission_to_its_files(self):
        job = self.call("SubmitJob", {"spec": {"title": "by-json", "workers": 2, "epochs": 1,
                                               "data": {"name": "glyphs", "train_limit": 1024, "test_limit": 256}}})["job"]
        done = self.c.wait(job["id"])
        self.assertEqual(done.state, job_pb2.JOB_STATE_DONE)
        said = self.call("GetJob", job_id=job["id"])["job"]
        self.assertEqual((said["state"], said["progress"]["bytes_up"]), ("JOB_STATE_DONE", done.progress.bytes_up))
        self.assertEqual([j["id"] for j in self.call("ListJobs", states="DONE,FAILED")["jobs"]], [job["id"]])
        self.assertEqual({n["id"] for n in self.call("ListNodes")["nodes"]}, {"worker-0", "worker-1", "pserver-0"})
        self.assertIn("tutorial", [p["name"] for p in self.call("ListPresets")["presets"]])
        self.assertIn("int8", [p["name"] for p in self.call("GetServerInfo", {})["plugins"]])
        self.assertGreater(len(done.artifacts), 5)
        for artifact in done.artifacts:
            status, headers, content = self.ask("/api/v1/ReclaimLogs?" + urllib.parse.urlencode(
                {"job_id": job["id"], "name": artifact.name}))
            self.assertEqual((status, headers["Content-Disposition"]), (200, "attachment"))
            self.assertEqual(hashlib.sha256(content).hexdigest(), artifact.sha256, artifact.name)
        every = self.events(job["id"], 1000)
        self.assertEqual(every[-1][1]["job"]["state"], "JOB_STATE_DONE")
        later = self.events(job["id"], 1000, after=every[1][0])
        self.assertEqual([n for n, _ in later], [n for n, _ in every[2:]])

    def test_what_is_refused_says_why(self):
        status, error = self.error("/api/v1/SubmitJob", {"spec": {"workers": 2000, "epochs": -1}})
        self.assertEqual((status, [v["field"] for v in error["violations"]]), (400, ["spec.epochs"]), error)
        status, error = self.error("/api/v1/SubmitJob", {"spec": {"workers": 2000}})
        self.assertEqual(error["violations"], [{"field": "spec.workers", "description": "is 2000; 1 to 256 are allowed"}])
        self.assertEqual(self.error("/api/v1/GetJob?job_id=none")[0], 404)
        self.assertEqual(self.error("/api/v1/WatchJob?job_id=none")[0], 404)
        self.assertEqual(self.error("/api/v1/Heartbeat", {})[0], 404)  # of nodes
        self.assertEqual(self.error("/api/v1/CancelJob?job_id=x")[0], 405)
        self.assertEqual(self.error("/api/v1/ListJobs?page=1")[0], 400)
        self.assertIn("the body is not JSON: line 1", self.error("/api/v1/GetJob", b"{")[1]["message"])
        self.assertEqual(self.error("/api/v1/GetJob", b" " * (600 << 10))[0], 413)
        self.assertEqual(self.error("/api/v1/GetJob", method="DELETE")[0], 405)
        self.assertEqual(self.error("/nothing")[0], 404)
        self.assertEqual(self.error("/../etc/passwd")[0], 404)

    def test_pages_of_other_sites_can_do_nothing(self):
        job = self.c.submit(ENDLESS)
        path, body = "/api/v1/CancelJob", {"job_id": job.id}
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
                        {"Origin": f"https://{self.at}"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
            self.assertEqual(self.error(path, body, headers=headers)[0], 403, headers)
            self.assertEqual(self.error("/api/v1/ListJobs", headers=headers)[0], 403, headers)
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx"):
            self.assertEqual(self.error(path, body, headers={"Content-Type": kind})[0], 415, kind)
        self.assertNotIn(self.c.get(job.id).state, (job_pb2.JOB_STATE_CANCELLED,))
        status, headers, said = self.ask(path, body, headers={"Origin": f"http://{self.at}", "Sec-Fetch-Site": "same-origin"})
        self.assertEqual((status, "Access-Control-Allow-Origin" in headers), (200, False), said)
        self.c.wait_state(job.id, job_pb2.JOB_STATE_CANCELLED)

    def test_two_hundred_pages_and_dead_ones_cost_bounded_memory_and_no_training(self):
        job = self.c.submit({**ENDLESS, "workers": 2, "straggler": {"name": "fixed", "params": {"ms": 5}}})
        self.c.wait(job.id, until=lambda j: j.progress.step > 20)

        def memory():
            with open(f"/proc/{self.c.coordinator.process.pid}/status", encoding="ascii") as status:
                return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) >> 10

        host, port = self.at.rsplit(":", 1)
        request = f"GET /api/v1/WatchJob?job_id={job.id} HTTP/1.1\r\nHost: {self.at}\r\n\r\n".encode()
        before, heard = memory(), [0] * 200
        pages = [socket.create_connection((host, int(port)), 30 * PATIENCE) for _ in range(220)]
        self.addCleanup(lambda: [s.close() for s in pages])
        for s in pages[200:]:  # these never read
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        for s in pages:
            s.sendall(request)

        def listen(i):
            pages[i].settimeout(30 * PATIENCE)
            while heard[i] < 12 and (piece := pages[i].recv(65536)):
                heard[i] += piece.count(b"\nid: ")

        threads = [threading.Thread(target=listen, args=(i,), daemon=True) for i in range(200)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60 * PATIENCE)
        self.assertEqual(min(heard) >= 12, True, sorted(heard)[:5])
        # Measured: 28 MiB; a sanitizer puts its own memory around each block, and keeps freed ones.
        self.assertLess(memory() - before, 48 if SLOW == 1 else 112 + QUARANTINE_MIB)
        step = self.c.get(job.id).progress.step
        self.c.wait(job.id, until=lambda j: j.progress.step > step + 100)
        self.assertEqual(self.call("GetJob", job_id=job.id)["job"]["state"], "JOB_STATE_RUNNING")
        self.assertEqual(self.c.coordinator.stop(), 0)  # with all of them open

    def test_curves_begin_before_the_page_is_opened(self):
        job = self.c.submit({**ENDLESS, "workers": 2})
        curves = self.c.poll("two points", lambda: (found := self.call("curves", job_id=job.id)) and len(found["step"]) > 1
                             and found)
        self.assertEqual(curves["step"], sorted(curves["step"]))
        self.assertEqual({len(values) for values in curves.values()}, {len(curves["step"])})
        self.assertEqual(self.error("/api/v1/curves?job_id=none")[0], 404)

    def test_curves_go_on_after_a_restart_of_the_coordinator(self):
        job = self.c.submit({**ENDLESS, "workers": 2, "straggler": {"name": "fixed", "params": {"ms": 5}}})
        before = self.c.wait(job.id, until=lambda j: j.result and j.progress.step > 100).progress.step
        self.c.coordinator.kill()
        self.c.restart_coordinator()
        self.c.poll("a page again", self.is_served)
        curves = self.c.poll("later points", lambda: (found := self.call("curves", job_id=job.id)) and
                             found["step"][-1:] > [before] and found)
        self.assertLess(curves["step"][0], before)
        self.assertEqual(curves["step"], sorted(set(curves["step"])))
        self.assertEqual(curves["seconds"], sorted(curves["seconds"]))


class Where(ClusterTest):
    """Addresses of the page."""

    def begin(self, *args):
        folder = self.c.folder / "other"
        return subprocess.run([self.c.coordinator.bin / "psgd-coordinator", "--listen", "127.0.0.1:0", "--data-dir", folder,
                               *args], capture_output=True, text=True, timeout=20 * PATIENCE)

    def test_addresses_that_are_refused(self):
        self.c = self.cluster(workers=0, pservers=0, coordinator_args=["--web", "127.0.0.1:0"])
        taken = page_of(self.c)
        for args, text, code in ((["--web", "0.0.0.0:0"], "--web 0.0.0.0:0: other hosts could connect", 4),
                                 (["--web", "unix:80"], "--web", 4),
                                 (["--web", taken], "Address already in use", 1),
                                 (["--web", "127.0.0.1:0", "--tls-dir", "x"], "with --tls-dir it needs --tokens", 4)):
            said = self.begin(*args)
            self.assertIn(text, said.stderr)
            self.assertEqual(said.returncode, code, args)

    def test_without_the_flag_a_taken_port_is_no_error(self):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", 15380))
                s.listen()
            except OSError:
                pass  # taken by another program, which is as good
            self.c = self.cluster(workers=0, pservers=0, coordinator_env={"PSGD_WEB": ""})
            self.c.poll("no page", lambda: "no page: --web: cannot listen on 127.0.0.1:15380" in self.c.coordinator.log())
            self.c.wait_nodes(0)


if __name__ == "__main__":
    main()
