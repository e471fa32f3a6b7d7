#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""checkpoints.py - what taking checkpoints costs a job while it trains: two workers and a server
whose optimizer has about 100 MB of state, by default. The job runs without checkpoints and with
one every EVERY steps, in turn, to the same bits. Printed: how long a rank and a thread of the
server stood still at once for a checkpoint and computed for it (less, if others had the processors), and by how much the steps with a checkpoint under way are
longer than the others of the same run.

--disk does another thing: it takes one checkpoint of about 1 GB of a job with a worker and a server, goes
on from it, and writes and reads as many bytes by dd in the same folder.

--rows takes checkpoints of a job with a vocabulary of IDS ids, whose rows have their own state: those with all rows
beside those with the rows that changed."""
import argparse
import csv
import io
import pathlib
import re
import statistics
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from harness import Cluster, coordinator_pb2, job_pb2, tensors  # noqa: E402


def step_times(files):
    """Milliseconds of each step of rank 0, from the second on."""
    report = next(data for name, data in files.items() if name.startswith("TR-") and "(0)" in name)
    at = [float(row["time_s"]) for row in csv.DictReader(io.StringIO(report.decode()))]
    return {step + 1: (at[step] - at[step - 1]) * 1000 for step in range(1, len(at))}


def run(cluster, o, every):
    """(model, step times, milliseconds that ranks and threads stood still, steps of checkpoints)"""
    since = {p: p.log_end() for p in [*cluster.nodes, cluster.coordinator]}
    job = cluster.submit({
        "title": "cost", "seed": 3, "workers": 2, "pservers": 1, "epochs": 1, "blockSize": 16,
        "model": {"preset": "mlp", "widths": [o.width, o.width]},
        "data": {"name": "glyphs", "trainLimit": 32 * o.steps, "testLimit": 100},
        "optimizer": {"rule": {"name": "momentum", "params": {"lr": 0.01}}},
        **({"checkpoint": {"everySteps": every, "keep": 1}} if every else {})})
    done = cluster.wait(job.id, seconds=600)
    if done.state != job_pb2.JOB_STATE_DONE:
        sys.exit(f"{done.reason} {done.message}")
    files = cluster.files(job.id)
    model = tensors(next(data for name, data in files.items() if name.endswith("-N(ps).safetensors")))
    logs = {p: p.log(since[p]) for p in since}
    still = {(kind, what): [float(ms) for p, text in logs.items() if p in nodes
                            for ms in re.findall(what + r" for ([\d.]+) ms", text)]
             for kind, nodes in (("rank", cluster.workers), ("server", cluster.pservers))
             for what in ("stood still", "computed")}
    still["server", "in all"] = [float(ms) for p in cluster.pservers
                                 for ms in re.findall(r"computed ([\d.]+) ms in all", logs[p])]
    stored = [int(s) for s in re.findall(r"checkpoint of step (\d+) stored", logs[cluster.coordinator])]
    size = sum(int(f.size) for f in done.artifacts if f.name.endswith("-N(ps).safetensors"))
    return model, step_times(files), still, stored, size


def seconds(stamp):
    return stamp.seconds + stamp.nanos * 1e-9


def copied(*arguments):
    """Seconds that dd takes."""
    began = time.monotonic()
    subprocess.run(["dd", "bs=1M", "status=none", *arguments], check=True)
    return time.monotonic() - began


def until_it_trains(cluster, job_id):
    """Seconds from the beginning of the job's first attempt until it trains."""
    cluster.wait_state(job_id, job_pb2.JOB_STATE_RUNNING, seconds=600)
    at = {}
    for event in cluster.api.WatchJob(coordinator_pb2.WatchJobRequest(job_id=job_id)):
        if event.kind == coordinator_pb2.JOB_EVENT_KIND_STATE:
            at.setdefault(event.job.state, seconds(event.time))
        if job_pb2.JOB_STATE_RUNNING in at:
            return at[job_pb2.JOB_STATE_RUNNING] - at[job_pb2.JOB_STATE_CAN_COMMIT]
    sys.exit("the job is over before it trains")


