#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""links.py - what codecs and updates are worth when every worker has a slow link.

    PSGD_BIN=build/bin PSGD_DATA=/srv/data tests/cluster/links.py [cnn|slow|ngram[:METHOD,...] ...]

Needs root, `ip` and `tc`. A network namespace has a bridge, the coordinator and the
servers, which nothing slows; each worker has a namespace of its own and a veth pair to the
bridge, with a token bucket (tc tbf) of --mbit at either end. A bare TCP socket through the
first link, either way, is measured first.

cnn    trains on MNIST until a worker has --target right of the whole test set, at which it
       looks every --every steps. Seconds are those of training: evaluations are left out.
slow   the same by policies of consistency, int8 both ways, where the last worker is held up in
       every step for three times what a step takes without; for --workers 4.
ngram  trains a fixed number of steps on text/ and says words a second.

Bytes are those of all workers, as the job counted them and as the kernel counted them on the
workers' interfaces, frames and acknowledgements included, in the same span of time. "Held up"
are the seconds for which this program was kept from running: what else the machine did.
--picture FILE draws the seconds of cnn or slow as SVG.
"""
import argparse
import csv
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import harness
import slow_links

HERE = pathlib.Path(__file__).resolve()
sys.path.append(str(HERE.parents[1] / "bench"))
import pictures  # noqa: E402

INSIDE = "PSGD_LINKS_NETWORK"  # set for the part that runs in the hub's namespace
PATIENCE_MS = 60000  # nobody counts as lost because the machine is busy


def on_its_own_network(o):
    """Builds it, runs this program again inside, and takes it down whatever happens."""
    network, inside = f"psgd-{os.getpid()}", None
    try:
        slow_links.build(network, o.workers, o.mbit)
        inside = subprocess.Popen(
            [*slow_links.within(network, "hub"), sys.executable, str(HERE), *sys.argv[1:]],
            env={**os.environ, INSIDE: network})
        return inside.wait()
    finally:
        if inside and inside.poll() is None:
            inside.terminate()  # it ends its cluster first
            inside.wait(60)
        slow_links.tear_down(network, o.workers)


# --- the jobs ------------------------------------------------------------------------


def choice(name, **params):
    return {"name": name, "params": params}


def through(up, down):
    return {"codec": {"up": up, "down": down}}


def local(update, **more):
    """Workers step by themselves and send what they have changed."""
    return {"update": update, "optimizer": {"local": choice("adam", lr=0.001)}, **more}


FED = {"error_feedback": 1}
SHARED = {"optimizer": {"rule": choice("adam", lr=0.001)}}  # steps on the servers
CNN = {
    "model": {"preset": "cnn"}, "blockSize": 16, "epochs": 2,
    "data": {"name": "mnist", "transforms": [choice("normalise", per=1)]},
}
CNN_METHODS = {
    "f32 bsp": SHARED,
    "f16": {**SHARED, **through(choice("f16"), choice("f16"))},
    "int8": {**SHARED, **through(choice("int8"), choice("int8"))},
    "1-bit+EF": local(choice("dqlosp", steps=1),
                      **through(choice("sign", **FED), choice("sign", **FED))),
    "top-k 1 %+EF": local(choice("dqlosp", steps=1),
                          **through(choice("topk", fraction=0.01, **FED),
                                    choice("topk", fraction=0.02, **FED))),
    "PowerSGD(2)": local(choice("dqlosp", steps=1),
                         **through(choice("powersgd", rank=2),
                                   choice("powersgd", rank=2, columns=128))),
    "localSGD(16)": local(choice("localsgd", steps=16)),
    "LOSP(16)": local(choice("losp", steps=16)),
    "DQLOSP(16)": local(choice("dqlosp", steps=16),
                        **through(choice("intn", bits=4, **FED), choice("intn", bits=4, **FED))),
    "geo(16)": local(choice("geo_sum_lag", steps=16), consistency=choice("asp")),
}
HELD_UP_MS = 450  # a step of int8 takes 150
SLOW_METHODS = {name: {**SHARED, **through(choice("int8"), choice("int8")), "consistency": policy}
                for name, policy in [("bsp", choice("bsp")), ("ssp(3)", choice("ssp", bound=3)),
                                     ("backup(1)", choice("backup", backups=1)),
                                     ("asp", choice("asp"))]}
NGRAM = {
    "model": {"preset": "ngram"}, "blockSize": 32, "epochs": 1, "optimizer": {},
    "data": {"name": "ngram", "folder": "text", "files": ["tinyshakespeare.txt"]},
    "consistency": choice("asp"),
}
NGRAM_METHODS = {
    "asp": {"optimizer": {"rule": choice("adagrad", lr=0.03)}},
    "geo(25)": {"update": choice("geo_sum_lag", steps=25),
                "optimizer": {"local": choice("adagrad", lr=0.03)}},
}


class HeldUp:
    """Seconds for which a thread that only waits was late, so the machine was not ours."""

    def __init__(self):
        self.seconds, self.over = 0.0, threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        last = time.monotonic()
        while not self.over.wait(0.05):
            now = time.monotonic()
            late = now - last - 0.05
            self.seconds += late if late > 0.1 else 0
            last = now


EVALUATED = re.compile(r"step (\d+): test loss \S+, accuracy ([\d.]+); "
                       r"evaluated from ([\d.]+) s to ([\d.]+) s")


class Bench:
    """A cluster on the network, and jobs on it one after the other."""

    def __init__(self, network, o):
        self.network, self.o = network, o
        self.printed, self.pictured = [], {}  # lines of tables; the tables to draw
        self.cluster = harness.Cluster(
            workers=o.workers, pservers=o.pservers, data=harness.data_path(),
            coordinator_args=["--lease", f"{PATIENCE_MS}ms"], place=slow_links.place(network))
        self.cluster.wait_nodes(o.workers + o.pservers)

    def evaluations(self, job_id):
        """(step, accuracy, seconds of training without evaluations) of worker 0 so far."""
        log = self.cluster.files(job_id, kinds=[harness.job_pb2.ARTIFACT_KIND_LOG])
        text = next((v.decode() for k, v in log.items() if k.endswith("N(worker-0).jsonl")), "")
        found, looking = [], 0.0
        for step, accuracy, began, ended in EVALUATED.findall(text):
            found.append((int(step), float(accuracy), float(began) - looking))
            looking += float(ended) - float(began)
        return found

    def train(self, title, spec, is_enough=lambda job: False):
        """The job when it was over or enough, and bytes counted by it and by the kernel in
        the same span of training: both are read when the job tells something new, and differ
        by what is on its way then."""
        spec = {"title": title, "workers": self.o.workers, "pservers": self.o.pservers, "seed": 1,
                "timeouts": {"leaseMs": PATIENCE_MS}, **spec}
        counts, last = [], []

        def look(job):
            if job.state == harness.job_pb2.JOB_STATE_RUNNING:
                counts.append((job.progress.bytes_up, job.progress.bytes_down,
                               *slow_links.counted_by_kernel(self.network, self.o.workers)))
            last[:] = [job]
            return job.state in harness.FINAL or is_enough(job)

        job_id = self.cluster.submit(spec).id
        self.cluster.wait(job_id, look, self.o.seconds)
        job = last[0]
        if job.state not in harness.FINAL:
            self.cluster.api.CancelJob(
                harness.coordinator_pb2.CancelJobRequest(job_id=job_id), timeout=10)
            self.cluster.wait(job_id)
        elif job.state != harness.job_pb2.JOB_STATE_DONE:
            slow_links.refuse(f"{title}: {job.reason} {job.message}")
        self.cluster.wait_idle(seconds=60)
        return job, [b - a for a, b in zip(counts[0], counts[-1])]

    def seconds(self, job_id):
        """Of training, of the slowest worker, in a job that was not cancelled."""
        files = self.cluster.files(job_id, kinds=[harness.job_pb2.ARTIFACT_KIND_REPORT])
        return max(float(list(csv.DictReader(io.StringIO(v.decode())))[-1]["time_s"])
                   for k, v in files.items() if k.startswith("TR-"))

    def say(self, line):
        self.printed.append(line)
        print(line, flush=True)

    def close(self):
        self.cluster.close()


# --- the tables ----------------------------------------------------------------------


def megabytes(counts):
    up, down, wire_up, wire_down = (n / 1e6 for n in counts)
    return f"{up:.1f}, {wire_up:.1f} | {down:.1f}, {wire_down:.1f} | "


def cnn_row(bench, method, spec):
    o, seen = bench.o, []

    def is_there(job):
        if dict(job.result) not in seen:  # there was another evaluation
            seen.append(dict(job.result))
            return any(a >= o.target for _, a, _ in bench.evaluations(job.id))
        return False

    held_up = HeldUp()
    job, counts = bench.train(
        "links", {**CNN, "evalEverySteps": o.every, **spec}, is_there)
    held_up.over.set()
    evaluations = bench.evaluations(job.id)
    reached = next((e for e in evaluations if e[1] >= o.target), None)
    step, accuracy, seconds = reached or evaluations[-1]
    return {"method": method, "seconds": seconds if reached else None, "steps": step,
            "accuracy": accuracy, "ms": 1e3 * seconds / step, "held_up": held_up.seconds,
            "bytes": counts}


def cnn(bench, methods):
    race(bench, methods, CNN_METHODS, "method", "")


def slow(bench, methods):
    held_up = {"straggler": choice("fixed", rank=bench.o.workers - 1, ms=HELD_UP_MS)}
    race(bench, methods, {m: {**spec, **held_up} for m, spec in SLOW_METHODS.items()},
         "policy", f", the last one held up for {HELD_UP_MS} ms a step")


def race(bench, methods, table, what, more):
    """Who is at the target first; methods[0] is what the others stand beside, `what` the head of their column."""
    o = bench.o
    print(f"\ncnn on MNIST, {o.workers} workers with {o.mbit} Mbit/s each{more}, {o.pservers} "
          f"server, evaluated every {o.every} steps\n")
    bench.say(f"| {what} | s to {100 * o.target:g} % | {methods[0]} / it | steps | accuracy % | ms a step | "
              "up MB: job, kernel | down MB: job, kernel | held up s |\n" + "| --- " * 9 + "|")
    bench.pictured[what] = f"With {o.workers} workers{more}"
    reference = None
    for method in methods:
        row = cnn_row(bench, method, table[method])
        if method == methods[0]:
            reference = row["seconds"]
        there = row["seconds"] is not None
        ratio = f"{reference / row['seconds']:.1f}" if there and reference else "-"
        seconds = f"{row['seconds']:.1f}" if there else "-"
        bench.say(f"| {method} | {seconds} | {ratio} | {row['steps']} | {100 * row['accuracy']:.2f} | "
                  f"{row['ms']:.0f} | " + megabytes(row["bytes"]) + f"{row['held_up']:.1f} |")
    bench.printed.append("")


def ngram(bench, methods):
    o = bench.o
    print(f"\nngram on text/, {o.workers} workers with {o.mbit} Mbit/s each, {o.pservers} server, "
          f"{o.samples} samples\n")
    print("| method | words a second | beside asp | test loss | up MB: job, kernel | "
          "down MB: job, kernel | held up s |\n" + "| --- " * 7 + "|")
    reference = None
    for method in methods:
        held_up = HeldUp()
        spec = {**NGRAM, "data": {**NGRAM["data"], "trainLimit": o.samples}}
        job, counts = bench.train("links", {**spec, **NGRAM_METHODS[method]})
        held_up.over.set()
        words = job.progress.total_steps * NGRAM["blockSize"] * o.workers
        speed = words / bench.seconds(job.id)
        reference = speed if method == "asp" else reference
        ratio = f"{speed / reference:.1f}" if reference else "-"
        print(f"| {method} | {speed:.0f} | {ratio} | {job.result['loss']:.3f} | " +
              megabytes(counts) + f"{held_up.seconds:.1f} |", flush=True)


EXPERIMENTS = {"cnn": (cnn, CNN_METHODS), "slow": (slow, SLOW_METHODS),
               "ngram": (ngram, NGRAM_METHODS)}


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("experiments", nargs="*", default=["cnn", "ngram"], metavar="NAME[:METHOD,...]",
                   help="cnn, slow, ngram, or some methods of one; the first of each is always run")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--pservers", type=int, default=1)
    p.add_argument("--mbit", type=int, default=100, help="of each worker's link, either way")
    p.add_argument("--target", type=float, default=0.97)
    p.add_argument("--every", type=int, default=80, help="steps between evaluations of cnn")
    p.add_argument("--samples", type=int, default=12800, help="training samples of ngram")
    p.add_argument("--seconds", type=int, default=1800, help="after which a job is given up")
    p.add_argument("--picture", type=pathlib.Path, help="an SVG file to write: seconds of cnn and slow")
    return p, p.parse_args()


def wanted(parser, names):
    """[(experiment, its methods)], the reference first."""
    found = []
    for name, _, only in (n.partition(":") for n in names):
        if name not in EXPERIMENTS:
            parser.error(f"{name}: there are {', '.join(EXPERIMENTS)}")
        run, methods = EXPERIMENTS[name]
        chosen = only.split(",") if only else list(methods)
        for method in chosen:
            if method not in methods:
                parser.error(f"{name}:{method}: there are {', '.join(methods)}")
        first = next(iter(methods))
        found.append((run, [first, *(m for m in methods if m in chosen and m != first)]))
    return found


def main():
    parser, o = arguments()
    experiments = wanted(parser, o.experiments)
    if o.picture and not {run for run, _ in experiments} & {cnn, slow}:
        parser.error("--picture: name cnn or slow, whose seconds it draws")
    if not os.environ.get("PSGD_DATA"):
        slow_links.refuse("PSGD_DATA has to say where mnist/ and text/ are")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if INSIDE not in os.environ:
        sys.exit(on_its_own_network(o))
    network = os.environ[INSIDE]
    up, down = (slow_links.bare_mbit(network, way) for way in ("up", "down"))
    print(f"bare TCP through a worker's link: {up:.1f} Mbit/s up, {down:.1f} down", flush=True)
    bench = Bench(network, o)
    try:
        for run, methods in experiments:
            run(bench, methods)
    finally:
        bench.close()
    if o.picture:
        o.picture.write_text(pictures.seconds_on_links("\n".join(bench.printed), o.mbit, bench.pictured),
                             encoding="utf-8")


if __name__ == "__main__":
    main()
