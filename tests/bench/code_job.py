#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""code_job.py - what a codec of code costs a job beside the built-in one with the same values: SGQ of
clients/examples/code beside `cot`, topk_lua beside `topk`, two workers and a server on a cluster, or
with --exchange two workers without a server. The same job runs with one and with the other in turn, so
that both meet the same machine. Printed are the medians of the steps a second, and the ratio of the
medians; the models have to be equal."""
import argparse
import csv
import hashlib
import io
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from harness import Cluster, job_pb2, tensors  # noqa: E402

PAIRS = {
    "sgq": ("cot", {}),
    "topk_lua": ("topk", {"error_feedback": 1}),
}
JOBS = {
    "tutorial": {"preset": "tutorial-glyphs"},
    "cnn": {"model": {"preset": "cnn"}, "data": {"name": "glyphs", "trainLimit": 8000, "testLimit": 100},
            "blockSize": 32},
    "mlp": {"model": {"preset": "mlp", "widths": [1024, 1024]}, "blockSize": 128,
            "data": {"name": "glyphs", "trainLimit": 20000, "testLimit": 100}},
}


def run(cluster, job, exchange, way, codec, params, code, steps):
    """(steps a second of rank 0 after the first tenth, SHA-256 of the model)"""
    has_servers = exchange == "pserver"
    cluster.wait_idle()
    done = cluster.wait(cluster.submit({
        **job, "title": "code", "seed": 3, "workers": 2, "pservers": int(has_servers), "exchange": {"name": exchange},
        "maxSteps": steps, "epochs": 1000, "evalEverySteps": steps, "codec": {way: {"name": codec, "params": params}}, "code": code}).id,
        seconds=600)
    if done.state != job_pb2.JOB_STATE_DONE:
        sys.exit(f"{codec}: {done.reason} {done.message}")
    files = cluster.files(done.id)
    times = [float(row["time_s"]) for row in csv.DictReader(io.StringIO(files["TR-code-N(0).csv"].decode()))]
    first = len(times) // 10
    model = repr(sorted(tensors(files[f"MODEL-code-N({'ps' if has_servers else 0}).safetensors"]).items())).encode()
    return (len(times) - 1 - first) / (times[-1] - times[first]), hashlib.sha256(model).hexdigest()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("jobs", nargs="*", default=[], choices=[*JOBS, []])
    options.add_argument("--codec", default="sgq", choices=PAIRS)
    options.add_argument("--exchange", default="pserver", choices=("pserver", "plain", "ndc", "ring", "tree"))
    options.add_argument("--way", default="up", choices=("up", "down"), help="gradients or weights")
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--steps", type=int, default=0, help="of each run; 0: by the job")
    o = options.parse_args()
    builtin, params = PAIRS[o.codec]
    text = (ROOT / "clients/examples/code" / f"{o.codec}.lua").read_text()
    ways = [(builtin, []), (o.codec, [{"file": f"{o.codec}.lua", "text": text}])]
    print(f"| job | {builtin} | {o.codec} | ratio | models |\n| --- | --- | --- | --- | --- |")
    for name in o.jobs or JOBS:
        steps = o.steps or {"tutorial": 1500, "cnn": 300, "mlp": 250}[name]
        servers = int(o.exchange == "pserver")
        cluster = Cluster(workers=2, pservers=servers)
        rates, models = {way[0]: [] for way in ways}, set()
        try:
            cluster.wait_nodes(2 + servers)
            run(cluster, JOBS[name], o.exchange, o.way, builtin, params, [], steps)
            for i in range(o.pairs):
                for codec, code in ways[::-1 if i % 2 else 1]:
                    rate, model = run(cluster, JOBS[name], o.exchange, o.way, codec, params, code, steps)
                    rates[codec].append(rate)
                    models.add(model)
        finally:
            cluster.close()
        a, b = (statistics.median(rates[way[0]]) for way in ways)
        print(f"| {name} | {a:.0f} | {b:.0f} | {b / a:.3f} | {'equal' if len(models) == 1 else 'DIFFER'} |", flush=True)
        if len(models) != 1:
            sys.exit(1)


if __name__ == "__main__":
    main()
