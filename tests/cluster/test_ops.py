#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/metrics, /healthz and /readyz, read by a real Prometheus with the configuration, alert rules and
dashboard that are shipped."""
import http.client
import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import tls_cluster
from harness import ENDLESS, PATIENCE, ROOT, SMALL, ClusterTest, main


def get(url, method="GET", seconds=10, tls=None, headers=None):
    """Status, headers and text."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers or {}),
                                    timeout=seconds * PATIENCE, context=tls) as r:
            return r.status, r.headers, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read().decode()


def ops_of(process):
    """The address in the second line of a service that has --ops."""
    if not hasattr(process, "ops"):
        at = re.search(r"metrics on https?://(\S+)/metrics", process.process.stdout.readline().decode()).group(1)
        process.ops = at.replace("0.0.0.0", "127.0.0.1")
    return process.ops


def samples(text):
    """{name: {labels as text: value}}"""
    found = {}
    for name, labels, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.M):
        found.setdefault(name, {})[labels] = float(value)
    return found


def prometheus(test, c, services, name="prometheus.yml", tls_dir=None):
    """A real one, with what is shipped; scrapes each second. Returns the base of its API."""
    folder = c.folder / "prometheus"
    shutil.copytree(ROOT / "deploy/prometheus", folder)
    if tls_dir:
        shutil.copytree(tls_dir, folder / "tls")
    config = (folder / name).read_text()
    (folder / name).write_text(re.sub(r"(interval): 15s", r"\1: 1s", config))
    (folder / "targets.json").write_text(json.dumps([{"targets": [ops_of(p) for p in services]}]))
    check = subprocess.run(["promtool", "check", "config", folder / name], capture_output=True, text=True)
    test.assertEqual(check.returncode, 0, check.stdout + check.stderr)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    log = open(c.folder / "prometheus.log", "wb")
    process = subprocess.Popen(
        ["prometheus", f"--config.file={folder}/{name}", f"--web.listen-address=127.0.0.1:{port}",
         f"--storage.tsdb.path={folder}/data"], stdout=log, stderr=log)
    log.close()

    def end():
        process.terminate()
        process.wait(20 * PATIENCE)

    test.addCleanup(end)
    return f"http://127.0.0.1:{port}/api/v1"


def ask(api, path, **query):
    try:
        return json.loads(get(f"{api}/{path}?{urllib.parse.urlencode(query)}")[2]).get("data")
    except (OSError, http.client.HTTPException, ValueError):
        return None


def series(api, expression):
    data = ask(api, "query", query=expression)
    return data["result"] if data else []


