# SPDX-License-Identifier: Apache-2.0
"""timeline.py - checks of TRACE-{title}.json.gz for tests: the trace-event format, nesting, the sums of
phases against the record of rounds, arrows."""
import collections
import csv
import gzip
import io
import json


def read(test, data):
    """The file as it was written, after a check of each event against the format."""
    root = json.loads(gzip.decompress(data))
    test.assertLessEqual({"displayTimeUnit", "traceEvents"}, set(root))
    test.assertLessEqual(set(root), {"displayTimeUnit", "traceEvents", "otherData"})
    test.assertEqual(root["displayTimeUnit"], "ms")
    for e in root["traceEvents"]:
        test.assertIsInstance(e["name"], str)
        test.assertIn(e["ph"], "MXstfi")
        test.assertIsInstance(e["pid"], int)
        test.assertIsInstance(e["tid"], int)
        test.assertIsInstance(e.get("args", {}), dict)
        if e["ph"] == "M":
            test.assertIn(e["name"], ("process_name", "process_labels", "thread_name"))
        else:
            test.assertGreaterEqual(e["ts"], 0)
        if e["ph"] == "X":
            test.assertGreaterEqual(e["dur"], 0)
        if e["ph"] in "stf":
            test.assertEqual((e["cat"], e["name"]), ("flow", "push, step, pull"))
            test.assertIsInstance(e["id"], str)
        if e["ph"] == "f":
            test.assertEqual(e["bp"], "e")
    return root


def slices_of(root):
    return [e for e in root["traceEvents"] if e["ph"] == "X"]


def processes_of(root):
    """{pid: name}; each has one name, and each of its threads has one."""
    named = collections.Counter((e["name"], e["pid"], e["tid"]) for e in root["traceEvents"] if e["ph"] == "M")
    assert set(named.values()) == {1}, named
    return {e["pid"]: e["args"]["name"] for e in root["traceEvents"] if e["name"] == "process_name"}


def check_nesting(test, slices):
    tracks = collections.defaultdict(list)
    for e in slices:
        begin = round(e["ts"] * 1000)
        tracks[e["pid"], e["tid"]].append((begin, -(begin + round(e["dur"] * 1000)), e["name"]))
    for track in tracks.values():
        around = []
        for begin, minus_end, name in sorted(track):
            while around and around[-1] <= begin:
                around.pop()
            if around:
                test.assertLessEqual(-minus_end, around[-1], name)
            around.append(-minus_end)


def check_rounds(test, slices, rounds, first, last, ranks):
    """The slices of workers against ROUND-{title}.csv, rounds `first` to `last`: within 2 %."""
    rows = [r for r in csv.DictReader(io.StringIO(rounds.decode())) if first <= int(r["round"]) <= last]
    test.assertEqual(len(rows), last - first + 1)
    for rank in range(ranks):
        mine = [e for e in slices if e["pid"] == rank + 1 and e["cat"] == "worker"]
        steps = [e for e in mine if e["name"] == "step"]
        waits = [e for e in mine if e["name"] == "wait"]
        # the wait before an evaluation is not within a step
        within = [w for w in waits if any(s["ts"] <= w["ts"] <= s["ts"] + s["dur"] for s in steps)]
        timed = {"wait_s": sum(e["dur"] for e in waits) * 1e-6,
                 "compute_s": (sum(e["dur"] for e in steps) - sum(e["dur"] for e in within)) * 1e-6}
        counted = {n: sum(float(r[f"{n}_{rank}"]) for r in rows) for n in timed}
        for name, seconds in timed.items():
            with test.subTest(rank=rank, phase=name):
                test.assertAlmostEqual(seconds, counted[name], delta=0.02 * counted[name])


def arrows_of(root):
    """{id: {phase: [event]}}"""
    arrows = collections.defaultdict(lambda: collections.defaultdict(list))
    for e in root["traceEvents"]:
        if e["ph"] in "stf":
            arrows[e["id"]][e["ph"]].append(e)
    return arrows