def disk(o):
    cluster = Cluster(workers=1, pservers=1, node_args=["--log-level", "info"])
    spec = {"title": "large", "seed": 3, "workers": 1, "pservers": 1, "epochs": 1, "blockSize": 16,
            "model": {"preset": "mlp", "widths": [o.width, o.width]},
            "data": {"name": "glyphs", "trainLimit": 16 * 1000, "testLimit": 100},
            "optimizer": {"rule": {"name": "momentum", "params": {"lr": 0.01}}}}
    rows = []
    try:
        cluster.wait_nodes(2)
        for _ in range(o.rounds):
            job = cluster.submit({**spec, "checkpoint": {"keep": 1}})
            plain = until_it_trains(cluster, job.id)
            cluster.wait(job.id, lambda j: j.progress.step > 2)
            cluster.api.TakeCheckpoint(coordinator_pb2.TakeCheckpointRequest(job_id=job.id), timeout=60)
            (taken,) = cluster.poll("a checkpoint", lambda: cluster.api.ListCheckpoints(
                coordinator_pb2.ListCheckpointsRequest(job_id=job.id), timeout=60).checkpoints, seconds=600)
            cluster.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=60)
            cluster.wait(job.id, seconds=600)
            # the time of the file of the server's memory, and of LATEST, which names the checkpoint at the end
            cut = re.findall(r"(?m)^.*checkpoint at clock \d+ begins.*$", cluster.pservers[0].log())[-1]
            at = re.search(r"T(\d+):(\d+):([\d.]+)Z", cut)
            began = int(at[1]) * 3600 + int(at[2]) * 60 + float(at[3])
            latest = cluster.folder / "coordinator" / "jobs" / job.id / "checkpoints" / "LATEST"
            saved = (latest.stat().st_mtime - began) % 86400
            resumed = cluster.submit({**spec, "initFrom": f"checkpoint:{job.id}@{taken.step}"})
            loaded = until_it_trains(cluster, resumed.id)
            cluster.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=resumed.id), timeout=60)
            cluster.wait(resumed.id, seconds=600)
            file, blocks = cluster.folder / "dd", taken.bytes >> 20
            written = copied("if=/dev/zero", f"of={file}", f"count={blocks}", "conv=fsync")
            read = copied(f"if={file}", "of=/dev/null")
            file.unlink()
            cluster.api.DeleteJob(coordinator_pb2.DeleteJobRequest(job_id=resumed.id), timeout=60)
            cluster.api.DeleteJob(coordinator_pb2.DeleteJobRequest(job_id=job.id), timeout=60)
            rows.append((taken.bytes / 1e9, saved, written, loaded, plain, read))
            print("  %.2f GB: saved in %.2f s, dd with fsync %.2f s; trains after %.2f s from it and %.2f s without, "
                  "dd reads in %.2f s" % rows[-1], flush=True)
    finally:
        cluster.close()
    middle = [statistics.median(column) for column in zip(*rows)]
    print("| GB | saved, s | dd with fsync, s | trains from it after, s | trains from the beginning after, s | "
          "dd reads, s |\n| --- | --- | --- | --- | --- | --- |\n| " + " | ".join(f"{x:.2f}" for x in middle) + " |")


def clock_s(stamp):
    """Seconds of a line of a log."""
    at = re.search(r"(\d+):(\d+):([\d.]+)", stamp)
    return int(at[1]) * 3600 + int(at[2]) * 60 + float(at[3])


