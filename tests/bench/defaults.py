#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""defaults.py - whether every preset learns as it is shipped, as a markdown table.

    PSGD_BIN=build/bin PSGD_DATA=/srv/data /usr/bin/python3 tests/bench/defaults.py [NAME...]

Each preset (or those named) runs with nothing set but its seed: by `psgd train`, and on a
cluster of processes on loopback. Presets that are the same but for their names run once. The
program fails if an accuracy is below --least, or below what PROMISED has for the preset.
results.py compares presets under one load; this program looks at what a user gets who types
`--preset NAME` and nothing else.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import results  # noqa: E402
from harness import BIN, Cluster, data_path, job_pb2  # noqa: E402

PROMISED = {"fleet_ctr": 0.8, "fleet_ctr_geo": 0.8}  # two classes, of which one has three quarters of the samples


def by_train(name, seed, more):
    with tempfile.TemporaryDirectory(prefix="psgd-defaults-") as folder:
        job, _ = results.run("--format", "json", "train", "--preset", name, "--seed", seed,
                             "--out", folder, "--data-path", data_path(), *more)
    return job["result"]["accuracy"]


def by_cluster(cluster, name, seed, more):
    spec = json.loads(subprocess.run(
        [BIN / "psgd", "--coordinator", cluster.coordinator.address, "--format", "json", "submit",
         "--preset", name, "--seed", str(seed), *map(str, more)],
        check=True, capture_output=True, text=True).stdout)
    job = cluster.wait(spec["id"], seconds=120)
    if job.state != job_pb2.JOB_STATE_DONE:
        sys.exit(f"{name}, seed {seed}: {job.reason} {job.message}")
    return job.result["accuracy"]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("names", nargs="*", help="presets; default all")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--workers", type=int, default=0, help="instead of the preset's number")
    options.add_argument("--least", type=float, default=0.85)
    o = options.parse_args()
    if data_path() is None:
        options.error("PSGD_DATA has to say where mnist/ is")
    listed = {p["name"]: p["spec"] for p in results.run("--format", "json", "presets")[0]}
    groups = {}
    for name, spec in listed.items():
        job = {k: v for k, v in spec.items() if k != "title"}
        groups.setdefault(json.dumps(job, sort_keys=True), []).append(name)
    wanted = [g for g in groups.values() if not o.names or set(g) & set(o.names)]
    seeds = range(1, o.seeds + 1)
    more = ["--workers", o.workers] if o.workers else []
    bad = []
    cluster = Cluster(workers=max(4, o.workers), pservers=2, data=data_path())
    try:
        cluster.wait_nodes(len(cluster.nodes))
        print(f"| preset | psgd train, seeds 1 to {o.seeds} | on a cluster |\n| --- | --- | --- |")
        for names in wanted:
            least = min(PROMISED.get(name, o.least) for name in names)
            here = [by_train(names[0], seed, more) for seed in seeds]
            there = [by_cluster(cluster, names[0], seed, more) for seed in seeds]
            cells = ["  ".join(f"{100 * a:.1f}" for a in column) for column in (here, there)]
            print(f"| {', '.join(f'`{n}`' for n in names)} | {' | '.join(cells)} |", flush=True)
            if min(here + there) < least:
                bad.append(f"{', '.join(names)}: {min(here + there):.3f}, {least} is promised")
    finally:
        cluster.close()
    print("\n".join(bad), file=sys.stderr)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
