#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""same_bits.py - records what bsp jobs leave, to the bit, and compares it with other binaries.

    same_bits.py record --bin DIR --out FILE.json [-k REGEX] [--quick]
    same_bits.py compare --bin DIR FILE.json [-k REGEX] [--quick]
    same_bits.py list [-k REGEX] [--quick]

For a change of the code that must not change a result: record with the binaries of before, compare
with those of after. Each job of the table below runs on a cluster (1 coordinator, 3 servers, 4
workers, all processes) and by `psgd train`. A record holds the SHA-256 of each model's tensors, of
the rows of sparse tables, of each EV file, and of the columns `step` and `loss` of each TR file.

A job that is marked `merged` trains an embedding by rows or in a sparse table. Its record holds the
last losses of three seeds too. Where its bits differ, `compare` accepts losses that are no further
from the recorded ones than those of the three seeds are from each other; --strict does not.

A job that is marked `copied` has each block on two workers of a parameter server. The first copy counts,
so a worker may be overtaken and compute on newer weights: its reports depend on timing. Its record
holds the servers' model alone.

A record is good on the kind of processor that made it: OpenBLAS has other kernels for each, and
OPENBLAS_CORETYPE chooses them. `compare` ends with 1 if a job differs or does not run, with 2 if the
record cannot be used here.
"""
import argparse
import concurrent.futures
import csv
import hashlib
import io
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
import harness  # noqa: E402

SEEDS = (7, 8, 9)  # of merged jobs; the others have the first
STEPS = 15  # an epoch; of two


def pick(name, **params):
    return {"name": name, "params": params} if params else {"name": name}


# --- the table of jobs ------------------------------------------------------------

BSP = {"consistency": pick("bsp")}
ADAM = {"optimizer": {"rule": pick("adam", lr=0.002)}}
SGD = {"optimizer": {"rule": pick("sgd", lr=0.05)}}
LOCAL = {"optimizer": {"local": pick("sgd", lr=0.1)}}


def glyphs(workers=2, pservers=2, **fields):
    """The tutorial's network on digits that are drawn: some of its variables have several slices."""
    return {"workers": workers, "pservers": pservers, "epochs": 2, "blockSize": 16,
            "data": {"name": "glyphs", "trainLimit": 16 * STEPS * workers, "testLimit": 100}, **ADAM, **fields}


def peers(exchange, workers, redundancy=1, assignment="iid", **fields):
    return glyphs(workers, 0, exchange=pick(exchange), assignment=pick(assignment, redundancy=redundancy),
                  **fields)


def codec(up=None, down=None):
    return {"codec": {way: what for way, what in (("up", up), ("down", down)) if what}}


def presets():
    """Every preset but the four of update dc_asgd, which bsp refuses; in bsp whatever it says, on little data."""
    small = {"data": {"name": "glyphs", "trainLimit": 64 * 2 * 20, "testLimit": 100}, **BSP}
    names = """tutorial tutorial-glyphs asp bsp ssp ring tree int8 dgc diloco diloco_overlapped plain unicast
        ndc ccdc ps ps_client grad graddiff grad_diff full_precision simple para_average adam_ps adam_gradiff
        fast fedavg qpa q1 qasgd1bit binarySGD q2 qasgd2bit ternarySGD stochastic_ternary_SGD
        high_precision_weights_averaging low_precision_weights_averaging low_precision
        1bit_weights_averaging 2bit_weights_averaging binary tqn quantization sgq q_ext laq
        localsgd osp losp dqlosp sync async half_async geo paddle_v2_sync paddle_v2_async
        paddle_v2_average paddle_v2_elastic_average""".split()
    jobs = {name: {"preset": name, **small} for name in names}
    for name, size in (("fast", 16), ("osp", 16), ("fedavg", 8)):  # warm-ups and rounds of up to 150 steps
        jobs[name] = {**jobs[name], "blockSize": size}
    jobs["fleet_ctr"] = {"preset": "fleet_ctr", "epochs": 1, **BSP, "merged": True, "data": {
        "name": "csv", "trainLimit": 1280, "testLimit": 300}}
    return jobs


