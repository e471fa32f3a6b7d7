# SPDX-License-Identifier: Apache-2.0
"""test_registry.py - the coordinator's registry is lost, restored, emptied or damaged.

Whatever happens to jobs.db, no file of a job is ever removed.
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))

from harness import BIN, ENDLESS, PATIENCE, SMALL, ClusterTest, coordinator_pb2, job_pb2, main  # noqa: E402

TINY = {**SMALL, "title": "tiny", "epochs": 1}
# So long a step takes whatever the machine: a job is not over before it is looked at.
PACE = {"name": "fixed", "params": {"rank": -1, "ms": 20}}
DATABASE = ("jobs.db", "jobs.db-wal", "jobs.db-shm")


def rounded(message):
    """The message as text, with numbers as exact as a summary has them."""
    return re.sub(r"\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.12g}", str(message))


class RegistryTest(ClusterTest):
    maxDiff = None

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

    def remove_database(self):
        for name in DATABASE:
            (self.folder / name).unlink(missing_ok=True)

    def run_coordinator(self, *args):
        """Runs the program to its end; the exit code, and what it said."""
        ran = subprocess.run([BIN / "psgd-coordinator", "--listen", "127.0.0.1:0", "--data-dir", self.folder, *args],
                             capture_output=True, text=True, timeout=20 * PATIENCE)
        return ran.returncode, ran.stdout + ran.stderr

    def database(self, path=None):
        db = sqlite3.connect(path or self.folder / "jobs.db", isolation_level=None)
        self.addCleanup(db.close)
        return db

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
        self.remove_database()
        log = self.start_again()
        self.keeps(files, log, ids)
        self.assertIn("it is new and empty; the one before was made 20", log)
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
        log = self.start_again()
        self.keeps(files, log, ids)
        self.assertIn("it is new and empty", log)

    def test_a_log_of_writes_that_was_lost(self):
        ids = self.done(2)
        self.c.coordinator.kill()
        self.assertGreater((self.folder / "jobs.db-wal").stat().st_size, 0)
        files = self.files()
        for name in DATABASE[1:]:
            (self.folder / name).unlink(missing_ok=True)
        log = self.start_again()
        self.keeps(files, log, [job_id for job_id in ids if job_id not in self.listed()])
        self.assertRegex(log, "it is (new and empty|older than when it was last used)")

    def test_a_registry_of_yesterday(self):
        first = self.done()
        self.c.coordinator.stop()
        self.copy(self.c.folder / "yesterday")
        self.c.restart_coordinator()
        self.c.wait_nodes(2)
        later = self.done(2)
        files = self.files()
        self.c.coordinator.stop()
        self.remove_database()
        for path in (self.c.folder / "yesterday").iterdir():
            shutil.copy2(path, self.folder)
        log = self.start_again()
        self.keeps(files, log, later)
        self.assertRegex(log, r"it is older than when it was last used: it has \d+ changes of \d+")
        self.assertEqual(self.listed(), first)
        # The old registry gives the numbers of the later jobs again; the ids must be others.
        new = self.done(2)
        self.assertFalse(set(new) & set(later))
        self.assertEqual({name: self.files().get(name) for name in files}, files)


    def left_log(self, between):
        """A backup is restored, and the log of writes of a later time stays beside it; what the
        coordinator logged at its start, and the jobs that were done."""
        first = self.done()
        backup = self.c.folder / "backup.db"
        self.assertEqual(self.run_coordinator("--backup", backup)[0], 0)
        later = self.done()
        between()
        later += self.done()
        self.c.coordinator.kill()
        self.assertGreater((self.folder / "jobs.db-wal").stat().st_size, 0)
        (self.folder / "jobs.db").unlink()
        (self.folder / "jobs.db-shm").unlink()
        shutil.copy(backup, self.folder / "jobs.db")
        return self.start_again(), first, later

    def test_a_log_of_writes_of_another_time(self):
        """It goes on from a file that the backup is not: SQLite would find it malformed."""
        def copy_log():
            db = sqlite3.connect(self.folder / "jobs.db")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            db.close()

        log, first, later = self.left_log(copy_log)
        self.assertRegex(log, r"jobs.db-wal belongs to jobs.db at another time: it has changes \d+ to "
                              r"\d+, jobs.db has \d+. It is kept as jobs.db-wal.other")
        self.assertTrue((self.folder / "jobs.db-wal.other").exists())
        self.assertEqual(self.listed(), first)
        self.done()

    def test_a_log_of_writes_that_goes_on_from_the_backup(self):
        """It has all that happened since: nothing is lost."""
        log, first, later = self.left_log(lambda: None)
        self.assertNotIn("belongs to", log)
        self.assertEqual(sorted(self.listed()), sorted(first + later))
        self.done()

    def test_an_attempt_that_the_old_registry_does_not_know(self):
        """The nodes train in it. Its number is not given again."""
        self.c.workers[0].stop()
        job_id = self.c.submit({**TINY, "straggler": PACE}).id
        backup = self.c.folder / "backup.db"
        self.assertEqual(self.run_coordinator("--backup", backup)[0], 0)
        self.c.workers[0].start()
        before = self.c.wait_state(job_id, job_pb2.JOB_STATE_RUNNING).attempt
        self.c.coordinator.kill()
        self.remove_database()
        shutil.copy(backup, self.folder / "jobs.db")
        self.start_again()
        job = self.c.wait(job_id)
        self.assertEqual(job.state, job_pb2.JOB_STATE_DONE, f"{job.reason} {job.message}")
        self.assertGreater(job.attempt, before)
        self.c.wait_idle()

    def test_the_registry_of_another_coordinator(self):
        ids = self.done()
        files = self.files()
        self.c.coordinator.stop()
        other = self.c.folder / "other"
        shutil.copytree(self.folder, other)
        self.remove_database()
        (self.folder / "jobs.db.id").unlink()
        log = self.start_again()
        self.keeps(files, log, ids)
        self.assertNotIn("not as", log)  # nothing says that there was another
        self.c.coordinator.stop()
        self.remove_database()
        shutil.copy2(other / "jobs.db", self.folder)
        log = self.start_again()
        self.assertRegex(log, r"it is [0-9a-f]{32}, made \S+; the one before was [0-9a-f]{32}, made")
        self.assertEqual(self.files(), files)
        self.assertEqual(self.listed(), ids)

    def test_a_crash_is_no_loss(self):
        ids = self.done(2)
        self.c.coordinator.kill()
        log = self.start_again()
        self.assertNotIn("jobs.db", log)
        self.assertEqual(sorted(self.listed()), sorted(ids))


class Backup(RegistryTest):
    def test_a_backup_of_a_running_coordinator(self):
        first = self.done()
        to = self.c.folder / "backup.db"
        code, said = self.run_coordinator("--backup", to)
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"registry [0-9a-f]{32}, made \S+, \d+ changes")
        self.assertEqual(to.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.database(to).execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        self.assertEqual(self.database(to).execute("SELECT id FROM jobs").fetchall(), [(first[0],)])
        later = self.done()
        # What is no backup is not written over, nor is the registry itself.
        other = self.c.folder / "thesis.txt"
        other.write_text("do not lose me")
        code, said = self.run_coordinator("--backup", other)
        self.assertNotEqual(code, 0)
        self.assertIn("is there and is no backup", said)
        self.assertEqual(other.read_text(), "do not lose me")
        code, said = self.run_coordinator("--backup", self.folder / "jobs.db")
        self.assertIn("is the registry itself", said)
        self.assertNotEqual(self.run_coordinator("--data-dir", self.c.folder / "nothing", "--backup", to)[0], 0)
        # Restored, it is what it was; a newer one replaces it.
        self.c.coordinator.stop()
        self.remove_database()
        shutil.copy(to, self.folder / "jobs.db")
        self.keeps(self.files(), self.start_again(), later)
        self.assertEqual(self.listed(), first)
        again = self.done()
        self.assertEqual(self.run_coordinator("--backup", to)[0], 0)
        self.assertEqual(self.database(to).execute("SELECT id FROM jobs ORDER BY number").fetchall(),
                         [(first[0],), (again[0],)])
        self.assertEqual(list(self.c.folder.glob("*.tmp")), [])

    def test_a_copy_before_the_schema_changes(self):
        ids = self.done()
        self.c.coordinator.stop()
        db = self.database()
        db.executescript("""
            DROP TABLE identity;
            ALTER TABLE jobs DROP COLUMN spec_sum;
            ALTER TABLE jobs DROP COLUMN detail_sum;
            PRAGMA user_version = 1;""")
        db.close()
        self.start_again()
        self.assertEqual(self.listed(), ids)
        copy = self.database(self.folder / "jobs.db.before-v2")
        self.assertEqual(copy.execute("PRAGMA user_version").fetchone(), (1,))
        self.assertEqual(copy.execute("SELECT id FROM jobs").fetchall(), [(ids[0],)])
        self.assertEqual(self.database().execute("PRAGMA user_version").fetchone(), (2,))


class Damaged(RegistryTest):
    def refuses(self, files):
        """No start, and nothing changed; the message names the file and what to do."""
        before = (self.folder / "jobs.db").read_bytes()
        code, said = self.run_coordinator()
        self.assertEqual(code, 1, said)
        self.assertIn("coordinator/jobs.db cannot be used", said)
        self.assertIn("Restore a backup", said)
        self.assertIn("--recover", said)
        self.assertEqual((self.folder / "jobs.db").read_bytes(), before)
        self.assertEqual(self.files(), files)
        self.assertEqual(self.run_coordinator("--recover")[0], 1)
        self.assertEqual((self.folder / "jobs.db").read_bytes(), before)
        code, said = self.run_coordinator("--backup", self.c.folder / "backup.db")
        self.assertEqual(code, 1)
        self.assertFalse((self.c.folder / "backup.db").exists())

    def test_a_truncated_registry(self):
        self.done(2)
        self.c.coordinator.stop()
        files = self.files()
        path = self.folder / "jobs.db"
        path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])
        self.refuses(files)

    def test_flipped_bits(self):
        self.done(2)
        self.c.coordinator.stop()
        files = self.files()
        path = self.folder / "jobs.db"
        db = self.database()
        size, = db.execute("PRAGMA page_size").fetchone()
        page, = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'jobs'").fetchone()
        db.close()
        whole = path.read_bytes()
        for at in (0, (page - 1) * size, (page - 1) * size + 4):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1:])
            self.refuses(files)
        path.write_bytes(whole)
        self.start_again()
        self.assertEqual(len(self.listed()), 2)


    def rows(self):
        return {job.id: job for job in self.c.api.ListJobs(coordinator_pb2.ListJobsRequest()).jobs}

    def test_a_damaged_row_does_not_hide_the_others(self):
        columns = [row[1] for row in self.database().execute("PRAGMA table_info(jobs)")]
        no_sum = ", detail_sum = NULL" if "detail_sum" in columns else ""  # as an older program stored it
        damages = {
            "a blob that does not unpack": "detail = x'0affffff'",
            "text that is not UTF-8": "detail = CAST(replace(CAST(detail AS TEXT), 'tiny-', 'tin' || CAST(x'fffe' AS TEXT)) AS BLOB)" + no_sum,
            "a flipped bit": "spec = CAST(x'0a0474696e79' AS BLOB) || substr(spec, 8)",
            "a state that is none": "state = 77",
            "an id that is not UTF-8": "id = CAST(x'746966fffe' AS TEXT)",
        }
        ids = self.done(len(damages) + 1)
        files = self.files()
        self.c.coordinator.stop()
        db = self.database()
        for job_id, change in zip(ids, damages.values()):
            self.assertEqual(db.execute(f"UPDATE jobs SET {change} WHERE id = ?", (job_id,)).rowcount, 1)
        db.close()
        before = self.c.coordinator.log_end()
        self.start_again()
        for _ in range(3):
            rows = self.rows()
        self.assertEqual(len(rows), len(ids))
        self.assertEqual(rows[ids[-1]].state, job_pb2.JOB_STATE_DONE)
        self.assertEqual(rows[ids[-1]].reason, "")
        shown = [job for job in rows.values() if job.reason == "REGISTRY_DAMAGED"]
        self.assertEqual(len(shown), len(damages))
        for number, job_id in enumerate(ids[:-2], 1):
            self.assertIn(f"row {number} of jobs.db is damaged", rows[job_id].message)
            with self.assertRaises(grpc.RpcError) as e:
                self.c.get(job_id)
            self.assertEqual(e.exception.code(), grpc.StatusCode.DATA_LOSS)
            self.assertIn("--recover", e.exception.details())
        self.assertIn("row-5", rows)
        # Said once a row, however often it is read.
        log = self.c.coordinator.log(before)
        self.assertEqual(log.count("a row of jobs.db is damaged"), len(damages))
        self.done()
        # The files have what the rows had.
        self.c.coordinator.stop()
        code, said = self.run_coordinator("--recover")
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count("in the registry again: DONE"), len(damages))
        self.start_again()
        rows = self.rows()
        for job_id in ids:
            self.assertEqual((rows[job_id].state, rows[job_id].reason), (job_pb2.JOB_STATE_DONE, ""))
            self.c.files(job_id)
        self.assertEqual({name: self.files()[name] for name in files}, files)

    def test_a_damaged_event_is_passed_over(self):
        job_id, = self.done()
        self.c.coordinator.stop()
        db = self.database()
        db.execute("UPDATE events SET event = x'0affffff' WHERE sequence = 2")
        db.close()
        self.start_again()
        events = list(self.c.api.WatchJob(coordinator_pb2.WatchJobRequest(job_id=job_id), timeout=10 * PATIENCE))
        self.assertEqual(events[-1].job.state, job_pb2.JOB_STATE_DONE)
        self.assertNotIn(2, [event.sequence for event in events])

    def test_a_flipped_bit_in_a_model_is_not_trained_on(self):
        job_id, = self.done()
        path = self.folder / "jobs" / job_id / "MODEL-tiny-N(ps).safetensors"
        model = path.read_bytes()
        self.assertEqual(self.c.wait(self.c.submit({**TINY, "init_from": f"job:{job_id}"}).id).state,
                         job_pb2.JOB_STATE_DONE)
        path.write_bytes(model[:-400] + bytes([model[-400] ^ 1]) + model[-399:])
        job = self.c.wait(self.c.submit({**TINY, "init_from": f"job:{job_id}"}).id)
        self.assertEqual((job.state, job.reason), (job_pb2.JOB_STATE_FAILED, "INIT_REFUSED"))
        self.assertIn("MODEL-tiny-N(ps).safetensors is damaged: its SHA-256", job.message)
        self.c.wait_idle()


class Recover(RegistryTest):
    def recover(self, code=0):
        got, said = self.run_coordinator("--recover")
        self.assertEqual(got, code, said)
        return said

    def known(self, ids):
        """{id: the job}, without what only the registry had."""
        jobs = {}
        for job_id in ids:
            job = jobs[job_id] = self.c.get(job_id)
            del job.placements[:]
            artifacts = sorted(job.artifacts, key=lambda a: a.name)
            del job.artifacts[:]
            job.artifacts.extend(artifacts)
            for time in (job.create_time, job.start_time):
                time.nanos -= time.nanos % 1000000  # as JSON has it
            job.ClearField("end_time")  # of the summary, which is written just before the end
        return jobs

    def test_jobs_of_a_lost_registry_are_listed_again(self):
        ids = self.done(2)
        cancelled = self.c.submit({**ENDLESS, "straggler": PACE}).id
        self.c.wait_state(cancelled, job_pb2.JOB_STATE_RUNNING)
        self.c.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=cancelled))
        self.assertEqual(self.c.wait(cancelled).state, job_pb2.JOB_STATE_CANCELLED)
        ids.append(cancelled)
        order, jobs, files = self.listed(), self.known(ids), self.files()
        self.assertIn("another coordinator uses", self.recover(1))
        self.c.coordinator.stop()
        self.remove_database()
        said = self.recover()
        for job_id in ids:
            self.assertRegex(said, f"{job_id}: in the registry again: (DONE|CANCELLED), \\d+ files as stored")
        self.assertIn("3 folders: 0 in the registry already, 3 again, 0 left", said)
        # A second time there is nothing to do.
        self.assertIn("3 folders: 3 in the registry already, 0 again, 0 left", self.recover())
        log = self.start_again()
        self.assertNotIn("does not know", log)
        self.assertEqual(self.listed(), order)
        for job_id, job in self.known(ids).items():
            self.assertEqual(rounded(job), rounded(jobs[job_id]))
            self.assertTrue(self.c.get(job_id).HasField("end_time"))
        self.assertEqual(self.files(), files)
        for job_id in ids:
            self.c.files(job_id)  # compares with the SHA-256 that GetJob says
            events = list(self.c.api.WatchJob(coordinator_pb2.WatchJobRequest(job_id=job_id), timeout=10 * PATIENCE))
            self.assertEqual([event.job.state for event in events], [jobs[job_id].state])
        # They can be started from, and deleted; new jobs have other ids.
        self.assertEqual(self.c.wait(self.c.submit({**TINY, "init_from": f"job:{ids[0]}"}).id).state,
                         job_pb2.JOB_STATE_DONE)
        self.c.api.DeleteJob(coordinator_pb2.DeleteJobRequest(job_id=ids[1]))
        self.assertFalse(set(self.done(3)) & set(ids))

    def test_what_cannot_be_read_is_named_and_left(self):
        ids = self.done(5)
        self.c.coordinator.stop()
        self.remove_database()
        jobs = self.folder / "jobs"
        (jobs / ids[0] / "summary.json").write_text('{"id": "other"}')
        (jobs / ids[1] / "manifest.json").unlink()
        model = jobs / ids[2] / "MODEL-tiny-N(0).safetensors"
        model.write_bytes(model.read_bytes()[:-1] + b"\x55")
        (jobs / ids[3] / "summary.json").unlink()
        os.mkfifo(jobs / ids[3] / "summary.json")
        (jobs / "empty-folder").mkdir()
        files = self.files()
        code, elsewhere = self.run_coordinator("--recover", "--data-dir", self.c.folder / "nothing")
        self.assertEqual(code, 1)
        self.assertIn("no folder", elsewhere)
        self.assertFalse((self.c.folder / "nothing").exists())
        said = self.recover(1)
        self.assertIn(f"{ids[0]}: left as it is: summary.json is of job other", said)
        self.assertIn(f"{ids[1]}: left as it is: there is no file manifest.json", said)
        self.assertRegex(said, f"{ids[2]}: in the registry again: DONE, 1 of \\d+ files not as stored: "
                               r"MODEL-tiny-N\(0\).safetensors \(another SHA-256\)")
        self.assertIn(f"{ids[3]}: left as it is: there is no file summary.json", said)
        self.assertIn("empty-folder: left as it is: there is no file summary.json", said)
        self.assertRegex(said, f"{ids[4]}: in the registry again: DONE, \\d+ files as stored")
        self.assertEqual(self.files(), files)
        log = self.start_again()
        self.assertEqual(self.listed(), [ids[4], ids[2]])
        self.assertIn("jobs.db does not know 4 job folders", log)
        self.assertEqual(self.files(), files)

    def test_jobs_since_a_backup(self):
        first = self.done()
        backup = self.c.folder / "backup.db"
        self.assertEqual(self.run_coordinator("--backup", backup)[0], 0)
        later = self.done(2)
        self.c.coordinator.stop()
        self.remove_database()
        shutil.copy(backup, self.folder / "jobs.db")
        files = self.files()
        self.assertIn("3 folders: 1 in the registry already, 2 again, 0 left", self.recover())
        self.start_again()
        self.assertEqual(self.listed(), [later[1], later[0], first[0]])
        # The old registry would give the ids of the later jobs once more.
        self.assertFalse(set(self.done(3)) & set(later))
        self.assertEqual({name: self.files()[name] for name in files}, files)

    def test_a_job_that_ended_after_the_backup_is_not_run_again(self):
        for by_hand in (False, True):
            job_id = self.c.submit({**TINY, "straggler": PACE}).id
            self.c.wait_state(job_id, job_pb2.JOB_STATE_RUNNING)
            backup = self.c.folder / "backup.db"
            self.assertEqual(self.run_coordinator("--backup", backup)[0], 0)
            self.assertEqual(self.c.wait(job_id).state, job_pb2.JOB_STATE_DONE)
            files = self.files()
            self.c.coordinator.stop()
            self.remove_database()
            shutil.copy(backup, self.folder / "jobs.db")
            if by_hand:
                self.assertIn(f"{job_id}: in the registry again: DONE", self.recover())
            log = self.start_again()
            if not by_hand:
                self.assertIn(f"job {job_id} is RUNNING in jobs.db, but DONE by its files", log)
            self.assertEqual(self.c.get(job_id).state, job_pb2.JOB_STATE_DONE)
            self.c.files(job_id)
            self.assertEqual(self.files(), files)
            self.done()


class Every(RegistryTest):
    """Each fault of the registry, and then --recover: no file is deleted, all jobs are listed again,
    and their files are as their manifests say."""

    def verified(self, ids):
        for job_id in ids:
            files = self.c.files(job_id)
            manifest = json.loads(files["manifest.json"])
            self.assertGreater(len(manifest["files"]), 2)
            for entry in manifest["files"]:
                self.assertEqual(hashlib.sha256(files[entry["name"]]).hexdigest(), entry["sha256"],
                                 entry["name"])

    def fault(self, harm, is_refused=False):
        first = self.done()
        self.c.coordinator.stop()
        self.copy(self.c.folder / "yesterday")
        self.c.restart_coordinator()
        self.c.wait_nodes(2)
        ids = first + self.done(2)
        files = self.files()
        self.c.coordinator.stop()
        harm(self.folder / "jobs.db")
        if is_refused:
            code, said = self.run_coordinator()
            self.assertEqual(code, 1, said)
            self.assertIn("cannot be used", said)
            self.assertEqual(self.files(), files)
            (self.folder / "jobs.db").rename(self.folder / "jobs.db.bad")  # as docs/operations.md says
            self.remove_database()
        else:
            self.start_again()
            self.assertEqual({name: self.files().get(name) for name in files}, files)
            self.c.coordinator.stop()
        code, said = self.run_coordinator("--recover")
        self.assertEqual(code, 0, said)
        self.start_again()
        self.assertEqual(sorted(self.listed()), sorted(ids))
        for job_id in ids:
            self.assertEqual(self.c.get(job_id).state, job_pb2.JOB_STATE_DONE)
        self.verified(ids)
        self.assertEqual(self.files(), files)

    def test_lost(self):
        self.fault(lambda path: self.remove_database())

    def test_restored_from_yesterday(self):
        def restore(path):
            self.remove_database()
            for file in (self.c.folder / "yesterday").iterdir():
                shutil.copy2(file, self.folder)

        self.fault(restore)

    def test_emptied(self):
        def empty(path):
            self.remove_database()
            path.write_bytes(b"")

        self.fault(empty)

    def test_truncated(self):
        self.fault(lambda path: path.write_bytes(path.read_bytes()[:path.stat().st_size // 2]), True)

    def test_bits_flipped(self):
        def flip(path):
            db = self.database()
            (size,), = db.execute("PRAGMA page_size").fetchall()
            (page,), = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'jobs'").fetchall()
            db.close()
            whole = bytearray(path.read_bytes())
            whole[(page - 1) * size] ^= 0x15
            path.write_bytes(whole)

        self.fault(flip, True)


class Deleted(RegistryTest):
    def test_only_a_client_deletes_files(self):
        first, second = self.done(2)
        kept = {name: sum for name, sum in self.files().items() if second in name}
        self.c.api.DeleteJob(coordinator_pb2.DeleteJobRequest(job_id=first))
        jobs = self.folder / "jobs"
        self.c.poll("the files are gone", lambda: [p.name for p in jobs.iterdir()] == [second])
        self.assertEqual(self.files(), kept)
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
