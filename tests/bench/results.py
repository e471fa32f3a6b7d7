#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""results.py - what every preset comes to: accuracy, bytes, time, as a markdown table.

    PSGD_BIN=build/bin PSGD_DATA=/srv/data /usr/bin/python3 tests/bench/results.py [NAME...]

All presets (or those named) train on MNIST with 4 workers and 2 servers for two epochs,
each by `psgd train`, the tutorial's network or --network cnn. Presets that are the same but
for their names are trained once. Bytes are those of the encodings with their heads,
beside the same exchanges in float32 and beside those of `bsp` (float32, in step, Adam
0.001); "points" is the difference in accuracy to that. "s" is the time of the training, "CPU s"
what it took of all processors, which other work on the machine changes less.

A job is `exact` if all that workers contribute arrives as float32 and is applied,
`error-fed` if what codecs leave out is kept and sent later, both ways, else `lossy`; read
off the completed job. The program fails if an exact or error-fed one is
more than --within points below `bsp`. --picture FILE draws the rows as SVG.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from harness import BIN  # noqa: E402
import pictures  # noqa: E402

REFERENCE = "bsp"
DROPPING = {"lag_discard", "backup", "quorum"}
NAMES = ("title", "data")  # what same jobs may differ in


def run(*args):
    """What psgd says, and the seconds of processor time that it took."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([BIN / "psgd", *map(str, args)], stdout=out, stderr=err)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            sys.exit(f"psgd {' '.join(map(str, args))}: {out.read()}{err.read()}")
        return json.loads(out.read()), used.ru_utime + used.ru_stime


def presets():
    """All, in their order: name to the fields that it sets."""
    return {p["name"]: p["spec"] for p in run("--format", "json", "presets")[0]
            if "table" not in p["spec"]["model"]}  # those are of ids, and MNIST has none


def together(listed):
    """Lists of names, those of the same job in one."""
    groups = {}
    for name, spec in listed.items():
        job = {k: v for k, v in spec.items() if k not in NAMES and (k, v) != ("seed", 1)}
        if job.get("consistency", {}).get("name") == "bsp":
            del job["consistency"]  # the default
        groups.setdefault(json.dumps(job, sort_keys=True), []).append(name)
    return list(groups.values())


def train(names, o):
    with tempfile.TemporaryDirectory(prefix="psgd-results-") as folder:
        more = ["--model", o.network] if o.network != "tutorial" else []
        more += ["--block-size", o.block_size, "--train-limit", o.samples]
        more += ["--threads", o.threads] if o.threads else []
        job, used = run("--format", "json", "train", "--preset", names[0], "--data", "mnist",
                  "--workers", 4, "--pservers", 2, "--epochs", o.epochs, "--seed", o.seed,
                  "--data-path", o.data_path, "--out", folder, *more)
    return {"names": names, "spec": job["spec"], "accuracy": 100 * job["result"]["accuracy"],
            "seconds": at(job["end_time"]) - at(job["start_time"]), "used": used,
            **{k: float(v) for k, v in job["progress"].items() if k.startswith("bytes_")}}


def at(text):
    whole, _, rest = text.rstrip("Z").partition(".")
    return datetime.datetime.fromisoformat(whole).timestamp() + float("0." + (rest or "0"))


def kind_of(spec):
    kinds = set()
    for way in ("up", "down"):
        codec = spec["codec"][way]
        if codec["name"] != "f32":
            fed = any(codec["params"].get(key) for key in ("error_feedback", "difference"))
            kinds.add("error-fed" if fed else "lossy")
    if "lossy" in kinds or spec["consistency"]["name"] in DROPPING:
        return "lossy"
    return "error-fed" if kinds else "exact"


def codec_of(choice):
    params = choice.get("params", {})
    bits = f" {params['bits']:g}" if "bits" in params else ""
    return choice["name"] + bits + ("+EF" if params.get("error_feedback") else "")


def method_of(spec):
    """The choices of a job in a few words."""
    optimizer, update = spec["optimizer"], spec["update"]
    rule = optimizer["local"] if optimizer.get("local") else optimizer["rule"]
    steps = update.get("params", {}).get("steps")
    up, down = (codec_of(spec["codec"][way]) for way in ("up", "down"))
    exchange = spec["exchange"]["name"]
    copies = spec["assignment"].get("params", {}).get("redundancy", 1)
    among = [] if exchange == "pserver" else [exchange + (f" x {copies:g}" if copies > 1 else "")]
    return ", ".join([update["name"] + (f" {steps:g}" if steps else ""),
                      spec["consistency"]["name"], f"{rule['name']} {rule['params']['lr']:g}",
                      f"{up} / {down}", *among])


def line(row, reference):
    def bytes_of(way):
        mine = row[f"bytes_{way}"]
        return (f"{mine / 1e6:.1f} MB | {100 * mine / row[f'bytes_{way}_float32']:.1f} % | "
                f"{100 * mine / reference[f'bytes_{way}']:.1f} %")
    names = ", ".join(f"`{name}`" for name in row["names"])
    return (f"| {names} | {method_of(row['spec'])} | {kind_of(row['spec'])} | "
            f"{row['accuracy']:.2f} | {row['accuracy'] - reference['accuracy']:+.2f} | "
            f"{bytes_of('up')} | {bytes_of('down')} | {row['seconds']:.1f} | {row['used']:.1f} |")


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("names", nargs="*", help="presets; default all")
    options.add_argument("--network", default="tutorial")
    options.add_argument("--epochs", type=int, default=2)
    options.add_argument("--samples", type=int, default=0, help="training samples; 0: all")
    options.add_argument("--block-size", type=int, default=64)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--threads", type=int, default=0)
    options.add_argument("--at-once", type=int, default=1, help="trainings at the same time")
    options.add_argument("--data-path", default=os.environ.get("PSGD_DATA"))
    options.add_argument("--within", type=float, default=1.0)
    options.add_argument("--picture", type=pathlib.Path, help="an SVG file to write: bytes against accuracy")
    o = options.parse_args()
    if not o.data_path:
        options.error("--data-path or PSGD_DATA has to say where mnist/ is")
    wanted = [names for names in together(presets())
              if not o.names or REFERENCE in names or set(names) & set(o.names)]
    with concurrent.futures.ThreadPoolExecutor(o.at_once) as pool:
        wanted.sort(key=lambda names: REFERENCE not in names)  # what lines are beside comes first
        table = ["| preset | update, consistency, rule, codecs up / down | kind | accuracy % | "
                 "points | up | of f32 | of bsp | down | of f32 | of bsp | s | CPU s |", "| --- " * 13 + "|"]
        print("\n".join(table), flush=True)
        rows = []
        for row in pool.map(lambda names: train(names, o), wanted):
            rows.append(row)
            table.append(line(row, rows[0]))
            print(table[-1], flush=True)
    if o.picture:
        setting = f"MNIST, {o.network}, 4 workers, 2 servers, {o.epochs} epochs"
        o.picture.write_text(pictures.bytes_and_accuracy("\n".join(table), setting), encoding="utf-8")
    reference = rows[0]
    bad = [row for row in rows if kind_of(row["spec"]) != "lossy"
           and row["accuracy"] < reference["accuracy"] - o.within]
    for row in bad:
        print(f"{', '.join(row['names'])}: more than {o.within:g} below {REFERENCE}",
              file=sys.stderr)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