def shapes():
    """Every number of workers and servers, and who has how many slices of what."""
    fields = {"f32": {}, "int8": codec(pick("int8"), pick("int8")),
              "localsgd": {"update": pick("localsgd", steps=5), **LOCAL},
              "dqlosp": {"update": pick("dqlosp", steps=5), **LOCAL,
                         **codec(pick("intn", error_feedback=1), pick("intn", error_feedback=1))}}
    return {f"{name} {w}x{s}": glyphs(w, s, **more) for name, more in fields.items()
            for w in (1, 2, 3, 4) for s in (1, 2, 3) if name in ("f32", "int8") or (w + s) % 2 == 0}


def exchanges():
    int8, top = pick("int8"), pick("topk", fraction=0.1, error_feedback=1)
    mixed = {"codec": {"variables": [{"match": "dense0.weight", "up": pick("intn", bits=4, error_feedback=1)}]}}
    jobs = {f"{name} {n}": peers(name, n) for name in ("plain", "ring", "tree") for n in (2, 3, 4)}
    jobs |= {f"{name} {n} r{r}": peers(name, n, r) for name in ("plain", "ndc", "ccdc")
             for n, r in ((3, 2), (4, 2), (4, 3))}
    jobs |= {
        "plain copies": peers("plain", 4, 2, "duplicate"), "plain top": peers("plain", 4, **codec(top)),
        "plain mixed": peers("plain", 3, **mixed), "ndc int8": peers("ndc", 4, 3, **codec(int8)),
        "ndc top": peers("ndc", 3, **codec(top)), "ring int8": peers("ring", 4, **codec(int8)),
        "ring top": peers("ring", 3, **codec(top)), "ring down": peers("ring", 3, **codec(int8, pick("f16"))),
        "ring average": peers("ring", 4, update=pick("gradient_average")),
        "tree f16": peers("tree", 4, 2, **codec(pick("f16"))),
        "tree int8": peers("tree", 4, **codec(int8, int8)),
        "plain workers step": peers("plain", 3, optimizer={"side": "OPTIMIZER_SIDE_WORKER",
                                                           "rule": pick("adam", lr=0.002)})}
    return jobs | {f"ring {name}": peers("ring", 4, update=pick(name, steps=5), **LOCAL)
                   for name in ("localsgd", "losp", "scaffold", "easgd", "geo_average")}


GRADIENTS_ONLY = {"topk": {"fraction": 0.1}, "randomk": {"fraction": 0.1}, "threshold": {"magnitude": 0.003},
                  "threelc": {}, "dgc": {"fraction": 0.1, "momentum": 0.5}, "powersgd": {"rank": 2}}
BOTH_WAYS = {"f32": {}, "f16": {}, "bf16": {}, "int8": {}, "intn": {"bits": 6}, "natural": {}, "sign": {},
             "onebit": {}, "ternary": {}, "qsgd": {}, "cot": {"bits": 6}, "tqn": {}, "laq": {"bits": 8},
             "norm": {}, "vote": {}, "intsum": {}}


def codecs():
    """Every codec, up and down, with error feedback and without, over all numbers of workers and servers."""
    jobs = {}
    for up, names in ((True, {**BOTH_WAYS, **GRADIENTS_ONLY}), (False, BOTH_WAYS)):
        for name, params in names.items():
            for fed in (0, 1):
                n = len(jobs)
                what = pick(name, **{**params, "error_feedback": fed})
                jobs[f"{name} {'up' if up else 'down'}{' fed' if fed else ''}"] = glyphs(
                    1 + n % 4, 1 + n % 3, **SGD, **codec(*((what,) if up else (None, what))))
    more = {"lz4": codec(pick("intn", lossless=1), pick("intn", lossless=1, bits=8)),
            "zstd": codec(pick("sign", lossless=2), pick("int8", lossless=2)),
            "difference": codec(pick("sign", difference=1)), "momentum": codec(pick("int8", momentum=0.9)),
            "lazy": codec(pick("f32", difference=1, lazy=0.05)),
            "rows": codec(pick("intn", rows=1, error_feedback=1), pick("intn", bits=8)),
            "warm-up": codec(pick("dgc", warmup=20, momentum=0.5)),
            "variables": {"codec": {"up": pick("f16"), "variables": [
                {"match": "dense0.*", "up": pick("topk", fraction=0.1, error_feedback=1), "down": pick("int8")},
                {"match": "dense2.bias", "up": pick("f32")}]}}}
    jobs |= {f"with {name}": glyphs(3, 2, **{**SGD, **what}) for name, what in more.items()}
    return {**jobs, "powersgd 3 servers": glyphs(4, 3, **SGD, **codec(pick("powersgd"))),
            "vote copies": glyphs(4, 3, assignment=pick("duplicate", redundancy=2), **codec(pick("vote")), copied=True)}


