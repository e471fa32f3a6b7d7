#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""consistency.py - every policy side by side, with and without somebody slow.

    PSGD_BIN=build/bin PSGD_DATA=... tests/bench/consistency.py [SCENARIO[:POLICY,...] ...]

Four workers and a server on this machine train the same small network on the
same samples from the same weights. What a step takes is set by the job's
straggler, so that neither the machine nor what else runs on it decides:

    even    each worker 60 ms a step
    slow    worker 3 takes 240 ms, the others 60 ms
    random  one step in ten of each worker takes 600 ms in the mean, the others next to nothing

Columns: seconds until worker 0 had the target accuracy on the test set (at the
end of an epoch; "-": never), seconds of the whole job, accuracy of worker 0 in
the end, share of its time that worker 0 waited, mean staleness in updates,
contributions dropped, late and left out in percent of what all workers could
have brought.
"""
import argparse
import csv
import io
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import Cluster, data_path, job_pb2  # noqa: E402

TARGET = 0.80
WORKERS = 4
SCENARIOS = {
    "even": {"name": "fixed", "params": {"rank": -1, "ms": 60}},
    "slow": {"name": "fixed", "params": {"rank": 3, "ms": 240, "others_ms": 60}},
    "random": {"name": "random", "params": {"probability": 0.1, "mean_ms": 600}},
}
POLICIES = [
    ("bsp", {}), ("ssp", {"bound": 3}), ("dssp", {"lower": 3, "upper": 15}), ("asp", {}),
    ("stale_scaled", {"power": 1, "free": 3}), ("lag_discard", {"ratio": 1.5}),
    ("backup", {"backups": 1}), ("quorum", {"quorum": 3, "wait_ms": 20}),
    ("half_async", {"wait_ms": 20}),
]


def spec(straggler, policy, params):
    data = {"name": "mnist"} if data_path() else {"name": "glyphs"}
    return {
        "title": policy, "workers": WORKERS, "pservers": 1, "epochs": 8, "blockSize": 64, "seed": 1,
        "model": {"preset": "mlp", "widths": [32]},
        "data": {**data, "trainLimit": 6400, "testLimit": 2000},
        "optimizer": {"rule": {"name": "sgd", "params": {"lr": 0.5}}},
        "straggler": straggler, "consistency": {"name": policy, "params": params},
    }


def rows(files, name):
    return list(csv.DictReader(io.StringIO(files[name].decode())))


def measure(cluster, straggler, policy, params):
    job = cluster.wait(cluster.submit(spec(straggler, policy, params)).id, seconds=600)
    if job.state != job_pb2.JOB_STATE_DONE:
        raise RuntimeError(f"{policy}: {job.reason} {job.message}")
    files = cluster.files(job.id)
    steps, evals = rows(files, f"TR-{policy}-N(0).csv"), rows(files, f"EV-{policy}-N(0).csv")
    last = [float(rows(files, f"TR-{policy}-N({w}).csv")[-1]["time_s"]) for w in range(WORKERS)]
    good = [int(e["step"]) for e in evals if float(e["accuracy"]) >= TARGET]
    reached = min((float(r["time_s"]) for r in steps if good and int(r["step"]) >= good[0]),
                  default=None)
    summary = json.loads(files["summary.json"])
    c = next(n["counters"] for n in summary["nodes"] if "counters" in n)
    count = {k: int(c[k]) for k in ("applied", "dropped", "late", "left_out", "staleness_sum")}
    could = count["applied"] + count["dropped"] + count["left_out"]
    return {
        "reached": reached, "took": max(last), "accuracy": float(evals[-1]["accuracy"]),
        "waited": float(steps[-1]["wait_s"]) / float(steps[-1]["time_s"]),
        "staleness": count["staleness_sum"] / max(1, count["applied"]),
        **{k: 100 * count[k] / could for k in ("dropped", "late", "left_out")},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", default=list(SCENARIOS), metavar="SCENARIO[:POLICY,...]")
    wanted = [(name, only.split(",") if only else [policy for policy, _ in POLICIES])
              for name, _, only in (w.partition(":") for w in parser.parse_args().scenarios)]
    for name, only in wanted:
        for given, known in ((name, SCENARIOS), *((policy, dict(POLICIES)) for policy in only)):
            if given not in known:
                parser.error(f"{given}: there are {', '.join(known)}")
    cluster = Cluster(workers=WORKERS, pservers=1, data=data_path())
    try:
        cluster.wait_nodes(WORKERS + 1)
        for name, only in wanted:
            print(f"\n{name}: {SCENARIOS[name]}")
            print(f"{'policy':14}{'to ' + format(TARGET, '.0%'):>9}{'job s':>8}{'accuracy':>10}"
                  f"{'waits':>8}{'stale':>7}{'dropped':>9}{'late':>7}{'left out':>10}")
            for policy, params in POLICIES:
                if policy not in only:
                    continue
                m = measure(cluster, SCENARIOS[name], policy, params)
                cluster.wait_idle()
                reached = "-" if m["reached"] is None else format(m["reached"], ".1f")
                print(f"{policy:14}{reached:>9}{m['took']:8.1f}{m['accuracy']:10.4f}"
                      f"{m['waited']:8.0%}{m['staleness']:7.1f}{m['dropped']:8.1f}%"
                      f"{m['late']:6.1f}%{m['left_out']:9.1f}%", flush=True)
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
