# SPDX-License-Identifier: Apache-2.0
"""recovery.py - how long a synchronous job stands still when a process of it is killed or frozen,
and when processes leave and join, and its goodput at a kill every ten seconds. The figures of docs/fault-tolerance.md.

    PSGD_BIN=build/bin tests/bench/recovery.py [REPETITIONS]
"""
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from harness import SMALL, Cluster, coordinator_pb2, job_pb2  # noqa: E402

LEASE_MS = 2000
# Steps of 20 ms and a checkpoint each 10 of them, on 4 workers and 2 servers.
JOB = {**SMALL, "workers": 4, "pservers": 2, "epochs": 100000, "checkpoint": {"everySteps": 10},
       "straggler": {"name": "fixed", "params": {"rank": -1, "ms": 20}}, "timeouts": {"leaseMs": LEASE_MS},
       "recovery": {"maxRestarts": 100000}}
RUNNING = job_pb2.JOB_STATE_RUNNING


def seconds(stamp):
    return stamp.seconds + stamp.nanos * 1e-9


def one(c, job_id, victim, how):
    """(until it was noticed, until the job trained, until its next clock was reported)"""
    before = c.get(job_id)
    c.wait(job_id, lambda j: j.state == RUNNING and j.progress.step > before.progress.step + 15)
    harmed = time.time()
    victim.kill() if how == "kill" else victim.freeze()
    job = c.wait(job_id, lambda j: j.restarts > before.restarts and j.state == RUNNING)
    r = job.recoveries[-1]
    c.wait(job_id, lambda j: j.progress.step > r.from_step)
    clock_s = time.time() - harmed
    if how == "kill":
        victim.start()
    else:
        victim.thaw()
    c.wait_idle([victim])
    noticed_s = seconds(r.notice_time) - harmed
    return noticed_s, noticed_s + r.seconds, clock_s


def move(c, job_id, processes):
    """(from the call until the workers stopped, until the job trained, steps repeated)"""
    moves = len(c.get(job_id).recoveries)
    c.wait(job_id, lambda j: j.state == RUNNING and j.progress.step > 15)
    asked = time.time()
    c.api.ScaleJob(coordinator_pb2.ScaleJobRequest(job_id=job_id, worker_processes=processes))
    job = c.wait(job_id, lambda j: len(j.recoveries) > moves and j.state == RUNNING and j.recoveries[-1].seconds > 0)
    r = job.recoveries[-1]
    return seconds(r.notice_time) - asked, r.seconds, r.step - r.from_step


def moves(c, job_id, repetitions):
    """Workers leave and join."""
    for what, processes in (("2 of 4 workers leave", 2), ("2 workers join", 4)):
        rows = []
        for _ in range(repetitions):
            move(c, job_id, 6 - processes) if rows else None  # at first it has the other number already
            rows.append(move(c, job_id, processes))
        print(f"{what}: " + ", ".join(
            f"{name} {statistics.median(x):.3f} (at most {max(x):.3f})" for name, x in
            zip(("stopped after s", "stood still for s", "steps repeated"), zip(*rows))), flush=True)


def kills(c, job_id, repetitions, role, how, what):
    rows = []
    for _ in range(repetitions):
        of_job = {p.node_id for p in c.wait(job_id, lambda j: j.state == RUNNING).placements}
        rows.append(one(c, job_id, next(p for p in c.nodes if p.name in of_job and p.name.startswith(role)), how))
    print(f"{what}: " + ", ".join(
        f"{name} {statistics.median(x):.3f} s (at most {max(x):.3f})" for name, x in
        zip(("noticed", "trains again", "next clock reported"), zip(*rows))), flush=True)


def copies(c, repetitions):
    """A lost server of which another one has copies, and what copies cost a step of 1.8 M parameters without a loss."""
    job_id = c.submit({**JOB, "recovery": {"maxRestarts": 100000, "replicas": 2}}).id
    kills(c, job_id, repetitions, "pserver", "kill", "kill pserver, replicas 2")
    c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job_id))
    c.wait(job_id)
    large = {**SMALL, "workers": 2, "pservers": 2, "maxSteps": 150, "model": {"preset": "mlp", "widths": [1024, 768]},
             "optimizer": {"rule": {"name": "adam"}}}
    took = {1: [], 2: []}
    for _ in range(repetitions):
        for replicas, list_of in took.items():
            c.wait_idle()
            job = c.wait(c.submit({**large, "recovery": {"replicas": replicas}}).id)
            list_of.append(seconds(job.end_time) - seconds(job.start_time))
    ratios = [b / a for a, b in zip(took[1], took[2])]
    print(f"150 steps of 2 workers: {statistics.median(took[1]):.2f} s, with copies {statistics.median(took[2]):.2f} s, "
          f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def replays(c, repetitions):
    """A lost server that is computed anew of what workers have kept, and what keeping it costs a step of 1.8 M parameters."""
    job_id = c.submit({**JOB, "checkpoint": {"everySteps": 1000}, "recovery": {"maxRestarts": 100000, "replayMib": 4096}}).id
    kills(c, job_id, repetitions, "pserver", "kill", "kill pserver, replay")
    c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job_id))
    c.wait(job_id)
    large = {**SMALL, "workers": 2, "pservers": 2, "maxSteps": 150, "model": {"preset": "mlp", "widths": [1024, 768]},
             "optimizer": {"rule": {"name": "adam"}}, "checkpoint": {"everySteps": 10}}
    took = {"RESTART": [], "REPEAT": []}
    for _ in range(repetitions):
        for action, list_of in took.items():
            c.wait_idle()
            job = c.wait(c.submit({**large, "recovery": {"replayMib": 4096, "onServerLoss": "LOSS_ACTION_" + action}}).id)
            list_of.append(seconds(job.end_time) - seconds(job.start_time))
    ratios = [b / a for a, b in zip(*took.values())]
    print(f"150 steps of 2 workers: {statistics.median(took['RESTART']):.2f} s, with contributions kept "
          f"{statistics.median(took['REPEAT']):.2f} s, ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})", flush=True)


def main():
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    c = Cluster(workers=5, pservers=3, coordinator_args=["--heartbeat", "50ms"])
    try:
        c.wait_nodes(8)
        job_id = c.submit(JOB).id
        moves(c, job_id, repetitions)
        for role, how in (("worker", "kill"), ("pserver", "kill"), ("worker", "freeze"), ("pserver", "freeze")):
            kills(c, job_id, repetitions, role, how, f"{how} {role}")
        c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job_id))
        c.wait(job_id)
        copies(c, repetitions)
        replays(c, repetitions)
        job = c.submit({**JOB, "maxSteps": 2500})
        killed = 0
        while True:
            until = time.monotonic() + 10
            while time.monotonic() < until and c.get(job.id).state <= job_pb2.JOB_STATE_COLLECTING:
                c.pause()
            job = c.get(job.id)
            if job.state > job_pb2.JOB_STATE_COLLECTING:
                break
            of_job = sorted(p.node_id for p in job.placements)
            victim = next(p for p in c.nodes if p.name == of_job[killed % len(of_job)])
            victim.kill()
            victim.start()
            killed += 1
        print(f"a kill every 10 s: {job_pb2.JobState.Name(job.state)}, {killed} kills, {job.restarts} restarts, "
              f"goodput {job.goodput:.3f} of {seconds(job.end_time) - seconds(job.start_time):.0f} s", flush=True)
    finally:
        c.close()


if __name__ == "__main__":
    main()