def updates():
    params = {"post_local": {"start": 8, "steps": 5}, "geo_sum_lag": {"steps": 5, "idle_rounds": 2},
              "fedavg": {"steps": 5, "fraction": 0.5}, "scaffold": {"steps": 5, "fraction": 0.7}}
    adamw = {"local": pick("adamw", lr=0.002), "rule": pick("nesterov", lr=0.3, momentum=0.5)}
    jobs = {name: glyphs(update=pick(name)) for name in
            ("gradient", "gradient_average", "double_buffering")}
    for n, name in enumerate(("parameter_average", "delta", "localsgd", "post_local", "fedavg", "osp", "losp",
                              "dqlosp", "geo_sum_lag", "geo_average", "easgd", "fedprox", "scaffold", "diloco",
                              "diloco_overlapped")):
        optimizer = adamw if name.startswith("diloco") else {
            "local": pick("sgd", lr=0.1) if name == "scaffold" else pick("momentum", lr=0.02)}
        jobs[name] = glyphs(2 + n % 3, 1 + n % 3, update=pick(name, **params.get(name, {"steps": 5})),
                            optimizer=optimizer)
    return jobs


def optimizers():
    def descent(workers=2, pservers=2, rule="sgd", lr=0.01, **more):
        return glyphs(workers, pservers, optimizer={"rule": pick(rule, lr=lr), **more})

    rules = "sgd adam momentum nesterov adamw adagrad rmsprop adadelta decay".split()
    jobs = {f"{name} on servers": descent(3, 3, name) for name in rules}
    jobs |= {f"{name} on workers": descent(3, 2, name, side="OPTIMIZER_SIDE_WORKER") for name in rules}
    jobs |= {f"clip {name}": descent(clip=pick(name, limit=0.1)) for name in ("value", "norm", "global_norm")}
    jobs |= {f"schedule {name}": descent(schedule=pick(name, warmup=6)) for name in
             ("constant", "step", "exponential", "cosine", "polynomial", "inverse_sqrt")}
    return {**jobs, "l1 and l2": descent(l1=0.001, l2=0.01),
            "int8 on workers": {**descent(4, 3, "adam", 0.002, side="OPTIMIZER_SIDE_WORKER"),
                                **codec(pick("int8", error_feedback=1), pick("int8"))}}


def networks():
    images = {"data": {"name": "cifar10", "trainLimit": 320, "testLimit": 40}, "epochs": 1, "blockSize": 8}
    normed = [{"kind": "dense", "params": {"units": 64}}, {"kind": "batch_norm"}, {"kind": "relu"},
              {"kind": "dropout", "params": {"rate": 0.3}}, {"kind": "dense", "params": {"units": 10}}]
    line = {"model": {"preset": "linear"}, "data": {"name": "simlin", "trainLimit": 960, "testLimit": 100,
                                                    "params": {"features": 300, "outputs": 7}}}
    return {
        "cnn": glyphs(3, 2, model={"preset": "cnn"}, epochs=1),
        "alexnet": {**glyphs(2, 3, model={"preset": "alexnet"}), **images},
        "resnet14": {**glyphs(2, 2, model={"preset": "resnet14"}), **images},
        "resnet20 among workers": {**peers("ring", 3, model={"preset": "resnet20"}), **images},
        "norms": glyphs(3, 2, model={"layers": normed}, **codec(pick("sign", error_feedback=1))),
        "norms localsgd": glyphs(3, 2, model={"layers": normed}, update=pick("localsgd", steps=5), **LOCAL),
        "line": {**glyphs(2, 2), **line}, "line int8": {**glyphs(4, 1), **line, **codec(pick("int8"))}}


