# SPDX-License-Identifier: Apache-2.0
"""disks.py - small disks that a test fills and empties: each a tmpfs in a mount namespace of the
test's own, so that no rights are needed and nobody else sees them."""
import errno
import os
import shutil
import subprocess
import sys
import threading


def is_here():
    """Whether this process is in a namespace of mounts of its own."""
    return bool(os.environ.get("PSGD_OWN_MOUNTS"))


def enter(is_required=True):
    """Goes on in a namespace of mounts. A process that may not leaves with 77, "skipped", or goes on
    without one if it can."""
    if is_here():
        return
    if not shutil.which("unshare") or subprocess.run(
            ["unshare", "-rm", "true"], capture_output=True).returncode != 0:
        if not is_required:
            return
        print("skipped: no namespace of mounts is to be had")
        sys.exit(77)
    os.environ["PSGD_OWN_MOUNTS"] = "1"
    os.execvp("unshare", ["unshare", "-rm", sys.executable, *sys.argv])


class Disk:
    """A folder with a disk of its own."""

    def __init__(self, folder, mib):
        self.folder, self.filler = folder, folder / "filler"
        self.stop = self.thread = None
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "none", folder], check=True)

    def free(self):
        info = os.statvfs(self.folder)
        return info.f_bavail * info.f_frsize

    def _write(self, file, leave):
        try:
            while self.free() > leave:
                os.write(file, b"x" * min(1 << 20, max(1, self.free() - leave)))
        except OSError as e:
            if e.errno != errno.ENOSPC:
                raise

    def fill(self, leave=0):
        """Takes all room but `leave` bytes, once."""
        file = os.open(self.filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._write(file, leave)
        os.close(file)

    def hog(self):
        """Takes all room, and whatever becomes free, until room()."""
        self.stop = threading.Event()
        file = os.open(self.filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._write(file, 0)

        def go_on():
            while not self.stop.wait(0.002):
                self._write(file, 0)
            os.close(file)

        self.thread = threading.Thread(target=go_on, daemon=True)
        self.thread.start()

    def room(self):
        """Gives back what was taken."""
        if self.thread:
            self.stop.set()
            self.thread.join()
            self.thread = None
        self.filler.unlink(missing_ok=True)

    def close(self):
        self.room()
        subprocess.run(["umount", "-l", self.folder], check=False)
