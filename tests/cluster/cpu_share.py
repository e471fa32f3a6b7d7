# SPDX-License-Identifier: Apache-2.0
"""A control group in which processes get a share of a processor, as on a slow one. Needs root."""
import os
import pathlib

PERIOD_US = 5000  # as short as to be evenly spread over a step
ROOT = pathlib.Path("/sys/fs/cgroup")


class Share:
    """Processes that were added get `share` of a processor together. refused: why there is none."""

    def __init__(self, share):
        quota, self.refused = int(share * PERIOD_US), ""
        is_old = (ROOT / "cpu").is_dir()  # version 1
        self.folder = (ROOT / "cpu" if is_old else ROOT) / f"psgd-share-{os.getpid()}-{id(self)}"
        try:
            self.folder.mkdir()
            if is_old:
                (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (self.folder / "cpu.cfs_quota_us").write_text(str(quota))
            else:
                (self.folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        except OSError as e:
            self.refused = f"no control group for processors: {e}"

    def add(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))

    def close(self):
        """All processes have ended."""
        if self.folder.is_dir():
            self.folder.rmdir()