def feeds():
    """How blocks are dealt and when is evaluated."""
    def order(*transforms):
        return {"data": {"name": "glyphs", "trainLimit": 960, "testLimit": 100, "transforms": [*transforms]}}

    return {"duplicate": glyphs(4, 2, assignment=pick("duplicate", redundancy=2), copied=True),
            "iid twice": glyphs(4, 3, assignment=pick("iid", redundancy=2), copied=True),
            "uneven": glyphs(3, 2, assignment=pick("uneven", ratio_1=2, ratio_2=1)),
            "modulo": {**glyphs(2, 2), **clicks(), "assignment": pick("modulo"), "merged": True},
            "split evaluation": glyphs(4, 2, splitEvaluation=True, evalEverySteps=4),
            "held up": glyphs(3, 2, straggler=pick("random", mean_ms=3)),
            "non iid": {**glyphs(4, 2), **order(pick("non_iid", disorder=0.1))},
            "dirichlet": {**glyphs(3, 2), **order(pick("normalise"), pick("dirichlet"))}}


def clicks(**model):
    """Wide and deep on columns of words: embeddings, of which a step meets some rows."""
    hashed = [{"name": name, "kind": "hashed", "params": {"buckets": 2000}} for name in ("occupation", "country")]
    return {"model": {"preset": "wide_deep", "params": {"hidden": 32, "layers": 2}, **model},
            "optimizer": {"rule": pick("adagrad", lr=0.05)}, "epochs": 2, "blockSize": 16,
            "data": {"name": "csv", "folder": "ctr", "files": ["part-0.csv", "part-1.csv"], "trainLimit": 640,
                     "testLimit": 200, "columns": [{"name": "age"}, {"name": "hr_per_week"}, *hashed,
                                                   {"name": "income", "kind": "label"}]},
            "metrics": [pick("auc")]}


def words(preset, table=None):
    params = {"width": 16, "hidden": 16, "dropout": 0} if preset == "ngram" else {"width": 16}
    return {"model": {"preset": preset, "params": params, **({"table": table} if table else {})},
            "optimizer": {"rule": pick("adagrad", lr=0.05)}, "epochs": 1, "blockSize": 16,
            "data": {"name": preset, "folder": "text", "files": ["lines.txt"], "trainLimit": 960, "testLimit": 200,
                     "params": {"cutoff": 0}}}


def embeddings():
    """Whole, by rows, and as sparse tables; all but the whole ones are `merged`."""
    sparse = pick("sparse")
    aged = pick("sparse", admit_count=2, tick=8, unseen_max=2, prefetch=0)
    whole = codec(pick("f32", lossless=1), pick("f32", lossless=1))
    tasks = {"clicks": lambda table=None: clicks(**({"table": table} if table else {})),
             "ngram": lambda table=None: words("ngram", table), "skipgram": lambda table=None: words("skipgram", table)}
    jobs = {f"{name} whole": {**glyphs(2, 2), **task(), **whole} for name, task in tasks.items()}
    rows = {}
    for name, task in tasks.items():
        rows[f"{name} rows"] = {**glyphs(2, 2), **task()}
        rows[f"{name} sparse"] = {**glyphs(2, 2), **task(sparse)}
    rows |= {
        "clicks rows 4x3": {**glyphs(4, 3), **clicks()}, "clicks sparse 4x3": {**glyphs(4, 3), **clicks(table=sparse)},
        "clicks rows 1x1": {**glyphs(1, 1), **clicks()}, "clicks sparse 3x1": {**glyphs(3, 1), **clicks(table=sparse)},
        "clicks aged": {**glyphs(2, 2), **clicks(table=aged)},
        "clicks sparse int8": {**glyphs(3, 2), **clicks(table=sparse), **codec(pick("int8"), pick("f16"))},
        "clicks rows int8": {**glyphs(3, 2), **clicks(), **codec(pick("int8"), pick("int8"))},
        "clicks sparse adam": {**glyphs(2, 3), **clicks(table=sparse), **ADAM},
        "clicks rows adam": {**glyphs(2, 3), **clicks(), **ADAM},
        "clicks uneven": {**glyphs(2, 2), **clicks(table=sparse),
                          "assignment": pick("uneven", ratio_1=2, ratio_2=1)},
        "ngram rows fed": {**glyphs(2, 2), **words("ngram"), **codec(pick("intn", error_feedback=1))},
        "ngram ring": {**peers("ring", 3), **words("ngram")},
        "ngram geo": {**glyphs(2, 2), **words("ngram"), "update": pick("geo_sum_lag", steps=5, idle_rounds=2),
                      "optimizer": {"local": pick("sgd", lr=0.5)}},
        "ngram localsgd": {**glyphs(2, 2), **words("ngram"), "update": pick("localsgd", steps=5),
                           "optimizer": {"local": pick("sgd", lr=0.5)}}}
    return jobs | {name: {**fields, "merged": True} for name, fields in rows.items()}