class Ops(ClusterTest):
    def setUp(self):
        self.c = self.cluster(workers=2, pservers=1, coordinator_args=["--ops", "127.0.0.1:0"],
                              node_args=["--ops", "127.0.0.1:0"])
        self.c.wait_nodes(3)
        self.services = [self.c.coordinator, *self.c.nodes]

    def read(self, process, path="/metrics"):
        return get(f"http://{ops_of(process)}{path}")

    def run_job(self):
        job = self.c.submit({**ENDLESS, "workers": 2})
        self.c.wait(job.id, until=lambda j: j.progress.step > 20)
        return job

    def test_metrics_are_those_of_status_calls(self):
        job = self.run_job()
        for p in self.services:
            status, headers, text = self.read(p)
            self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
            lint = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
            self.assertEqual((lint.returncode, lint.stdout + lint.stderr), (0, ""), p.name)
        before = self.c.get(job.id)
        of_job = samples(self.read(self.c.coordinator)[2])
        after = self.c.get(job.id)
        label = f'job_id="{job.id}"'
        self.assertEqual(of_job["psgd_jobs"]['state="RUNNING"'], 1)
        self.assertEqual(of_job["psgd_node_up"]['node="worker-1",role="worker"'], 1)
        self.assertEqual(of_job["psgd_nodes"]['role="worker",state="busy"'], 2)
        self.assertEqual(of_job["psgd_job_goal_steps"][label], before.progress.total_steps)
        for metric, field in (("step", "step"), ("up_bytes", "bytes_up"), ("down_float32_bytes", "bytes_down_float32")):
            value = of_job[f"psgd_job_{metric}"][label]
            self.assertLessEqual(getattr(before.progress, field), value)
            self.assertLessEqual(value, getattr(after.progress, field))
        for rank, worker in enumerate(self.c.workers):
            said = samples(self.read(worker)[2])
            own = next(labels for labels in said["psgd_worker_step"])
            self.assertEqual(re.sub(r'rank="\d"', "", own), f"{label},")
            self.assertGreater(said["psgd_worker_samples_total"][own], 0)
            self.assertEqual(said["psgd_node_phase"]['phase="RUNNING"'], 1)
        said = samples(self.read(self.c.pservers[0])[2])
        applied = said["psgd_server_applied_total"][f'{label},rank="0"']
        self.assertEqual(said["psgd_server_staleness_clocks_count"][f'{label},rank="0"'], applied)

    def test_histograms_of_calls_phases_and_waits(self):
        job = self.c.submit({**SMALL, "workers": 2})
        self.c.wait(job.id)
        said = samples(self.read(self.c.coordinator)[2])
        for phase in ("CAN_COMMIT", "PRE_COMMIT", "DO_COMMIT", "COLLECTING"):
            self.assertEqual(said["psgd_commit_phase_seconds_count"][f'phase="{phase}"'], 1, phase)
        self.assertEqual(said["psgd_rpc_duration_seconds_count"]['method="CoordinatorService/SubmitJob"'], 1)
        self.assertGreater(said["psgd_rpc_duration_seconds_sum"]['method="CoordinatorService/Heartbeat"'], 0)
        self.assertNotIn('method="CoordinatorService/WatchJob"', said["psgd_rpc_duration_seconds_count"])
        ranks = {}
        for rank, worker in enumerate(self.c.workers):
            text = self.read(worker)[2]
            said = samples(text)
            self.assertEqual(said["psgd_rpc_duration_seconds_count"]['method="NodeService/DoCommit"'], 1)
            buckets = list(said["psgd_worker_wait_seconds_bucket"].values())
            self.assertEqual(buckets, sorted(buckets))
            self.assertEqual(buckets[-1], said["psgd_worker_wait_seconds_count"][""])
            ranks[worker.name] = said["psgd_worker_wait_seconds_sum"][""]
        waited = {n["node_id"]: n["ranks"][0]["seconds_waiting"]
                  for n in json.loads(self.c.files(job.id)["summary.json"])["nodes"] if n["role"] == "worker"}
        for name, seconds in waited.items():
            self.assertAlmostEqual(ranks[name], seconds, delta=0.05 * seconds + 0.01)

    def test_when_the_last_checkpoint_was_stored(self):
        before = time.time()
        job = self.c.submit({**ENDLESS, "workers": 2, "checkpoint": {"everySteps": 50}})
        self.c.wait(job.id, until=lambda j: j.progress.checkpoints > 0)
        stamp = samples(self.read(self.c.coordinator)[2])["psgd_job_checkpoint_timestamp_seconds"][f'job_id="{job.id}"']
        self.assertTrue(before < stamp < time.time(), stamp)

    def test_ready_says_why_not(self):
        for p in self.services:
            self.assertEqual(self.read(p, "/healthz")[::2], (200, "ok\n"))
            self.assertEqual(self.read(p, "/readyz")[::2], (200, "ok\n"))
        self.c.coordinator.kill()
        worker = self.c.workers[0]
        self.c.poll("not ready", lambda: self.read(worker, "/readyz")[::2] ==
                    (503, "no coordinator has registered the node\n"))
        self.assertEqual(self.read(worker, "/healthz")[0], 200)

    def test_a_process_that_is_frozen_is_not_healthy(self):
        worker = self.c.workers[0]
        self.read(worker, "/healthz")
        worker.freeze()
        with self.assertRaises((TimeoutError, socket.timeout)):
            get(f"http://{ops_of(worker)}/healthz", seconds=1 / PATIENCE)
        worker.thaw()
        self.assertEqual(self.read(worker, "/healthz")[0], 200)

    def test_other_requests_are_refused_and_connections_bounded(self):
        worker = self.c.workers[0]
        at = ops_of(worker)
        self.assertEqual(self.read(worker, "/x")[::2], (404, "there are /metrics, /healthz and /readyz\n"))
        self.assertEqual(self.read(worker, "/../etc/passwd")[0], 404)
        self.assertEqual(get(f"http://{at}/metrics", "HEAD")[::2], (200, ""))
        status, headers, text = get(f"http://{at}/metrics", "POST")
        self.assertEqual((status, headers["Allow"], text), (405, "GET, HEAD", "GET and HEAD are allowed\n"))
        host, port = at.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 10 * PATIENCE) as s:  # a head without an end
            s.sendall(b"GET /metrics HTTP/1.1\r\n" + b"x: " + b"y" * (1 << 20))
            s.settimeout(10 * PATIENCE)
            said = b""
            try:
                while piece := s.recv(4096):
                    said += piece
            except ConnectionError:
                pass
            self.assertNotIn(b"200 OK", said)
        idle = [socket.create_connection((host, int(port)), 10 * PATIENCE) for _ in range(64)]
        kept = 0
        for s in idle:
            s.settimeout(0.2)
            try:
                kept += s.recv(1) != b""
            except (TimeoutError, socket.timeout):
                kept += 1  # open, and nothing was said
            except ConnectionError:
                pass
        self.assertLessEqual(kept, 8)
        for s in idle:
            s.close()
        self.c.poll("an answer", lambda: self.answers(at))

    @staticmethod
    def answers(at):
        try:
            return get(f"http://{at}/healthz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def test_addresses_that_are_refused(self):
        for args, text in ((["--ops", "0.0.0.0:0"], 
                            "--ops 0.0.0.0:0: other hosts could connect, and the link is not protected. Get a certificate by "
                            "'psgd pki request node/NAME --host HOST --tls-dir DIR' (docs/tls.md), then start by "
                            "'psgd-worker --ops 0.0.0.0:0 --tls-dir DIR'"),
                           (["--ops", "unix:80"], "--ops"),
                           (["--ops", ops_of(self.c.workers[0])], "Address already in use")):
            said = subprocess.run(
                [self.c.workers[0].bin / "psgd-worker", "--listen", "127.0.0.1:0", "--coordinator", self.c.coordinator.address,
                 "--data-dir", self.c.folder / "other", *args], capture_output=True, text=True, timeout=20 * PATIENCE)
            self.assertIn(text, said.stderr)
            self.assertNotEqual(said.returncode, 0)

    def test_the_coordinator_refuses_an_address_before_it_does_anything(self):
        folder = self.c.folder / "other"
        for at in ("0.0.0.0:0", "unix:80"):
            said = subprocess.run([self.c.coordinator.bin / "psgd-coordinator", "--listen", "127.0.0.1:0", "--data-dir",
                                   folder, "--ops", at], capture_output=True, text=True, timeout=20 * PATIENCE)
            self.assertIn("main: --ops", said.stderr)
            self.assertIn(at, said.stderr)
            self.assertEqual((said.returncode, said.stdout, folder.exists()), (4, "", False))

    def test_a_prometheus_finds_every_series_and_a_lost_node(self):
        rules = dict(re.findall(r"- alert: (\w+)\n +expr: (.+)", (ROOT / "deploy/prometheus/alerts.yml").read_text()))
        board = json.loads((ROOT / "deploy/grafana/psgd.json").read_text())
        shown = [t["expr"].replace('job_id=~"$job_id"', 'job_id=~".*"').replace("$__rate_interval", "30s")
                 for p in board["panels"] for t in p["targets"]
                 if "psgd_job_program_metric" not in t["expr"]]  # of users' programs: see test_own_loop.py
        # An alert that is silent has no series: what it compares must have some.
        del rules["CertificateExpiring"]  # has series with TLS only: see Certificates
        watched = [side for rule in rules.values() for side in re.sub(r" (==|<|>) [\d.e+]+", "", rule).split(" or ")]
        self.assertGreater(len(shown), 20)
        self.assertGreater(len(rules), 8)
        job = self.c.submit({**ENDLESS, "workers": 2, "checkpoint": {"everySteps": 500}})
        self.c.wait(job.id, until=lambda j: j.progress.checkpoints > 0)
        api = prometheus(self, self.c, self.services)
        for expression in [*shown, *watched]:
            self.c.poll(expression, lambda: series(api, expression), seconds=30)
        self.assertEqual([a["labels"]["alertname"] for a in ask(api, "alerts")["alerts"]
                          if a["labels"]["alertname"] in ("NodeLost", "NoLeader", "DiskLow")], [])
        self.c.workers[1].kill()

        def lost():
            return [a["labels"]["node"] for a in ask(api, "alerts")["alerts"]
                    if a["labels"]["alertname"] == "NodeLost" and a["state"] == "firing"]

        self.c.poll("NodeLost fires", lost, seconds=30)
        self.assertEqual(lost(), ["worker-1"])


def check_alert(test, series, expected):
    """Has promtool evaluate the alert rules on series. expected: (time, name of the alert, the alerts that fire)"""
    with tempfile.TemporaryDirectory(prefix="psgd-rules-") as folder:
        tests = [{"interval": "1m", "input_series": [{"series": s, "values": v} for s, v in series.items()],
                  "alert_rule_test": [{"eval_time": at, "alertname": name, "exp_alerts": alerts}
                                      for at, name, alerts in expected]}]
        path = f"{folder}/test.yml"
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"rule_files": [str(ROOT / "deploy/prometheus/alerts.yml")], "tests": tests}, f)
        done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, timeout=60)
        test.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def description_of(alert):
    """The description of an alert, as the rules have it."""
    rule = (ROOT / "deploy/prometheus/alerts.yml").read_text().split(f"- alert: {alert}\n")[1]
    return re.search(r'description: "(.*)"', rule)[1]


