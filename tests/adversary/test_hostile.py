# SPDX-License-Identifier: Apache-2.0
"""Hostile programs as code of jobs: each ends within its budget, with the reason, and has no effect
outside of its process."""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hostile_programs import GOOD, PROGRAMS, TIME as LATE  # noqa: E402

BIN = pathlib.Path(os.environ["PSGD_BIN"])
SLOW = int(os.environ.get("PSGD_TEST_SLOW", "1"))
INSTRUCTIONS, MEMORY, TIME_MS = 2_000_000, 16 << 20, 200
LATE_MS = 50  # beyond the budget; reported
DEAD_MS = 3000 * SLOW  # beyond the budget; fails, also on a machine that is busy


class Driver:
    """Runs programs one after the other (tests/support/sandbox_driver.c)."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            [BIN.parent / "tests" / "sandbox_driver", str(INSTRUCTIONS), str(MEMORY), str(TIME_MS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder,
            env={"PSGD_SANDBOX": str(BIN / "psgd-sandbox"), "TMPDIR": folder, "HOME": folder})

    def run(self, program):
        """Returns (code of the status, microseconds, process of the sandbox, reason)."""
        text = program if isinstance(program, bytes) else program.encode()
        self.process.stdin.write(struct.pack("<I", len(text)) + text)
        self.process.stdin.flush()
        line = self.process.stdout.readline().decode()
        assert line, f"the service has ended: {self.process.wait()}"
        code, us, pid, *reason = line.rstrip("\n").split(" ", 3)
        return int(code), int(us), int(pid), " ".join(reason)

    def children(self):
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                after = entry.read_text().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue
            if int(after[1]) == self.process.pid:
                found.append(int(entry.parent.name))
        return found

    def status(self, pid="self"):
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def check_confined(driver, pid):
    """What the kernel says of a sandbox."""
    status = driver.status(pid)
    assert status["Threads"].strip() == "1", status["Threads"]
    assert status["Seccomp"].strip() == "2" and status["NoNewPrivs"].strip() == "1", status
    for name in ("CapInh", "CapPrm", "CapEff"):
        assert int(status[name], 16) == 0, (name, status[name])
    if os.geteuid() == 0:  # nobody else may look
        assert os.listdir(f"/proc/{pid}/fd") == []


def main():
    assert len(PROGRAMS) >= 200, len(PROGRAMS)
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(folder)
        code, _, pid, reason = driver.run(GOOD)
        assert code == 0, reason
        check_confined(driver, pid)
        longest, late, wrong, ended = [], 0, [], 0
        for i, (program, why) in enumerate(PROGRAMS):
            shown = repr(program[:90])
            code, us, before, reason = driver.run(program)
            longest.append((us, shown))
            late += us > (TIME_MS + LATE_MS) * 1000
            is_late = LATE in reason and us >= TIME_MS * 1000
            is_said = any(w in reason for w in ([why] if isinstance(why, str) else why))
            if not is_late and (not is_said or (why != "" and code == 0)):
                wrong.append(f"{shown}: {code} \"{reason}\", not \"{why}\"")
            assert us < (TIME_MS + DEAD_MS) * 1000, f"{shown} took {us / 1e6} s"
            for _ in range(10):  # others are still answered, as soon as the machine has time for them
                code, _, pid, reason = driver.run(GOOD)
                if code == 0 or LATE not in reason:
                    break
            assert code == 0, f"after {shown}: {reason}"
            ended += pid != before
            assert driver.children() == [pid], driver.children()
            if i % 20 == 0:
                check_confined(driver, pid)
        assert not wrong, "\n".join(wrong)
        peak_kb = int(driver.status(driver.process.pid)["VmHWM"].split()[0])
        assert peak_kb < 64 * 1024 * SLOW, f"the service took {peak_kb} kB"
        assert os.listdir(folder) == [], os.listdir(folder)
        driver.process.stdin.close()
        assert driver.process.wait(timeout=60) == 0
        assert not pathlib.Path(f"/proc/{pid}").exists(), "a sandbox outlived its service"
        us, shown = max(longest)
        print(f"{len(PROGRAMS)} programs with {TIME_MS} ms each; {ended} ended their sandbox; the longest "
              f"took {us / 1000:.1f} ms ({shown}); {late} took more than {LATE_MS} ms beyond the budget; "
              f"the service's peak was {peak_kb / 1024:.1f} MiB")


main()
