# SPDX-License-Identifier: Apache-2.0
"""test_paths.py - links, FIFOs and files of others below the data path.

A job names paths below the data path of the coordinator. Nothing else is opened for it, nobody waits
for it, and no text that a user gets repeats what is in a file.
"""
import os
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

import grpc  # noqa: E402
from harness import PATIENCE, SMALL, ClusterTest, coordinator_pb2, main  # noqa: E402

SECRET = "root:x:0:0\nuser:y:1:1\nother:z:2:2\n"
COLUMNS = [{"name": "n"}, {"name": "l", "kind": "label"}]


def table(folder, file):
    """A job whose data set is a table in that file."""
    return {"data": {"name": "csv", "folder": folder, "files": [file], "columns": COLUMNS}}


class PathTest(ClusterTest):
    def setUp(self):
        room = tempfile.TemporaryDirectory(prefix="psgd-paths-")
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name)
        self.data = self.room / "data"
        (self.data / "here").mkdir(parents=True)
        (self.room / "out").mkdir()
        (self.room / "out/secret").write_text(SECRET)
        self.c = self.cluster(workers=0, pservers=0, data=str(self.data))

    def refused(self, code, **fields):
        """Submits what must be refused, soon; the text."""
        began = time.monotonic()
        with self.assertRaises(grpc.RpcError) as caught:
            self.c.submit(SMALL, **fields)
        self.assertLess(time.monotonic() - began, 5 * PATIENCE)
        text = caught.exception.details() + str(caught.exception.trailing_metadata())
        self.assertEqual(caught.exception.code(), code, text)
        for line in SECRET.splitlines():
            for word in (line, *line.split(":")):
                if len(word) > 1:
                    self.assertNotIn(word, text)
        return text

    def test_links_lead_nowhere_else(self):
        (self.data / "away").symlink_to("../out")
        (self.data / "here/away").symlink_to(self.room / "out/secret")
        (self.data / "model").symlink_to("../out/secret")
        for fields in (table("away", "secret"), table("here", "away"), {"init_from": "model"},
                       {"init_from": "away/secret"}):
            text = self.refused(grpc.StatusCode.INVALID_ARGUMENT, **fields)
            self.assertIn("leads out of its folder", text)

    def test_links_within_the_data_path_are_followed(self):
        (self.data / "here/t.csv").write_text("n,l\n" + "1,A\n2,B\n" * 200)
        (self.data / "same").symlink_to("here")
        (self.data / "here/u.csv").symlink_to("t.csv")
        self.c.submit({**SMALL, "blockSize": 10, "model": {"preset": "mlp", "widths": [4]}},
                      **table("same", "u.csv"))

    def test_what_is_no_data_set_is_not_repeated(self):
        """The first line of the file is taken for a header, whose columns a job can guess."""
        (self.data / "here/notes").write_text("n,l\n1,0\n" + "".join(
            f"{line.split(':')[0]},{line}\n" for line in SECRET.splitlines()))
        (self.data / "here/notes2").write_text(SECRET)
        text = self.refused(grpc.StatusCode.INVALID_ARGUMENT, **table("here", "notes"))
        self.assertIn("notes: line 4: column n: 4 bytes that are no finite number", text)
        for name in ("criteo", "slots", "libsvm"):
            text = self.refused(grpc.StatusCode.INVALID_ARGUMENT,
                                data={"name": name, "folder": "here", "files": ["notes2"]})
            self.assertIn("notes2: line 1: ", text)
        (self.data / "here/notes3").write_bytes(b"\x20" + bytes(7) + b'{"a": root, user:y:1:1, other:z}')
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, init_from="here/notes3")

    def test_nobody_waits_for_a_fifo(self):
        os.mkfifo(self.data / "here/fifo")
        for fields in (table("here", "fifo"), {"init_from": "here/fifo"}):
            text = self.refused(grpc.StatusCode.INVALID_ARGUMENT, **fields)
            self.assertIn("is not a regular file", text)
        self.c.api.GetServerInfo(coordinator_pb2.GetServerInfoRequest(), timeout=5 * PATIENCE)
        self.assertEqual(self.c.coordinator.stop(), 0)


class DataDirTest(ClusterTest):
    """What a service keeps is its user's alone."""

    def open_to_others(self, folder):
        return [str(p) for p in [folder, *folder.rglob("*")]
                if not p.is_symlink() and p.stat().st_mode & 0o077]

    def test_files_and_folders_are_closed_to_others(self):
        old = os.umask(0o022)
        self.addCleanup(os.umask, old)
        c = self.cluster(workers=1, pservers=1)
        folders = [c.folder / p.name for p in [c.coordinator, *c.nodes]]
        job = c.wait(c.submit(SMALL).id)
        self.assertTrue((c.folder / "coordinator/jobs" / job.id / "manifest.json").exists())
        for folder in folders:
            self.assertTrue((folder / "lock").exists())
            self.assertEqual(self.open_to_others(folder), [])

    def test_what_an_older_program_left_open_is_closed(self):
        c = self.cluster(workers=0, pservers=0)
        folder = c.folder / "coordinator"
        c.wait(c.submit(SMALL, workers=1).id, lambda job: True)
        c.coordinator.kill()
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        c.restart_coordinator()
        for name in ("lock", "jobs.db"):
            self.assertEqual((folder / name).stat().st_mode & 0o077, 0, name)


if __name__ == "__main__":
    main()