class Checkpoints(unittest.TestCase):
    def test_the_alert_fires_when_the_last_one_of_a_running_job_is_old(self):
        series = {f'psgd_job_checkpoint_timestamp_seconds{{instance="c",job_id="{job}"}}': stamps
                  for job, stamps in (("old", "0x120"), ("taken", "0x40 3000x80"), ("waits", "0x120"))}
        series |= {f'psgd_job_running{{instance="c",job_id="{job}"}}': f"{running}x120"
                   for job, running in (("old", 1), ("taken", 1), ("waits", 0))}
        fired = {"exp_labels": {"severity": "warning", "instance": "c", "job_id": "old"}, "exp_annotations": {
            "summary": "the last checkpoint of job old is 1h 10m 0s old",
            "description": description_of("CheckpointOld").replace("{{ $labels.job_id }}", "old")}}
        check_alert(self, series, [("60m", "CheckpointOld", []), ("70m", "CheckpointOld", [fired])])


class Certificates(tls_cluster.TlsTest):
    def test_when_certificates_of_nodes_end(self):
        c = self.tls_cluster(coordinator_args=["--ops", "127.0.0.1:0"], workers=1, pservers=0)
        c.wait_nodes(1)
        said = samples(get(f"http://{ops_of(c.coordinator)}/metrics")[2])
        ends = said["psgd_node_certificate_expiry_timestamp_seconds"]['node="worker-0",role="worker"']
        self.assertAlmostEqual(ends, time.time() + 365 * 86400, delta=600)

    def test_the_alert_fires_before_a_certificate_ends(self):
        series = {'psgd_node_certificate_expiry_timestamp_seconds{node="w",role="worker"}': "18000x120"}
        fired = {"exp_labels": {"severity": "warning", "node": "w", "role": "worker"}, "exp_annotations": {
            "summary": "the certificate of worker w ends in 3h 50m 0s", "description": description_of("CertificateExpiring")}}
        check_alert(self, series, [("55m", "CertificateExpiring", []), ("70m", "CertificateExpiring", [fired])])