GROUPS = {"preset": presets, "shape": shapes, "exchange": exchanges, "codec": codecs, "update": updates,
          "optimizer": optimizers, "network": networks, "feed": feeds, "embedding": embeddings}


def table(pattern="", quick=False):
    """{name: JobSpec as a job file has it, with the marks `merged` and `copied`}; quick: some of each group."""
    jobs = {}
    for group, make in GROUPS.items():
        for n, (name, fields) in enumerate(make().items()):
            if not quick or n % 8 == 0:
                jobs[f"{group}/{name}"] = {"title": "bits", **fields}
    return {name: fields for name, fields in jobs.items() if re.search(pattern, name)}


# --- small data ---------------------------------------------------------------------

NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hr_per_week")
WORDS = ("type_employer", "education", "marital", "occupation", "relationship", "race", "sex", "country")


def write_clicks(path, rows, rng):
    with open(path, "w") as out:
        print(*NUMBERS, *WORDS, "income", sep=",", file=out)
        for _ in range(rows):
            numbers = [rng.randrange(1, 90) for _ in NUMBERS]
            ids = [int(40 * rng.random() ** 3) for _ in WORDS]  # some often, most seldom
            rich = numbers[0] + numbers[5] + 4 * (ids[3] % 7) - 2 * ids[7] + rng.randrange(-20, 20) > 80
            print(*numbers, *(f"{word}{i}" for word, i in zip(WORDS, ids)), ">50K" if rich else "<=50K",
                  sep=",", file=out)


def write_data(folder, rows=600):
    """What the jobs read: tables of so many rows, text and photographs, the same on every machine."""
    rng = random.Random(1)
    for name in ("ctr", "text", "cifar-10-batches-bin"):
        (folder / name).mkdir(parents=True)
    for name, parts in (("adult.csv", 4), ("part-0.csv", 1), ("part-1.csv", 1)):
        write_clicks(folder / "ctr" / name, parts * rows, rng)
    with open(folder / "text" / "lines.txt", "w") as out:
        for i in range(1500):  # walks through 600 words; some are met often, most seldom
            at = (i * i) % 197 * (i * 7 % 3 + 1)
            print(*(f"w{(at + 7 * j) % 600}" for j in range(8)), file=out)
    for name, count in (("data_batch_1.bin", 400), ("test_batch.bin", 60)):
        with open(folder / "cifar-10-batches-bin" / name, "wb") as out:
            for _ in range(count):
                kind = rng.randrange(10)
                out.write(bytes([kind]) + bytes((v >> 1) + 12 * kind for v in rng.randbytes(3072)))


# --- a run ----------------------------------------------------------------------------

class Failed(Exception):
    """A job that does not run, or whose files are not there."""


