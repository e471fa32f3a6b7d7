#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_image.py - the image that deploy/image/build.sh makes without a registry: foreign tools read it (umoci)
and run it (runc), as a user that is not root. A coordinator, a server and a worker train the tutorial in it,
also with a codec that the job brings along, and each drains on SIGTERM.

    PSGD_BUILD=build/test test_image.py      after tests/deploy/debian.sh build/test

It needs root. The containers share the network of this host, and listen on loopback.
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEBIAN = pathlib.Path(os.environ["PSGD_BUILD"]).resolve() / "debian"
SLOW = float(os.environ.get("PSGD_TEST_SLOW", "1"))
USER = 15386
PACKED_MB, DRAIN_S = 90, 20


def run(*args, **kw):
    done = subprocess.run(args, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kw)
    assert done.returncode == 0, f"{args}: {done.returncode}\n{done.stdout}"
    return done.stdout


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@unittest.skipIf(os.geteuid() != 0, "the owners of an image's files need root")
class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="psgd-image-"))
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.oci = cls.work / "oci"
        cls.said = run(ROOT / "deploy/image/build.sh", "--base", DEBIAN / "base", DEBIAN / "debs", cls.oci)
        run("umoci", "unpack", "--image", f"{cls.oci}:latest", cls.work / "bundle")
        cls.spec = json.loads((cls.work / "bundle/config.json").read_text())
        cls.running = {}
        cls.addClassCleanup(cls.stop_all)

    @classmethod
    def stop_all(cls):
        for name in list(cls.running):
            subprocess.run(["runc", "--root", cls.work / "runc", "delete", "--force", name], capture_output=True)
            cls.running.pop(name).wait()

    @classmethod
    def data(cls, name):
        """The folder with a container's data, as in a volume."""
        data = cls.work / f"{name}.data"
        data.mkdir(mode=0o700, exist_ok=True)
        os.chown(data, USER, USER)
        return data

    @classmethod
    def container(cls, name, *args):
        """Starts the image's entrypoint with these arguments."""
        bundle, data = cls.work / name, cls.data(name)
        bundle.mkdir()
        spec = json.loads(json.dumps(cls.spec))
        spec["process"].update(terminal=False, args=spec["process"]["args"] + list(args))
        spec["process"]["capabilities"] = {}
        spec["root"].update(path=str(cls.work / "bundle/rootfs"), readonly=True)  # as the compose file says
        spec["mounts"].append({"destination": "/var/lib/psgd", "type": "bind", "source": str(data),
                               "options": ["bind", "rw"]})
        spec["linux"]["namespaces"] = [n for n in spec["linux"]["namespaces"] if n["type"] not in ("network", "cgroup")]
        (bundle / "config.json").write_text(json.dumps(spec))
        with open(cls.work / f"{name}.log", "w") as log:
            cls.running[name] = subprocess.Popen(
                ["runc", "--root", cls.work / "runc", "run", "--bundle", bundle, name], stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT)

    @classmethod
    def log(cls, name):
        return (cls.work / f"{name}.log").read_text()

    def once(self, name, *args, within=60 * SLOW):
        """Runs a container to its end; returns its status and what it has said."""
        self.container(name, *args)
        code = self.running[name].wait(within)
        del self.running[name]
        return code, self.log(name)

    def test_1_it_is_small_and_its_user_is_not_root(self):
        packed = sum(f.stat().st_size for f in self.oci.rglob("*") if f.is_file()) / 1e6
        print(f"{self.said.strip()}; {packed:.0f} MB", flush=True)
        self.assertLess(packed, PACKED_MB)
        self.assertEqual(self.spec["process"]["user"]["uid"], USER)
        at = self.work / "bundle/rootfs"
        self.assertEqual((at / "var/lib/psgd").stat().st_uid, USER)
        for left in ["debs", "image", "var/lib/apt/lists"]:
            self.assertFalse((at / left).exists(), left)

    def test_2_another_role_is_refused(self):
        code, text = self.once("unknown", "trainer")
        self.assertEqual(code, 4, text)
        self.assertIn("the role is 'trainer'; it must be coordinator, worker, pserver, psgd or certify", text)
        self.assertEqual(self.once("version", "psgd", "--version")[0], 0)

    def test_3_it_trains_and_drains(self):
        at = f"127.0.0.1:{free_port()}"
        begin = time.monotonic()
        self.container("coordinator", "coordinator", "--listen", at, "--web", "off")
        while "listening" not in self.log("coordinator"):
            self.assertLess(time.monotonic() - begin, 30 * SLOW, self.log("coordinator"))
            time.sleep(0.01)
        print(f"the coordinator listens {1000 * (time.monotonic() - begin):.0f} ms after its start", flush=True)
        for role in ["pserver", "worker"]:
            self.container(role, role, "--coordinator", at, "--listen", "127.0.0.1:0")
        code, text = self.once("submit", "psgd", "--coordinator", at, "submit", "--preset", "tutorial-glyphs", "--workers",
                               "1", "--pservers", "1", "--epochs", "1", "--watch", within=120 * SLOW)
        self.assertEqual(code, 0, text + self.log("worker"))
        models = list((self.work / "coordinator.data/jobs").rglob("*.safetensors"))
        self.assertTrue(models, text)
        self.assertEqual({m.stat().st_uid for m in models}, {USER})
        # Code of a job runs in sandboxes, which the services start in their containers.
        code = ["--preset", "tutorial-glyphs", "--epochs", "1", "--code", "sgq.lua", "--codec-up", "sgq"]
        for name, *args in [["train-code", "train"],
                            ["submit-code", "--coordinator", at, "submit", "--workers", "1", "--pservers", "1", "--watch"]]:
            shutil.copy(ROOT / "clients/examples/code/sgq.lua", self.data(name))
            status, text = self.once(name, "psgd", *args, *code, within=120 * SLOW)
            self.assertEqual(status, 0, text + self.log("worker"))
        for name in ["worker", "pserver", "coordinator"]:
            run("runc", "--root", self.work / "runc", "kill", name, "TERM")
            self.assertEqual(self.running[name].wait(DRAIN_S * SLOW), 0, self.log(name))
            del self.running[name]


if __name__ == "__main__":
    unittest.main(verbosity=2)