def rows(o):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-ids-"))
    (folder / "ids.csv").write_text("age,user,click\n" + "".join(
        f"{i % 60},u{i * i % 99991},{i % 7 // 4}\n" for i in range(66000)))
    spec = {"title": "rows", "seed": 3, "workers": 2, "pservers": 1, "epochs": 100, "blockSize": 64,
            "model": {"preset": "wide_deep", "params": {"hidden": 16, "layers": 1}},
            "data": {"name": "csv", "folder": folder.name, "files": ["ids.csv"], "trainLimit": 51200, "testLimit": 100,
                     "columns": [{"name": "age"}, {"name": "user", "kind": "hashed", "params": {"buckets": o.ids}},
                                 {"name": "click", "kind": "label"}]},
            "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.01}}},
            "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 20}},
            "checkpoint": {"everySteps": o.every, "keep": 1000}}
    cluster = Cluster(workers=2, pservers=1, node_args=["--log-level", "info"], data=str(folder.parent))
    try:
        cluster.wait_nodes(3)
        job = cluster.submit(spec)

        def listed():
            found = cluster.api.ListCheckpoints(coordinator_pb2.ListCheckpointsRequest(job_id=job.id), timeout=60).checkpoints
            return found if len(found) > 9 * o.rounds else None  # one with all rows, then 8 with changes
        taken = cluster.poll("checkpoints", listed, seconds=600)
        folders = cluster.folder / "coordinator" / "jobs" / job.id / "checkpoints"
        states = {p.step: sum(f.stat().st_size for f in (folders / f"{p.step:013d}").glob("server-*.state")) for p in taken}
        cluster.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id), timeout=60)
        cluster.wait(job.id, seconds=600)
        begun = {int(step): clock_s(line) for line, step in re.findall(
            r"(?m)^(.*checkpoint at clock (\d+): stood still.*)$", cluster.pservers[0].log())}
        stored = {int(step): clock_s(line) for line, step in re.findall(
            r"(?m)^(.*checkpoint of step (\d+) stored.*)$", cluster.coordinator.log())}
    finally:
        cluster.close()
        shutil.rmtree(folder)
    print("| | checkpoints | MB, median | of them the server's state | seconds from the copy until it is stored, median | longest |\n"
          "| --- | --- | --- | --- | --- | --- |")
    for name, of in (("with all rows", [p for p in taken if p.parent == 0]), ("with the rows that changed", [p for p in taken if p.parent > 0])):
        took = [(stored[p.step] - begun[p.step]) % 86400 for p in of if p.step in begun and p.step in stored]
        sizes = [statistics.median(each) / 1e6 for each in ([p.bytes for p in of], [states[p.step] for p in of])]
        print(f"| {name} | {len(took)} | {sizes[0]:.1f} | {sizes[1]:.1f} | {statistics.median(took):.2f} | {max(took):.2f} |")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--width", type=int, default=3200, help="of both hidden layers")
    options.add_argument("--steps", type=int, default=40)
    options.add_argument("--every", type=int, default=10)
    options.add_argument("--require", type=float, default=0, help="fail if a rank or thread computed for longer, in ms")
    options.add_argument("--disk", action="store_true")
    options.add_argument("--rows", action="store_true")
    options.add_argument("--ids", type=int, default=400000)
    o = options.parse_args()
    if o.rows:
        rows(o)
        return
    if o.disk:
        o.width = 7400 if o.width == options.get_default("width") else o.width
        disk(o)
        return
    cluster = Cluster(workers=2, pservers=1, node_args=["--log-level", "info"])
    still = {(kind, what): [] for kind in ("rank", "server") for what in ("stood still", "computed")}
    still["server", "in all"] = []
    longer, plain, models = [], [], []
    try:
        cluster.wait_nodes(3)
        for _ in range(o.rounds):
            model, times, *_ = run(cluster, o, 0)
            models.append(model)
            plain.append(statistics.median(times.values()))
            model, times, stood, stored, size = run(cluster, o, o.every)
            models.append(model)
            for kind in still:
                still[kind] += stood[kind]
            # the step that begins at the checkpoint, in which all slices change
            others = statistics.median(ms for step, ms in times.items() if step - 1 not in stored)
            longer += [times[step + 1] - others for step in stored if step + 1 in times]
    finally:
        cluster.close()
    print(f"{size / 1e6:.0f} MB of weights, {2 * size / 1e6:.0f} MB of state at the server; "
          f"{o.rounds} rounds, {len(longer)} checkpoints; the bits are "
          f"{'the same' if all(m == models[0] for m in models) else 'DIFFERENT'}")
    print("| | median | longest |\n| --- | --- | --- |")
    names = {("server", "stood still"): "a server's thread stood still, at once",
             ("server", "computed"): "a server's thread computed, at once",
             ("server", "in all"): "a server's thread computed, in all pieces"}
    for of, ms in still.items():
        print(f"| {names.get(of, ' '.join(('a', *of)))}, ms | {statistics.median(ms):.1f} | {max(ms):.1f} |")
    print(f"| a step with a checkpoint is longer by, ms | {statistics.median(longer):.0f} | {max(longer):.0f} |")
    print(f"| a step without checkpoints takes, ms | {statistics.median(plain):.0f} | {max(plain):.0f} |")
    if o.require and max(max(still[kind, "computed"]) for kind in ("rank", "server")) > o.require:
        sys.exit(f"longer than {o.require} ms")


if __name__ == "__main__":
    main()
