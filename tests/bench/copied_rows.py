#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""copied_rows.py - what copies of rows cost a job without a loss: steps a second with `replicas: 2` beside those without, by turns.

    PSGD_BIN=build/bin tests/bench/copied_rows.py [REPETITIONS]
"""
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import Cluster, job_pb2  # noqa: E402
from test_checkpoints import hashed  # noqa: E402

JOB = {"title": "copied", "workers": 2, "pservers": 2, "epochs": 3, "blockSize": 64,
       "model": {"preset": "wide_deep", "params": {"hidden": 32, "layers": 2}},
       "optimizer": {"rule": {"name": "adam", "params": {"lr": 0.01}}},
       "data": {"name": "csv", "folder": "clicks", "files": ["clicks.csv"], "trainLimit": 19200, "testLimit": 500,
                "columns": [{"name": "age"}, *({**hashed(name), "params": {"buckets": 20000}} for name in ("site", "user")),
                            {"name": "click", "kind": "label"}]}}


def seconds(stamp):
    return stamp.seconds + stamp.nanos * 1e-9


def main():
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "clicks").mkdir()
        (pathlib.Path(folder) / "clicks" / "clicks.csv").write_text("age,site,user,click\n" + "".join(
            f"{i * 7 % 60},s{i * i % 997},u{i * 31 % 9973},{i * i % 7 // 4}\n" for i in range(24500)))
        c = Cluster(workers=2, pservers=2, data=folder)
        try:
            c.wait_nodes(4)
            for name, more in (("fixed vocabulary", {}), ("sparse tables", {"table": {"name": "sparse"}})):
                rates = {1: [], 2: []}
                for turn in range(repetitions + 1):  # the first is a rehearsal
                    for replicas in ((1, 2), (2, 1))[turn % 2]:
                        c.wait_idle()
                        job = c.wait(c.submit({**JOB, "model": {**JOB["model"], **more}, "recovery": {"replicas": replicas}}).id)
                        assert job.state == job_pb2.JOB_STATE_DONE, job.message
                        rates[replicas].append(job.progress.step / (seconds(job.end_time) - seconds(job.start_time)))
                ratios = [b / a for a, b in zip(rates[1][1:], rates[2][1:])]
                print(f"{name}: {statistics.median(rates[1][1:]):.0f} steps a second, with copies {statistics.median(rates[2][1:]):.0f}, "
                      f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)
        finally:
            c.close()


if __name__ == "__main__":
    main()