def psgd(bin, *arguments, seconds=300):
    """What the client of that folder prints."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PSGD_")}
    done = subprocess.run([bin / "psgd", *map(str, arguments)], capture_output=True, text=True, env=env,
                          stdin=subprocess.DEVNULL, timeout=seconds * harness.PATIENCE)
    if done.returncode != 0:
        raise Failed(f"{(done.stderr + done.stdout)[-1500:].strip()}")
    return done.stdout


class Train:
    """Runs jobs in one process."""

    def __init__(self, bin, data):
        self.bin, self.data = bin, data

    def run(self, spec, out):
        psgd(self.bin, "train", spec, "--threads", 2, "--out", out, "--data-path", self.data)

    def close(self):
        pass


class Cluster:
    """Runs jobs on processes, with the client of the same folder: its messages are those of its services."""

    def __init__(self, bin, data, workers=4, pservers=3):
        self.bin = bin
        self.cluster = harness.Cluster(workers=workers, pservers=pservers, data=str(data), bin=bin)
        self.cluster.wait_nodes(workers + pservers)

    def psgd(self, *arguments):
        return psgd(self.bin, "-c", self.cluster.coordinator.address, *arguments)

    def run(self, spec, out):
        job = json.loads(self.psgd("--format", "json", "submit", "--watch", spec))["id"]
        self.psgd("download", job, "-o", out, "-k", "model", "-k", "report")

    def close(self):
        self.cluster.close()


WAYS = {"cluster": Cluster, "train": Train}


def digest(parts):
    seen = hashlib.sha256()
    for part in parts:
        seen.update(part if isinstance(part, bytes) else str(part).encode())
    return seen.hexdigest()


def model_of(data):
    """Digest of a safetensors file's variables, without what is said of the job."""
    return digest(part for name, (shape, values) in sorted(harness.tensors(data).items())
                  for part in (name, shape, values))


def losses_of(data):
    rows = csv.DictReader(io.StringIO(data.decode()))
    return digest(f"{row['step']},{row['loss']};" for row in rows)


def evidence(folder):
    """({file: digest}, last loss of worker 0's evaluations)"""
    files = {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file()}
    seen, loss = {}, None
    for name, data in sorted(files.items()):
        if name.endswith(".safetensors"):
            seen[name] = model_of(data)
        elif name.startswith("EV-"):
            seen[name] = digest([harness.evaluated(data)])  # as a file of builds that measured nothing
            if name.endswith("N(0).csv"):
                loss = float(list(csv.DictReader(io.StringIO(data.decode())))[-1]["loss"])
        elif name.startswith("TR-"):
            seen[name] = losses_of(data)
    rows = harness.rows_of(files)
    if any(name.endswith(".psgdtab") for name in files):  # whichever server has which
        seen["tables"] = digest(part for (number, key), row in sorted(rows.items()) for part in (number, key, row))
    if loss is None or not any(name.startswith("MODEL-") for name in seen):
        raise Failed(f"no model and no evaluation among {sorted(files)}")
    return seen, loss


def run(runner, fields, folder):
    """What a job leaves: {"files": ...}, of a merged one with the losses of its seeds."""
    fields = dict(fields)
    seeds = SEEDS if fields.pop("merged", False) else SEEDS[:1]
    copied = fields.pop("copied", False)
    losses, first = [], None
    for seed in seeds:
        with tempfile.TemporaryDirectory(dir=folder) as name:
            spec = pathlib.Path(name, "job.json")
            spec.write_text(json.dumps({"seed": seed, **fields}))
            runner.run(spec, pathlib.Path(name, "out"))
            files, loss = evidence(pathlib.Path(name, "out"))
        first = first or {name: seen for name, seen in files.items() if "N(ps)" in name or not copied}
        losses.append(loss)
    return {"files": first, **({"losses": losses} if len(seeds) > 1 else {})}


def run_way(way, bin, jobs, folder, data):
    """{job: what it left, or {"error": text}} of all jobs, one after the other."""
    results = {}
    runner = WAYS[way](bin, data)
    try:
        for name, fields in jobs.items():
            try:
                results[name] = run(runner, fields, folder)
            except (Failed, subprocess.TimeoutExpired) as e:
                results[name] = {"error": str(e)}
                print(f"{name} @{way}: {e}", flush=True)
    finally:
        runner.close()
    return results


