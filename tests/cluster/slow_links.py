# SPDX-License-Identifier: Apache-2.0
"""slow_links.py - a network of namespaces in which every worker has a slow link.

The hub is a namespace with a bridge at HUB_IP, for the coordinator and the servers; each
worker has a namespace and a veth pair to the bridge, with a token bucket (tc tbf) at
either end, so both ways have the rate. Names begin with that of the network. What cannot
be done ends the program with the reason.
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

HUB_IP = "10.77.0.1"
LINK = "eth0"  # of a worker, in its namespace


def refuse(why):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {why}")


def tool(*command):
    """Runs ip or tc; what it complains of is the reason to stop."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        refuse(f"`{' '.join(map(str, command))}` failed: {done.stderr.strip() or done.returncode}")
    return done.stdout


def space(network, who):
    return f"{network}-{who}"


def within(network, who):
    """What runs a command there."""
    return ["ip", "netns", "exec", space(network, who)]


def worker_ip(i):
    return f"10.77.0.{10 + i}"


def limit(namespace, device, mbit):
    """Frames of a packet each, so that the bucket and the counters see what a wire would."""
    tool("ip", "-n", namespace, "link", "set", device, "gso_max_segs", 1)
    tool("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate",
         f"{mbit}mbit", "burst", "16kb", "latency", "50ms")


def build(network, workers, mbit, down_mbit=None):
    """Refuses where this program may not; what it leaves then is for tear_down. The way down has the rate of
    the way up, unless it is given."""
    if os.geteuid() != 0:
        refuse("network namespaces and tc need root")
    for program in ("ip", "tc"):
        if not shutil.which(program):
            refuse(f"there is no `{program}` (Debian: iproute2)")
    hub = space(network, "hub")
    tool("ip", "netns", "add", hub)
    tool("ip", "-n", hub, "link", "set", "lo", "up")
    tool("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
    tool("ip", "-n", hub, "addr", "add", f"{HUB_IP}/24", "dev", "bridge")
    tool("ip", "-n", hub, "link", "set", "bridge", "up")
    for i in range(workers):
        mine, port = space(network, f"worker-{i}"), f"worker{i}"
        tool("ip", "netns", "add", mine)
        tool("ip", "-n", mine, "link", "set", "lo", "up")
        tool("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", LINK, "netns",
             mine)
        tool("ip", "-n", hub, "link", "set", port, "master", "bridge", "up")
        tool("ip", "-n", mine, "addr", "add", f"{worker_ip(i)}/24", "dev", LINK)
        tool("ip", "-n", mine, "link", "set", LINK, "up")
        limit(hub, port, down_mbit or mbit)
        limit(mine, LINK, mbit)


def tear_down(network, workers):
    for who in ["hub", *(f"worker-{i}" for i in range(workers))]:
        subprocess.run(["ip", "netns", "del", space(network, who)], stderr=subprocess.DEVNULL)


def place(network):
    """Where a process of the cluster runs; see harness.Cluster."""
    def of(name):
        if not name.startswith("worker-"):
            return {"host": HUB_IP}
        return {"host": worker_ip(int(name.split("-")[1])),
                "within": within(network, name)}
    return of


def counted_by_kernel(network, workers):
    """Bytes that left and reached the workers so far."""
    up = down = 0
    for i in range(workers):
        stats = json.loads(tool("ip", "-n", space(network, f"worker-{i}"), "-s", "-j", "link",
                                "show", "dev", LINK))[0]["stats64"]
        up, down = up + stats["tx"]["bytes"], down + stats["rx"]["bytes"]
    return up, down


SEND = """import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
way, n = sys.argv[3], int(sys.argv[4])
if way == "up":
    s.sendall(bytes(n))
    s.shutdown(socket.SHUT_WR)
while s.recv(1 << 16):
    pass
"""


def bare_mbit(network, way, n_bytes=8 << 20):
    """Payload of a plain TCP socket between the hub and worker 0, in Mbit/s."""
    with socket.create_server((HUB_IP, 0)) as server:
        server.settimeout(20)
        peer = subprocess.Popen([*within(network, "worker-0"), sys.executable, "-c", SEND, HUB_IP,
                                 str(server.getsockname()[1]), way, str(n_bytes)])
        c, _ = server.accept()
        with c:
            began = time.monotonic()
            if way == "down":
                c.sendall(bytes(n_bytes))
                c.shutdown(socket.SHUT_WR)
            while c.recv(1 << 20):  # up: all of it; down: nothing, until the peer has all
                pass
            took = time.monotonic() - began
    peer.wait(20)
    return n_bytes * 8e-6 / took
