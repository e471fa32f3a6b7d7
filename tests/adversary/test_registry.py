# SPDX-License-Identifier: Apache-2.0
"""test_registry.py - the coordinator's registry is lost, restored, emptied or damaged.

Whatever happens to jobs.db, no file of a job is ever removed.
"""
import hashlib
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

from harness import SMALL, ClusterTest, coordinator_pb2, job_pb2, main  # noqa: E402

TINY = {**SMALL, "title": "tiny", "epochs": 1}
DATABASE = ("jobs.db", "jobs.db-wal", "jobs.db-shm")


class RegistryTest(ClusterTest):
    def setUp(self):
        self.c = self.cluster(workers=1, pservers=1)
        self.folder = self.c.folder / "coordinator"

    def done(self, count=1):
        """Runs jobs, all of one title; their ids."""
        jobs = [self.c.wait(self.c.submit(TINY).id) for _ in range(count)]
        for job in jobs:
            self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, job.message)
        return [job.id for job in jobs]

    def files(self):
        """{path: SHA-256} of all files of jobs."""
        return {str(p.relative_to(self.folder)): hashlib.sha256(p.read_bytes()).hexdigest()
                for p in sorted((self.folder / "jobs").rglob("*")) if p.is_file()}

    def listed(self):
        return [job.id for job in self.c.api.ListJobs(coordinator_pb2.ListJobsRequest()).jobs]

    def copy(self, to):
        """Copies the database, of which nobody has a connection, to a folder."""
        to.mkdir()
        for name in DATABASE:
            if (self.folder / name).exists():
                shutil.copy2(self.folder / name, to)

    def start_again(self):
        """Starts the coordinator; what it logged."""
        before = self.c.coordinator.log_end()
        self.c.restart_coordinator()
        self.c.wait_nodes(2)
        return self.c.coordinator.log(before)

    def keeps(self, files, log, ids):
        """The files are still as they were, and the log names the jobs that they are of."""
        now = self.files()
        self.assertEqual({name: now.get(name) for name in files}, files)
        self.assertIn(f"jobs.db does not know {len(ids)} job folders", log)
        for job_id in ids:
            self.assertIn(job_id, log)


class Lost(RegistryTest):
    def test_a_registry_that_was_moved_away(self):
        ids = self.done(2)
        files = self.files()
        self.c.coordinator.stop()
        for name in DATABASE:
            (self.folder / name).unlink(missing_ok=True)
        self.keeps(files, self.start_again(), ids)
        self.assertEqual(self.listed(), [])
        # New jobs leave the old files alone.
        self.done()
        self.assertEqual({name: self.files().get(name) for name in files}, files)

    def test_a_registry_that_was_emptied(self):
        ids = self.done(2)
        files = self.files()
        self.c.coordinator.kill()
        for name in DATABASE[1:]:
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "jobs.db").write_bytes(b"")
        self.keeps(files, self.start_again(), ids)

    def test_a_log_of_writes_that_was_lost(self):
        ids = self.done(2)
        self.c.coordinator.kill()
        self.assertGreater((self.folder / "jobs.db-wal").stat().st_size, 0)
        files = self.files()
        for name in DATABASE[1:]:
            (self.folder / name).unlink(missing_ok=True)
        log = self.start_again()
        self.keeps(files, log, [job_id for job_id in ids if job_id not in self.listed()])

    def test_a_registry_of_yesterday(self):
        first = self.done()
        self.c.coordinator.stop()
        self.copy(self.c.folder / "yesterday")
        self.c.restart_coordinator()
        self.c.wait_nodes(2)
        later = self.done(2)
        files = self.files()
        self.c.coordinator.stop()
        for name in DATABASE:
            (self.folder / name).unlink(missing_ok=True)
        for path in (self.c.folder / "yesterday").iterdir():
            shutil.copy2(path, self.folder)
        self.keeps(files, self.start_again(), later)
        self.assertEqual(self.listed(), first)
        # The old registry gives the numbers of the later jobs again; the ids must be others.
        new = self.done(2)
        self.assertFalse(set(new) & set(later))
        self.assertEqual({name: self.files().get(name) for name in files}, files)


class Deleted(RegistryTest):
    def test_only_a_client_deletes_files(self):
        first, second = self.done(2)
        kept = {name: sum for name, sum in self.files().items() if second in name}
        self.c.api.DeleteJob(coordinator_pb2.DeleteJobRequest(job_id=first))
        self.c.poll("the files are gone", lambda: self.files() == kept)
        log = self.start_again_after_stop()
        self.assertNotIn("does not know", log)
        self.assertEqual(self.files(), kept)

    def start_again_after_stop(self):
        self.c.coordinator.stop()
        return self.start_again()

    def test_a_deletion_that_a_crash_cut_short(self):
        first, second = self.done(2)
        jobs = self.folder / "jobs"
        files = self.files()
        self.c.coordinator.stop()
        # Not stored: taken back. Stored, of a job that is no more: ended.
        (jobs / first).rename(jobs / f".deleted-{first}")
        (jobs / ".deleted-gone-aaaaaaaa").mkdir()
        (jobs / ".deleted-gone-aaaaaaaa" / "model").write_bytes(b"x")
        (jobs / second / ".half.tmp").write_bytes(b"x")
        log = self.start_again()
        self.assertNotIn("does not know", log)
        self.assertEqual(self.files(), files)


if __name__ == "__main__":
    main()