def run_all(bin, jobs):
    """{job: {way: result}}; both ways at the same time."""
    with tempfile.TemporaryDirectory(prefix="psgd-bits-") as name, \
            concurrent.futures.ThreadPoolExecutor(len(WAYS)) as pool:
        folder = pathlib.Path(name)
        write_data(folder / "data")
        runs = {way: pool.submit(run_way, way, bin, jobs, folder, folder / "data") for way in WAYS}
        results = {way: run.result() for way, run in runs.items()}
    return {job: {way: results[way][job] for way in WAYS} for job in jobs}


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    found = re.search(r"model name\s*: (.*)", text)
    return {"processor": found.group(1) if found else "?", "kernels": os.environ.get("OPENBLAS_CORETYPE", "")}


def unlike(before, after):
    """What of a job's results is not as recorded: text, "" when all is; whether losses excuse it."""
    if "error" in after:
        return "does not run", False
    a, b = before["files"], after["files"]
    names = sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
    if not names:
        return "", False
    text = ", ".join(name + ("" if name in a and name in b else " (not in both)") for name in names)
    if "losses" not in before:
        return text, False
    old, new = before["losses"], after["losses"]
    apart = max(abs(x - y) for x, y in zip(old, new))
    spread = max(old) - min(old)
    return f"{text}; losses {apart:.3g} from the record, which is {spread:.3g} wide", apart <= spread


def record(o, jobs):
    results = run_all(o.bin.resolve(), jobs)
    errors = sum("error" in r for ways in results.values() for r in ways.values())
    for name, ways in results.items():
        if not any("error" in r for r in ways.values()):
            text, _ = unlike(ways["cluster"], ways["train"])
            if text:
                print(f"{name}: psgd train leaves something else than the cluster: {text}")
    if errors:
        print(f"{errors} runs failed: no record")
        return 1
    o.out.write_text(json.dumps({"machine": machine(), "jobs": {
        name: {"spec": jobs[name], **ways} for name, ways in results.items()}}, indent=1, sort_keys=True) + "\n")
    print(f"{len(results)} jobs recorded, each by {' and '.join(WAYS)}: {o.out}")
    return 0


def compare(o, jobs):
    recorded = json.loads(o.record.read_text())
    if recorded["machine"] != machine():
        print(f"the record is of {recorded['machine']}, this is {machine()}: record anew with the binaries of before")
        return 2
    before = recorded["jobs"]
    other = [name for name in jobs if name not in before or before[name]["spec"] != jobs[name]]
    if other:
        print("not in the record, or another job there: " + ", ".join(other))
        return 2
    after = run_all(o.bin.resolve(), jobs)
    counts = {"same": 0, "other bits, losses within the seeds'": 0, "DIFFERENT": 0}
    for name in jobs:
        for way in WAYS:
            text, excused = unlike(before[name][way], after[name][way])
            verdict = list(counts)[0 if not text else 1 if excused and not o.strict else 2]
            counts[verdict] += 1
            if text:
                print(f"{name} @{way}: {verdict}: {text}")
    print(f"{len(jobs)} jobs: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    return int(counts["DIFFERENT"] > 0)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("command", choices=("record", "compare", "list"))
    p.add_argument("record", nargs="?", type=pathlib.Path, help="of compare: the file to compare with")
    p.add_argument("--bin", type=pathlib.Path, help="folder of the binaries")
    p.add_argument("--out", type=pathlib.Path, help="of record: the file to write")
    p.add_argument("-k", dest="pattern", default="", metavar="REGEX", help="jobs whose names match")
    p.add_argument("--quick", action="store_true", help="some jobs of each group")
    p.add_argument("--strict", action="store_true", help="of compare: merged jobs must have their bits too")
    o = p.parse_intermixed_args()  # FILE may follow an option
    jobs = table(o.pattern, o.quick)
    if o.command == "list":
        for name, fields in jobs.items():
            print(name, *(f"({mark})" for mark in ("merged", "copied") if mark in fields))
        return 0
    if not o.bin or not (o.bin / "psgd").exists():
        p.error("--bin: the folder of the programs, as build/bin")
    if (o.command == "record") != bool(o.out) or (o.command == "compare") != bool(o.record):
        p.error("record wants --out FILE, compare wants FILE")
    began = time.monotonic()
    code = {"record": record, "compare": compare}[o.command](o, jobs)
    print(f"{time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