class Https(tls_cluster.TlsTest):
    """--ops beyond loopback, with --tls-dir."""

    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-ops-"))
        self.addCleanup(shutil.rmtree, folder, True)
        self.tokens = {who: re.search("psgd_[0-9a-f]{64}", tls_cluster.psgd(
            "token", "create", who, "--tokens", folder / "tokens").stdout).group() for who in ("observer/otto", "submitter/sue")}
        self.c = self.tls_cluster(workers=1, pservers=1, node_args=["--ops", "0.0.0.0:0"],
                                  coordinator_args=["--ops", "0.0.0.0:0", "--tokens", folder / "tokens"])
        self.c.wait_nodes(2)
        self.services = [self.c.coordinator, *self.c.nodes]

    def read(self, process, path="/metrics", at=None, token=None):
        """Status and text, by the certificate in the folder `at` and by a token."""
        tls = ssl.create_default_context(cafile=self.c.admin / "root.pem")
        if at:
            tls.load_cert_chain(at / "identity.pem")
        status, _, text = get(f"https://{ops_of(process)}{path}", tls=tls,
                              headers={"Authorization": f"Bearer {token}"} if token else None)
        return status, text

    def test_who_reads_metrics(self):
        authority, other = self.c.authority, tls_cluster.Authority()
        self.addCleanup(other.close)
        foreign, old = other.join("admin/anna"), authority.join_expiring("observer/old")
        members = {who: authority.join(who) for who in ("observer/otto", "observer/gone", "submitter/sue")}
        asked = [(members["observer/otto"], 200, "psgd_build_info"), (self.c.admin, 200, "psgd_build_info"),
                 (members["observer/gone"], 200, "psgd_build_info"),
                 (members["submitter/sue"], 403, "submitter/sue may not see the numbers of all jobs; allowed: admin, observer"),
                 (authority.dir_of("node/worker-0"), 403, "node/worker-0 may not see"),
                 (authority.dir_of("coordinator/main"), 403, "coordinator/main may not see"),
                 (None, 401, "a certificate of observer/NAME or admin/NAME is needed"),
                 (foreign, 401, "its certificate is not taken here: unable to get local issuer certificate"),
                 (old, 401, "its certificate is not taken here: certificate has expired")]
        self.c.poll("the old one ends", lambda: self.read(self.c.coordinator, at=old)[0] == 401)
        for p in self.services:
            for path in ("/healthz", "/readyz"):
                self.assertEqual(self.read(p, path), (200, "ok\n"))
            for at, status, text in asked:
                got = self.read(p, at=at)
                self.assertEqual((got[0], text in got[1]), (status, True), f"{p.name} {at}: {got[0]} {got[1][:200]}")
        by_token = [(self.c.coordinator, "observer/otto", 200, "psgd_build_info"), (self.c.coordinator, "submitter/sue", 403, "may not see"),
                    (self.c.coordinator, None, 401, "the token is not known"), (self.c.workers[0], "observer/otto", 401, "no certificate")]
        for p, who, status, text in by_token:
            got = self.read(p, token=self.tokens.get(who, "psgd_" + "0" * 64))
            self.assertEqual((got[0], text in got[1]), (status, True), f"{p.name} {who}: {got[0]} {got[1][:200]}")
        authority.revoke("observer/gone")
        for p in self.services:
            self.c.poll("it is out", lambda: self.read(p, at=members["observer/gone"])[0] == 401, seconds=5)
            self.assertEqual(self.read(p, at=members["observer/otto"])[0], 200)

    def test_nobody_else_gets_a_byte(self):
        at = ops_of(self.c.workers[0])
        host, port = at.split(":")
        with socket.create_connection((host, int(port)), 10 * PATIENCE) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            self.assertNotIn(b"HTTP", plain.recv(1000))
        self.assertIn("Verify return code: 0 (ok)", tls_cluster.s_client(
            at, "-tls1_2", "-CAfile", self.c.admin / "root.pem", "-verify_ip", "127.0.0.1"))
        self.assertIn("Cipher is (NONE)", tls_cluster.s_client(at, "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"))

    def test_a_prometheus_with_a_certificate(self):
        api = prometheus(self, self.c, self.services, "prometheus.tls.yml", self.c.authority.join("observer/prometheus"))
        self.c.poll("three are up", lambda: len(series(api, "up == 1")) == 3, seconds=30)
        self.assertEqual(len(series(api, "psgd_build_info")), 3)


if __name__ == "__main__":
    main()
