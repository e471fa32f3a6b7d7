#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_packages.py - the Debian packages, in a clean Debian: they install, lintian finds no error,
units are sound and hardened, a booted systemd runs them and trains, also with code of a job, and a purge leaves nothing.

    PSGD_BUILD=build/test test_packages.py      after tests/deploy/debian.sh build/test

It needs root, for a root file system of its own and for systemd-nspawn.
"""
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["PSGD_BUILD"]).resolve()
PROGRAMS = ["psgd", "psgd-coordinator", "psgd-pserver", "psgd-worker"]
PACKAGES = sorted(["libpsgd-dev", "libpsgd0", *PROGRAMS, "psgd-sandbox", "python3-psgd"])
UNITS = ["psgd-coordinator.service", "psgd-worker.service", "psgd-worker@.service",
         "psgd-pserver.service", "psgd-pserver@.service"]
# Most, of systemd-analyze security. The coordinator's unit also allows setpriority, by which a sandbox that looks at
# code of a job that is not accepted yet goes behind all others.
EXPOSURE, COORDINATOR_EXPOSURE = 1.1, 1.2
BOOT_S = 180

# Runs in the booted system, as root.
TRAIN = r"""#!/bin/bash
set -u
check() { echo "$1: $(eval "$2" 2>&1 | tr '\n' ' ')"; }
systemctl start psgd-coordinator psgd-pserver psgd-worker@1 psgd-worker@2
systemctl enable -q psgd-worker@2
check active 'systemctl is-active psgd-coordinator psgd-pserver psgd-worker@1 psgd-worker@2'
check user 'stat -c %U /proc/$(systemctl show -P MainPID psgd-coordinator)'
check worker_is_root 'test $(stat -c %u /proc/$(systemctl show -P MainPID psgd-worker@1)) = 0 && echo yes || echo no'
check watchdog 'systemctl show -P WatchdogUSec psgd-worker@1'
psgd submit --preset tutorial-glyphs --pservers 1 --epochs 1 --watch >/root/watch.txt 2>&1
check submit "echo $?"
check job 'psgd list --format json | grep -o JOB_STATE_DONE'
cd /root && psgd download --output files "$(psgd list --limit 1 --format json | sed -n 's/.*"id": *"\([^"]*\)".*/\1/p' | head -1)" >/dev/null 2>&1
check files 'ls files | grep -c safetensors'
# Code of a job runs in sandboxes that the units let services start, and under the user here.
code='--preset tutorial-glyphs --epochs 1 --code /usr/share/doc/psgd/examples/code/sgq.lua --codec-up sgq'
psgd submit $code --pservers 1 --watch >>/root/watch.txt 2>&1
check code "echo $?"
psgd train $code -o files/one >>/root/watch.txt 2>&1
check code_here "echo $?"
# One that dies is started again; one that hangs is too, by its watchdog.
systemctl kill -s KILL psgd-worker@2
for i in $(seq 100); do [ "$(systemctl show -P NRestarts psgd-worker@2)" = 1 ] && break; sleep 0.2; done
for i in $(seq 100); do systemctl is-active -q psgd-worker@2 && break; sleep 0.2; done
check again 'systemctl show -P NRestarts psgd-worker@2; systemctl is-active psgd-worker@2'
mkdir -p /run/systemd/system/psgd-pserver.service.d
printf '[Service]\nWatchdogSec=2\n' >/run/systemd/system/psgd-pserver.service.d/watchdog.conf
systemctl daemon-reload && systemctl restart psgd-pserver && sleep 5
check alive 'systemctl show -P NRestarts psgd-pserver; systemctl is-active psgd-pserver'
kill -STOP "$(systemctl show -P MainPID psgd-pserver)"
for i in $(seq 100); do [ "$(systemctl show -P NRestarts psgd-pserver)" = 1 ] && break; sleep 0.2; done
check hung 'systemctl show -P NRestarts psgd-pserver'
systemctl stop psgd-coordinator psgd-pserver psgd-worker@1 psgd-worker@2
check results 'for u in psgd-coordinator psgd-pserver psgd-worker@1 psgd-worker@2; do systemctl show -P Result $u; done'
check denied 'journalctl -q --no-pager -b 2>/dev/null | grep -ci "seccomp\|SIGSYS"'
# The lines of docs/deploy.md, on one host. What a person does by an editor or copies from the screen is here.
apt() { :; }
runuser() { command runuser "$@" >>/root/said; SHA256=$(sed -n 's/^fingerprint *//p' /root/said); }
editor() {
    case $1 in
    *-coordinator) sed -i 's/10\.0\.0\.5/127.0.0.1/; /^#PSGD_DATA/!s/^#PSGD/PSGD/' "$1" ;;
    *) printf 'PSGD_COORDINATOR=127.0.0.1:15386\nPSGD_JOIN=%s\n' "$(grep -o 'psgd-join:node/'"${1##*psgd-}"'.*' /root/said)" >"$1" ;;
    esac
}
exec 3>&1 >>/root/watch.txt 2>&1
@LINES@
code=$?
exec >&3
check documented 'echo $code; systemctl is-active psgd-coordinator psgd-pserver psgd-worker'
# The same worker with its key owned by root, by the drop-in that its package brings.
drop=/etc/systemd/system/psgd-worker.service.d
mkdir -p /etc/psgd/tls $drop
for f in root identity; do install -m 600 "$(find /var/lib/private/psgd-worker -name $f.pem | head -1)" /etc/psgd/tls/; done
cp /usr/share/doc/psgd-worker/examples/tls.conf $drop/
sed -i /PSGD_JOIN/d /etc/default/psgd-worker
systemctl daemon-reload && systemctl restart psgd-worker
psgd --coordinator 127.0.0.1:15386 --tls-dir me submit --preset tutorial-glyphs --workers 1 --pservers 1 --epochs 1 --watch >>/root/watch.txt 2>&1
code=$?
check credentials 'echo $code; tr "\0" "\n" </proc/$(systemctl show -P MainPID psgd-worker)/environ | sed -n s/^PSGD_TLS_DIR=//p'
systemctl stop psgd-coordinator psgd-pserver psgd-worker
rm -r /etc/psgd $drop
echo end
cat /root/watch.txt
"""
LINES = re.findall(r"(?m)^    (.*?)(?:  +#.*)?$", (ROOT / "docs/deploy.md").read_text().split("## Hosts with systemd")[1].split("\n## ")[0])


def run(*args, **kw):
    return subprocess.run(args, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kw).stdout


@unittest.skipIf(os.geteuid() != 0, "a clean root file system needs root")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="psgd-packages-"))
        if "PSGD_KEEP" not in os.environ:
            cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.debs = sorted((BUILD / "debian/debs").glob("*.deb"))
        cls.root = cls.work / "root"
        run("cp", "-a", BUILD / "debian/base", cls.root)
        (cls.root / "debs").mkdir()
        for deb in cls.debs:
            shutil.copy(deb, cls.root / "debs")
        run("chroot", cls.root, "apt-get", "install", "-y", "--no-install-recommends", "systemd", "systemd-sysv")
        run("chroot", cls.root, "sh", "-c", "apt-get install -y --no-install-recommends /debs/*.deb")

    def in_root(self, *args, **kw):
        return run("chroot", self.root, *args, **kw)

    def test_1_there_is_one_package_for_each_program_and_the_library(self):
        self.assertEqual(sorted(d.name.split("_")[0] for d in self.debs), PACKAGES)

    def test_2_lintian_finds_no_error(self):
        found = subprocess.run(["lintian", "--allow-root", *self.debs], text=True, capture_output=True)
        self.assertEqual([l for l in found.stdout.splitlines() if l.startswith("E:")], [])

    def test_3_units_are_sound_and_hardened(self):
        for unit in UNITS:
            at = f"/usr/lib/systemd/system/{unit}"
            self.assertEqual(self.in_root("systemd-analyze", "verify", "--man=no",
                                          at.replace("@.", "@1.")).strip(), "", unit)
            last = run("systemd-analyze", "security", "--offline=true", f"{self.root}{at}").splitlines()[-1]
            most = COORDINATOR_EXPOSURE if unit.startswith("psgd-coordinator") else EXPOSURE
            self.assertLessEqual(float(re.search(r": ([\d.]+) ", last).group(1)), most, last)

    def test_4_manual_pages_and_completion_are_there(self):
        self.assertTrue((self.root / "usr/share/man/man1/psgd-sandbox.1.gz").exists())
        pages = {p.name for p in (self.root / "usr/share/man/man1").glob("psgd*")}
        self.assertLessEqual({"psgd.1.gz", "psgd-submit.1.gz", "psgd-token.1.gz", "psgd-coordinator.1.gz",
                              "psgd-worker.1.gz", "psgd-pserver.1.gz"}, pages)
        for program in PROGRAMS:
            page = gzip.decompress((self.root / f"usr/share/man/man1/{program}.1.gz").read_bytes()).decode().replace("\\-", "-")
            for flag in re.findall(r"(?m)^ .*?(--[a-z-]+)", self.in_root(program, "--help")):
                self.assertIn(flag, page)
        self.assertRegex(self.in_root("psgd", "--version"), r"^psgd \d+\.\d+\.\d+\ncommit [0-9a-f]{12}.*\nkernels: .*\n$")
        self.assertTrue((self.root / "usr/share/bash-completion/completions/psgd").exists())

    def test_5_a_booted_system_runs_them_and_trains(self):
        script = self.root / "usr/local/bin/train"
        script.write_text(TRAIN.replace("@LINES@", "\n".join(LINES).replace("10.0.0.5", "127.0.0.1")))
        script.chmod(0o755)
        (self.root / "etc/systemd/system/train.service").write_text(
            "[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nExecStart=/usr/local/bin/train\n"
            "StandardOutput=file:/root/result.txt\nStandardError=file:/root/error.txt\nEnvironment=HOME=/root\n"
            "ExecStopPost=systemctl poweroff\n[Install]\nWantedBy=graphical.target\n")
        self.in_root("systemctl", "enable", "-q", "train.service")
        boot = subprocess.run(["timeout", "-k", "10", str(BOOT_S), "systemd-nspawn", "-q", "-b", "-D", self.root,
                               "--register=no", "--keep-unit", "--private-network"], text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"})
        result = self.root / "root/result.txt"
        self.assertTrue(result.exists(), boot.stdout[-3000:] + boot.stderr)
        text = result.read_text()
        self.assertIn("\nend\n", text, f"not all within {BOOT_S} s: {text}\n{boot.stdout[-3000:]}{boot.stderr}")
        said = dict(line.strip().split(": ", 1) for line in text.split("\nend")[0].splitlines())
        self.assertEqual(said, {
            "active": "active active active active",
            "user": "psgd",
            "worker_is_root": "no",
            "watchdog": "1min",
            "submit": "0",
            "job": "JOB_STATE_DONE",
            "files": said.get("files"),
            "code": "0",
            "code_here": "0",
            "again": "1 active",
            "alive": "0 active",
            "hung": "1",
            "results": "success success success success",
            "denied": "0",
            "documented": "0 active active active",
            "credentials": "0 /run/credentials/psgd-worker.service",
        }, text)
        self.assertGreater(int(said["files"]), 0)

    def test_6_a_purge_leaves_nothing(self):
        self.assertTrue((self.root / "var/lib/psgd-coordinator").exists())
        self.in_root("apt-get", "purge", "-y", *PACKAGES)
        # Not what the user has downloaded, nor the log and the temporary folders of the system.
        left = [str(p) for p in self.root.rglob("*psgd*")
                if not re.search("/root/debs|/root/root/files/|/var/log/|/systemd-private-", str(p))]
        self.assertEqual(left, [])
        self.assertNotIn("psgd", (self.root / "etc/passwd").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
