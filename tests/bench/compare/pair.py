# SPDX-License-Identifier: Apache-2.0
"""pair.py - one job trained by psgd, and all that PyTorch needs to train the same.

Both begin with the same weights and see the same samples in the same order:
dump_job writes down what psgd starts from.
"""
import csv
import json
import os
import pathlib
import subprocess
import sys

import numpy

BIN = pathlib.Path(os.environ.get("PSGD_BIN", "build/bin"))
DATA = os.environ.get("PSGD_DATA", "../shared/data")


def job_of(task, seed, drops, **more):
    """The job of a task, as a JobSpec in JSON."""
    return {"title": task.name, "workers": 1, "pservers": 1, "seed": seed, "blockSize": task.batch,
            "data": dict(task.data), "model": task.model(drops), "epochs": task.epochs,
            "optimizer": {"rule": task.rule}, "metrics": [{"name": m} for m in task.metrics],
            **more}


class Pair:
    """A job within `folder`: trained by psgd, and written down for PyTorch."""

    def __init__(self, folder, job):
        self.folder = pathlib.Path(folder)
        self.job_file = self.folder / "job.json"
        self.job_file.write_text(json.dumps(job))
        self.out = self.folder / "out"
        self.out.mkdir()

    def train(self):
        done = subprocess.run([BIN / "psgd", "train", self.job_file, "--data-path", DATA, "--out",
                               self.out], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"psgd train: {done.stdout}{done.stderr}")

    def rows(self, prefix):
        """Of a report: TR, a row a step, or EV, a row an evaluation."""
        with open(next(self.out.glob(f"**/{prefix}-*.csv")), newline="") as file:
            return list(csv.DictReader(file))

    def weights(self):
        """The variables of the trained model by name."""
        data = next(self.out.glob("**/MODEL-*N(0).safetensors")).read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + size])
        header.pop("__metadata__")
        return {name: numpy.frombuffer(data, "<f4", numpy.prod(v["shape"], dtype=int),
                                       8 + size + v["data_offsets"][0])
                for name, v in header.items()}

    def facts(self):
        """What the job starts from: facts.json, and the arrays that lie beside it."""
        dump = self.folder / "dump"
        dump.mkdir()
        subprocess.run([BIN.parent / "bench" / "dump_job", self.job_file, DATA, dump], check=True)
        facts = json.loads((dump / "facts.json").read_text())
        width = {"x": facts["features"], "y": facts["target_width"]}
        for split in ("train", "test"):
            for part in ("x", "y"):
                facts[split, part] = numpy.memmap(dump / f"{split}.{part}.f32", "<f4",
                                                  "r").reshape(-1, width[part])
        facts["order"] = numpy.memmap(dump / "order.u32", "<u4", "r").reshape(
            -1, facts["train_count"])
        facts["weights"] = numpy.fromfile(dump / "weights.f32", "<f4")
        return facts
