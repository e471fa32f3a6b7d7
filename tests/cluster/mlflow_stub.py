# SPDX-License-Identifier: Apache-2.0
"""mlflow_stub.py - a tracking server that enforces what MLflow documents, to the letter.

Bounds are those of MLflow's REST API: of a batch 1,000 metrics, 100 parameters, 100 tags and 1,000 in
all, 1 MB; names of 250 characters from a small alphabet; parameters that never change. Whatever breaks
one is refused as MLflow does, and kept in `faults`. `mode` makes it a bad server: "hang", or a status
such as 500 or 429, with the message `says`.
"""
import http.server
import json
import posixpath
import re
import threading
import urllib.parse
import uuid

NAME = re.compile(r"^[/\w.\- ]*$", re.ASCII)
CALLS = "/api/2.0/mlflow/"
FILES = "/api/2.0/mlflow-artifacts/artifacts/"


class Refused(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code = status, code


def need(truth, message, status=400, code="INVALID_PARAMETER_VALUE"):
    if not truth:
        raise Refused(status, code, message)


def is_int(x):
    return isinstance(x, int) and not isinstance(x, bool)


def check_name(name):
    need(isinstance(name, str) and NAME.match(name) and posixpath.normpath(name) == name
         and name not in (".", "") and not name.startswith(("..", "/")), f"name {name!r}")
    need(len(name) <= 250, f"name of {len(name)} characters")


class Stub:
    """Listens on a port of loopback, or on the one given."""

    def __init__(self, port=0, login=None, files="mlflow-artifacts:"):
        self.login, self.files_at = login, files  # the Authorization that it wants
        self.mode, self.says, self.faults, self.asked = "", "as it was told to", [], []
        self.experiments, self.runs, self.artifacts = {}, {}, {}
        self.lock, self.release = threading.Lock(), threading.Event()
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, body):
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                if status == 429:
                    self.send_header("Retry-After", "1")
                self.end_headers()
                self.wfile.write(text)

            def serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                mode = stub.mode
                stub.asked.append((self.command, self.path, mode))
                if mode == "hang":
                    stub.release.wait(600)
                    self.close_connection = True
                elif mode:
                    self.answer(int(mode), {"error_code": "BROKEN", "message": stub.says})
                else:
                    try:
                        with stub.lock:
                            self.answer(200, stub.serve(self.command, self.path, self.headers, body))
                    except Refused as e:
                        if e.status == 400:
                            stub.faults.append(f"{self.path}: {e}")
                        self.answer(e.status, {"error_code": e.code, "message": str(e)})

            do_GET = do_POST = do_PUT = serve

        http.server.ThreadingHTTPServer.daemon_threads = True
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        self.url = f"mlflow:http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()

    # --- the API -------------------------------------------------------------

    def serve(self, method, path, headers, body):
        url = urllib.parse.urlsplit(path)
        if self.login is not None:
            need(headers.get("Authorization") == self.login, "who are you?", 401, "UNAUTHENTICATED")
        if url.path.startswith(FILES):
            need(method == "PUT", "PUT is allowed", 405, "BAD_REQUEST")
            name = urllib.parse.unquote(url.path[len(FILES):])
            need(any(name.startswith(f"0/{run}/artifacts/") for run in self.runs) and ".." not in name, f"file {name}")
            self.artifacts[name] = body
            return {}
        need(url.path.startswith(CALLS), f"no {url.path}", 404, "ENDPOINT_NOT_FOUND")
        call = url.path[len(CALLS):]
        if method == "GET":
            fields = dict(urllib.parse.parse_qsl(url.query, strict_parsing=True))
        else:
            need(headers.get("Content-Type") == "application/json", "not JSON")
            need(call != "runs/log-batch" or len(body) <= 1000000, f"{len(body)} bytes")
            fields = json.loads(body)
        known = {("GET", "experiments/get-by-name"): self.get_experiment,
                 ("POST", "experiments/create"): self.create_experiment,
                 ("POST", "runs/search"): self.search, ("POST", "runs/create"): self.create,
                 ("POST", "runs/log-batch"): self.log_batch, ("POST", "runs/update"): self.update}
        need((method, call) in known, f"no {method} {call}", 404, "ENDPOINT_NOT_FOUND")
        return known[method, call](fields)

    def get_experiment(self, q):
        need(q["experiment_name"] in self.experiments, "no such experiment", 404, "RESOURCE_DOES_NOT_EXIST")
        return {"experiment": {"experiment_id": self.experiments[q["experiment_name"]],
                               "name": q["experiment_name"], "lifecycle_stage": "active"}}

    def create_experiment(self, q):
        need(0 < len(q["name"]) <= 500, "name of the experiment")
        need(q["name"] not in self.experiments, "there is one already", 400, "RESOURCE_ALREADY_EXISTS")
        self.experiments[q["name"]] = str(len(self.experiments) + 1)
        return {"experiment_id": self.experiments[q["name"]]}

    def search(self, q):
        need(q["experiment_ids"] and q.get("max_results", 1000) <= 50000, "what to search")
        match = re.fullmatch(r"tags\.(\w+) = '([^']*)'", q["filter"])
        need(match, f"filter {q['filter']}")
        found = [{"info": r["info"]} for r in self.runs.values()
                 if r["info"]["experiment_id"] in q["experiment_ids"] and r["tags"].get(match[1]) == match[2]]
        return {"runs": found[:q["max_results"]]} if found else {}

    def create(self, q):
        need(q["experiment_id"] in self.experiments.values(), "no such experiment", 404, "RESOURCE_DOES_NOT_EXIST")
        need(is_int(q["start_time"]) and q["start_time"] > 0, "start_time")
        run = uuid.uuid4().hex
        info = {"run_id": run, "run_uuid": run, "experiment_id": q["experiment_id"], "status": "RUNNING",
                "start_time": q["start_time"], "run_name": q["run_name"], "lifecycle_stage": "active",
                "artifact_uri": f"{self.files_at}/0/{run}/artifacts"}
        self.runs[run] = {"info": info, "tags": {}, "params": {}, "metrics": []}
        self.add_tags(run, q.get("tags", []))
        return {"run": {"info": info, "data": {}}}

    def add_tags(self, run, tags):
        for tag in tags:
            check_name(tag["key"])
            need(isinstance(tag["value"], str) and len(tag["value"]) <= 5000, f"tag {tag}")
            self.runs[run]["tags"][tag["key"]] = tag["value"]

    def log_batch(self, q):
        metrics, params, tags = q.get("metrics", []), q.get("params", []), q.get("tags", [])
        need(q["run_id"] in self.runs, "no such run", 404, "RESOURCE_DOES_NOT_EXIST")
        need(len(metrics) <= 1000 and len(params) <= 100 and len(tags) <= 100
             and len(metrics) + len(params) + len(tags) <= 1000,
             f"{len(metrics)} metrics, {len(params)} parameters, {len(tags)} tags")
        run = self.runs[q["run_id"]]
        need(len({p["key"] for p in params}) == len(params), "a parameter twice")
        for p in params:
            check_name(p["key"])
            need(isinstance(p["value"], str) and len(p["value"]) <= 500, f"value of {p['key']}")
            need(run["params"].get(p["key"], p["value"]) == p["value"], f"{p['key']} has another value")
        for m in metrics:
            check_name(m["key"])
            need(isinstance(m["value"], (int, float)) and not isinstance(m["value"], bool), f"value of {m['key']}")
            need(is_int(m["timestamp"]) and m["timestamp"] >= 0 and is_int(m["step"]), f"{m['key']}: time or step")
        run["params"].update({p["key"]: p["value"] for p in params})
        run["metrics"] += [(m["key"], m["step"], m["value"], m["timestamp"]) for m in metrics]
        self.add_tags(q["run_id"], tags)
        return {}

    def update(self, q):
        need(q["run_id"] in self.runs, "no such run", 404, "RESOURCE_DOES_NOT_EXIST")
        need(q["status"] in ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"), f"status {q['status']}")
        need(is_int(q["end_time"]), "end_time")
        self.runs[q["run_id"]]["info"].update(status=q["status"], end_time=q["end_time"])
        return {"run_info": self.runs[q["run_id"]]["info"]}

    # --- for tests -----------------------------------------------------------

    def run_of(self, job_id):
        """The only run of a job; None if there is none."""
        with self.lock:
            found = [r for r in self.runs.values() if r["tags"]["psgd_job"] == job_id]
        assert len(found) <= 1, f"{len(found)} runs of {job_id}"
        return found[0] if found else None

    def status(self, job_id):
        run = self.run_of(job_id)
        return run and run["info"]["status"]

    def points(self, job_id, key):
        """[(step, value)] of a metric, as they came."""
        with self.lock:
            return [(s, v) for r in self.runs.values() if r["tags"]["psgd_job"] == job_id
                    for k, s, v, _ in r["metrics"] if k == key]
