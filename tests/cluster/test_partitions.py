#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_partitions.py - leaders are killed, frozen and cut off, on a network of their own.

Three members of etcd, three coordinators, two servers and three workers have a network namespace
each, joined by a bridge; this program is in the namespace of the bridge, as the users are. A cut
drops all packets between two of them (nft), a lost machine has its link down. One seed decides what
happens when. Needs root, `ip` and `nft`. By hand, longer, on a machine at rest:

    PSGD_HA_STRICT=1 PSGD_HA_DISTURBANCES=200 PSGD_HA_SEED=7 tests/cluster/test_partitions.py

A job trains all the while. Each of its steps is held up for 50 ms, so that its rate is that of its
own clock and not that of a machine which also runs this campaign. The steps are read from its
worker, over stretches with a disturbance and without one by turns.
"""
import os
import random
import shutil
import subprocess
import sys
import time
import unittest

import grpc
from google.protobuf import json_format

import harness
import slow_links
from ha_cluster import PACED, SHORT, TAKEOVER_S, HaTest, Submitter
from harness import (ENDLESS, PATIENCE, SLOW, coordinator_pb2, job_pb2, main, node_pb2,
                     node_pb2_grpc, tensors)

INSIDE = "PSGD_HA_NETWORK"     # the network's name, for the part that runs in the hub's namespace
NOT_HERE = "PSGD_HA_NOT_HERE"  # why there is none
HUB = "10.78.0.1"
HOSTS = {name: f"10.78.0.{first + i}"
         for role, first, count in (("etcd", 10, 3), ("coordinator", 20, 3), ("pserver", 30, 2),
                                    ("worker", 40, 3))
         for i in range(count) for name in [f"{role}-{i}"]}
QUIET_S = 1.5
RATE = 0.99 if os.environ.get("PSGD_HA_STRICT") else 0.9


class Refused(Exception):
    """The machine does not permit the network."""


class Network:
    def __init__(self, name):
        self.name = name

    def tool(self, *command, stdin=None):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, input=stdin)
        if done.returncode != 0:
            raise Refused(f"`{' '.join(map(str, command))}`: {done.stderr.strip() or done.returncode}")

    def space(self, who):
        return slow_links.space(self.name, who)

    def build(self):
        if os.geteuid() != 0:
            raise Refused("network namespaces need root")
        for program, package in (("ip", "iproute2"), ("nft", "nftables")):
            if not shutil.which(program):
                raise Refused(f"there is no `{program}` (Debian: {package})")
        hub = self.space("hub")
        self.tool("ip", "netns", "add", hub)
        self.tool("ip", "-n", hub, "link", "set", "lo", "up")
        self.tool("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
        self.tool("ip", "-n", hub, "addr", "add", f"{HUB}/24", "dev", "bridge")
        self.tool("ip", "-n", hub, "link", "set", "bridge", "up")
        for who, ip in HOSTS.items():
            mine = self.space(who)
            self.tool("ip", "netns", "add", mine)
            self.tool("ip", "-n", mine, "link", "set", "lo", "up")
            self.tool("ip", "-n", hub, "link", "add", who, "type", "veth", "peer", "name",
                      slow_links.LINK, "netns", mine)
            self.tool("ip", "-n", hub, "link", "set", who, "master", "bridge", "up")
            self.tool("ip", "-n", mine, "addr", "add", f"{ip}/24", "dev", slow_links.LINK)
            self.tool("ip", "-n", mine, "link", "set", slow_links.LINK, "up")
        self.cut("etcd-0", [HUB])  # is it permitted?
        self.join("etcd-0")

    def tear_down(self):
        for who in ["hub", *HOSTS]:
            subprocess.run(["ip", "netns", "del", self.space(who)], stderr=subprocess.DEVNULL)

    def within(self, who):
        return slow_links.within(self.name, who)

    def place(self, who):
        return {"host": HOSTS[who], "within": self.within(who)}

    def cut(self, who, from_ips):
        """Drops all packets between a machine and some others, both ways."""
        ips = ", ".join(from_ips)
        self.tool(*self.within(who), "nft", "-f", "-", stdin=f"""table inet psgd {{
            chain in {{ type filter hook input priority 0; ip saddr {{ {ips} }} drop; }}
            chain out {{ type filter hook output priority 0; ip daddr {{ {ips} }} drop; }}
            }}""")

    def join(self, who):
        self.tool(*self.within(who), "nft", "delete table inet psgd")

    def link(self, who, state):
        self.tool("ip", "-n", self.space("hub"), "link", "set", who, state)


def ips(*roles):
    return [ip for who, ip in HOSTS.items() if who.rsplit("-", 1)[0] in roles]


class Pace:
    """Steps of a job by seconds, of stretches that are added up. Asks the worker, which needs no
    coordinator for that."""

    def __init__(self, worker, channel):
        self.stub = node_pb2_grpc.NodeServiceStub(channel)
        self.worker, self.steps, self.seconds = worker, 0, 0.0

    def read(self):
        """The step and the time of it: of the moment at which a step ends."""
        first = self.step()
        while (step := self.step()) == first:
            HaTest.nap(0.002)
        return step, time.monotonic()

    def step(self):
        (progress,) = self.stub.GetStatus(node_pb2.GetStatusRequest(), timeout=10 * PATIENCE).progress
        return progress.step

    def begin(self):
        self.began = self.read()

    def end(self):
        step, at = self.read()
        self.steps += step - self.began[0]
        self.seconds += at - self.began[1]

    def rate(self):
        return self.steps / self.seconds


@unittest.skipIf(os.environ.get(NOT_HERE), f"no network of its own: {os.environ.get(NOT_HERE)}")
class Partitions(HaTest):
    # What is done to the leader; returns how it is undone. The first four end its leadership.

    def kill(self, c, leader):
        leader.kill()
        return leader.start

    def freeze(self, c, leader):
        leader.freeze()
        # waits in the leader's socket until it wakes
        late = c.stub(leader).SubmitJob.future(coordinator_pb2.SubmitJobRequest(
            spec=json_format.ParseDict(SHORT, job_pb2.JobSpec()), request_id=f"zombie-{self.zombies}"),
            timeout=60 * PATIENCE)
        self.zombies += 1

        def wake():
            leader.thaw()
            # It was the leader when it was asked. It is not any more, and must not say "accepted".
            self.assertIn(late.code(), (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED,
                                        grpc.StatusCode.CANCELLED), late.details())
            c.poll("the frozen leader knows that it leads no longer",
                   lambda: "leads no longer" in leader.log(self.log_end))
        return wake

    def cut_from_etcd(self, c, leader):
        self.network.cut(leader.name, ips("etcd"))
        return lambda: self.network.join(leader.name)

    def cut_from_all(self, c, leader):
        self.network.link(leader.name, "down")
        return lambda: self.network.link(leader.name, "up")

    def cut_from_clients(self, c, leader):
        self.network.cut(leader.name, [HUB])
        return lambda: self.network.join(leader.name)

    def cut_from_nodes(self, c, leader):
        self.network.cut(leader.name, ips("pserver", "worker"))
        return lambda: self.network.join(leader.name)

    ENDS = ("kill", "freeze", "cut_from_etcd", "cut_from_all")
    STAYS = ("cut_from_clients", "cut_from_nodes")

    def answers(self, c, p):
        """Whether a coordinator is there: it leads, or says who does."""
        try:
            c.stub(p).GetServerInfo(coordinator_pb2.GetServerInfoRequest(), timeout=PATIENCE)
            return True
        except grpc.RpcError as e:
            return "leads" in (e.details() or "") or "follows" in (e.details() or "")

    def disturb(self, c, name, rng):
        """Disturbs the leader and mends it; the seconds until the next one answered, or None."""
        leader, took = c.leader(), None
        self.log_end = leader.log_end()
        at = time.monotonic()
        undo = getattr(self, name)(c, leader)
        if name in self.ENDS:
            after = c.leader(but=leader)
            took = time.monotonic() - at
        self.nap(rng.uniform(0.2, 1.5))
        if name == "cut_from_clients":  # nobody else took the lead from one whom only users miss
            self.assertFalse([p for p in c.coordinators if p is not leader and c.leads(p)])
        undo()
        c.poll("all coordinators answer", lambda: all(self.answers(c, p) for p in c.coordinators))
        after = c.leader()
        self.assertIs(after is leader, name in self.STAYS)
        print(f"  {name}: {leader.name} -> {after.name}" + (f" in {took:.2f} s" if took else ""),
              flush=True)
        return took

    def test_nothing_acknowledged_is_lost_and_nothing_runs_twice(self):
        count = int(os.environ.get("PSGD_HA_DISTURBANCES", "6"))
        seed = harness.seed("PSGD_HA_SEED")
        rng = random.Random(seed)
        print(f"PSGD_HA_SEED={seed} PSGD_HA_DISTURBANCES={count}", flush=True)
        self.network, self.zombies = Network(os.environ[INSIDE]), 0
        etcd = self.etcd(3, lambda i: (HOSTS[f"etcd-{i}"], self.network.within(f"etcd-{i}")))
        c = self.cluster(etcd, coordinators=3, workers=3, pservers=2, place=self.network.place)
        c.wait_nodes(5)
        long_job = c.submit({**ENDLESS, "straggler": PACED["straggler"]})
        long_job = c.wait(long_job.id, lambda j: j.progress.step > 0)
        (mine,) = {p.node_id for p in long_job.placements if p.node_id.startswith("worker")}
        (worker,) = [p for p in c.workers if p.name == mine]
        channel = c.dial(worker.address)
        self.addCleanup(channel.close)
        disturbed, quiet = Pace(worker, channel), Pace(worker, channel)
        submitter = Submitter(c, seed, 1)
        submitter.start()
        names, took = [], {}
        while len(names) < count:  # each of them equally often
            names += rng.sample(self.ENDS + self.STAYS, len(self.ENDS + self.STAYS))
        for n, name in enumerate(names[:count]):
            quiet.begin()
            self.nap(QUIET_S)
            quiet.end()
            disturbed.begin()
            seconds = self.disturb(c, name, rng)
            disturbed.end()
            if seconds is not None:
                took.setdefault(name, []).append(seconds)
        submitter.stop()
        for name, s in sorted(took.items()):
            print(f"  {name}: {len(s)} times, next leader after {min(s):.2f} to {max(s):.2f} s, "
                  f"median {sorted(s)[len(s) // 2]:.2f} s")
        ratio = disturbed.rate() / quiet.rate()
        print(f"  {len(submitter.acknowledged)} submissions acknowledged; {disturbed.rate():.3f} steps a second "
              f"in {disturbed.seconds:.0f} s with disturbances, {quiet.rate():.3f} in {quiet.seconds:.0f} s "
              f"without: {ratio:.4f}", flush=True)
        c.call("CancelJob", coordinator_pb2.CancelJobRequest(job_id=long_job.id))
        self.assertEqual(c.wait(long_job.id).attempt, 1)
        self.must_have_kept(c, submitter.acknowledged, [long_job.id])
        print(f"  0 of {len(submitter.acknowledged)} lost, 0 ran twice, {self.zombies} zombies refused",
              flush=True)
        self.assertLess(max(s for some in took.values() for s in some), TAKEOVER_S)
        self.assertGreater(ratio, RATE)


    def test_a_job_goes_on_when_its_leader_reaches_the_nodes_again(self):
        """A leader that is cut off from all nodes, but not from etcd, leads on. The job counts as lost after
        its lease, and goes on from its checkpoint when the link heals, to the same bits."""
        self.network = Network(os.environ[INSIDE])
        etcd = self.etcd(1, lambda i: (HOSTS[f"etcd-{i}"], self.network.within(f"etcd-{i}")))
        c = self.cluster(etcd, coordinators=2, workers=2, pservers=1, place=self.network.place)
        c.wait_nodes(3)
        spec = {**PACED, "epochs": 10, "workers": 2, "timeouts": {"leaseMs": int(1500 * SLOW)}, "checkpoint": {"everySteps": 5}}
        straight = c.wait(c.submit({**spec, "straggler": {"name": "none"}}).id)
        leader = c.leader()
        job = c.submit(spec)
        c.wait(job.id, lambda j: j.progress.step > 10)
        self.network.cut(leader.name, ips("pserver", "worker"))
        lost = c.wait(job.id, lambda j: j.state == job_pb2.JOB_STATE_QUEUED)
        # The three leases end within one heartbeat. If a worker's is the first, its step is repeated first.
        self.assertEqual({r.reason for r in lost.recoveries}, {"NODE_LOST"})
        self.assertIs(c.leader(), leader)
        healed = time.monotonic()
        self.network.join(leader.name)
        back = c.wait(job.id, lambda j: j.state == job_pb2.JOB_STATE_RUNNING)
        print(f"  cut_from_nodes past the lease: trains again {time.monotonic() - healed:.2f} s after the link healed",
              flush=True)
        self.assertGreater(back.recoveries[-1].from_step, 0)
        end = c.wait(job.id)
        self.assertEqual((end.state, end.restarts), (job_pb2.JOB_STATE_DONE, lost.restarts), end.message)
        models = [tensors(c.files(j.id)["MODEL-paced-N(ps).safetensors"]) for j in (straight, end)]
        self.assertEqual(*models)


def on_its_own_network():
    """Builds it, runs this program again inside, and takes it down whatever happens."""
    network, inside = Network(f"psgd-{os.getpid()}"), None
    command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
    try:
        network.build()
        inside = subprocess.Popen([*network.within("hub"), *command],
                                  env={**os.environ, INSIDE: network.name})
        return inside.wait()
    except Refused as e:
        return subprocess.run(command, env={**os.environ, NOT_HERE: str(e)}).returncode
    finally:
        if inside and inside.poll() is None:
            inside.terminate()
            inside.wait(60)
        network.tear_down()


if __name__ == "__main__":
    if INSIDE in os.environ or NOT_HERE in os.environ:
        main()
    sys.exit(on_its_own_network())
