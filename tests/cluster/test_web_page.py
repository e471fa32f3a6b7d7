#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The coordinator's page in a real Chromium: what a user sees and does there."""
import contextlib
import gzip
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import unittest

import mlflow_stub
from browser import Browser
from harness import BIN, ENDLESS, ROOT, job_pb2, main
from selenium.common.exceptions import StaleElementReferenceException
from test_web_api import Web

QUICK = {"workers": 2, "epochs": 1, "data": {"name": "glyphs", "train_limit": 2048, "test_limit": 256}}
SLOW = {**ENDLESS, "workers": 2, "straggler": {"name": "fixed", "params": {"ms": 5}}}
# A program that computes a model, and reports a metric of its own at every second step.
PROGRAM = """
import sys, time, psgd
with psgd.join("own", coordinator=sys.argv[1], log_level="info") as worker:  # the page shows the log
    for step in worker.steps(timeout=60):
        if step.clock % 2 == 0:
            step.report(norm=step.clock)
        step.loss(1 / (1 + step.clock))
        step.ready()
        time.sleep(0.02)
"""
# Holds each answer of GetJob back until the page has drawn a later event.
LATE_ANSWERS = """
window.lateAnswers = 0;
const ask = window.fetch, step = () => document.querySelector('.facts dd').textContent;
window.fetch = async (url, options) => {
  const answer = await ask(url, options);
  if (String(url).endsWith('/GetJob')) {
    for (const before = step(); step() === before;) await new Promise((done) => setTimeout(done, 20));
    window.lateAnswers++;
  }
  return answer;
};
"""
# Chooses the first of two timelines and then the second. The answer with the first is held back until the second has been read.
LATE_FIRST = """
window.timelinesRead = 0;
const [early, late] = arguments, ask = window.fetch, json = Response.prototype.json, files = document.getElementById('timeline');
let release;
const released = new Promise((done) => { release = done; });
window.fetch = async (url, options) => {
  const answer = await ask(url, options);
  if (String(url).includes(encodeURIComponent(early))) await released;
  return answer;
};
Response.prototype.json = async function () {
  const value = await json.call(this);
  if (value.traceEvents) setTimeout(() => { window.timelinesRead++; release(); });  // when the page has taken it
  return value;
};
for (const name of [early, late]) {
  files.value = name;
  files.dispatchEvent(new Event('change'));
}
"""
MARKUP = "<img src=x onerror=document.title='bad'>"


class Page(Web):
    @classmethod
    def setUpClass(cls):
        cls.b = Browser()  # of all tests
        cls.addClassCleanup(cls.b.close)

    def setUp(self):
        super().setUp()
        self.b.turn_to(self.at)

    def click(self, what, css, text=None):
        """Clicks an element, which the page may draw anew at any time."""
        def clicked():
            for e in self.b.find(css):
                if text in (None, e.text):
                    e.click()
                    return True
            return False
        self.until(what, clicked)

    def label(self, css):
        """The label of an element, None if there is none: read at once, as the page may draw it anew."""
        return self.b.run("return document.querySelector(arguments[0])?.getAttribute('aria-label')", css)

    def another_page(self, **look):
        b = Browser(self.at, **look)
        self.addCleanup(b.close)
        return b

    def until(self, what, ask):
        def asked():
            try:
                return ask()
            except StaleElementReferenceException:  # the page has drawn it anew meanwhile
                return False
        return self.c.poll(what, asked, seconds=15)

    def test_what_programs_report_has_a_chart_while_they_train_and_after(self):
        env = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python"), "PSGD_WORKER": os.path.join(BIN, "psgd-worker"),
               "XDG_STATE_HOME": str(self.c.folder)}
        program = subprocess.Popen([sys.executable, "-c", PROGRAM, self.c.coordinator.address], env=env, stderr=subprocess.DEVNULL)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        job = self.c.submit({"title": "own", "workers": 1, "epochs": 1, "block_size": 1, "data": {"params": {"samples": 60000}},
                             "model": {"foreign": [{"name": "w", "shape": [1]}]}, "program_metrics": ["accuracy", "norm"]})
        self.b.open(f"#/job/{job.id}")

        def seen():
            charts = self.b.find(".chart")
            return len(charts) == 5 and re.fullmatch(r"norm by step: (\d+) points, (\d+) to ([1-9]\d+)", charts[4].get_attribute("aria-label"))

        self.until("values", seen)
        self.b.find("#cancel")[0].click()
        self.until("those of the report, at each step", lambda: (s := seen()) and s[2] == "0" and int(s[1]) - int(s[3]) in (1, 2))
        self.silent()

    def silent(self, b=None):
        """No error on the console, no request to another host."""
        b = b or self.b
        self.assertEqual(b.console(), [])
        asked = b.requests()
        self.assertGreater(len(asked), 5)
        self.assertEqual([url for url in asked if not url.startswith((b.base, "data:"))], [])

    def test_curves_of_a_job_grow_and_it_is_cancelled(self):
        job = self.c.submit(SLOW)
        self.b.open()
        self.click("the job is listed", "td.name a", job.id)
        first = self.until("points", lambda: (p := self.b.points()) and min(p) > 1 and p)
        self.until("more points", lambda: min(a - b for a, b in zip(self.b.points(), first)) > 2)
        self.until("the phase", lambda: any("train" in phase.text for phase in self.b.find(".phases [aria-current]")))
        self.until("workers", lambda: "Waits now for" in self.b.text())
        self.until("shares of time", lambda: any(re.search(r"\d %\s+\d+\.\d %", table.text) for table in self.b.find("[aria-label=Workers]")))
        for label in ("Share of waits by rank, steps ", "Staleness by rank, up to "):
            size = self.until(label, lambda at=label: self.b.run(
                "const heat = document.querySelector(`canvas[aria-label^=\"${arguments[0]}\"]`); return heat && [heat.height, heat.width]", at))
            self.assertEqual((size[0], size[1] > 1), (16, True), label)
        later = self.another_page()  # a page that is opened now has the curve from its beginning
        later.open(f"#/job/{job.id}")
        self.until("earlier points", lambda: len(later.points()) == 4 and later.points()[0] >= first[0])
        self.b.find("#cancel")[0].click()
        self.until("cancelled", lambda: self.b.find(".state.CANCELLED"))
        self.c.wait_state(job.id, job_pb2.JOB_STATE_CANCELLED)
        self.until("files", lambda: [a for a in self.b.find("td a") if a.text.startswith("TR-")])
        self.silent()

    def test_a_step_of_a_job_that_trains_is_recorded_and_drawn(self):
        # ten steps last so long that a node which hears of them late records some of them
        job = self.c.submit({**SLOW, "pservers": 1, "straggler": {"name": "fixed", "params": {"ms": 50}}})
        self.c.wait(job.id, lambda j: j.progress.step > 40)  # the rate of steps is known
        self.b.open(f"#/job/{job.id}")
        self.until("the button", lambda: (found := self.b.find("#record")) and found[0].is_displayed() and found)[0].click()
        before = self.until("the chart", lambda: self.label("svg.timeline"))
        self.assertRegex(before, r"^Step \d+: [\d.]+ ms on 5 threads$")
        rows = self.b.run("return [...document.querySelectorAll('svg.timeline text')].map((t) => t.textContent)")
        self.assertEqual(rows[:5], ["worker 0, training", "worker 0, messages", "worker 1, training", "worker 1, messages",
                                    "server 0, serving"])
        self.assertEqual(rows[5], "0 ms")
        of_kind = {kind: len(self.b.find(f"svg.timeline .t{kind}")) for kind in range(6)}
        self.assertTrue(all(of_kind[kind] > 0 for kind in (0, 1, 3, 4, 5)), of_kind)
        self.assertEqual(len(self.b.find("svg.timeline .whole")), 2)
        self.assertGreater(len(self.b.find("svg.timeline .arrow")), 1)
        said = {t.split(":")[0] for t in self.b.run("return [...document.querySelectorAll('svg.timeline title')].map((t) => t.textContent)")}
        self.assertTrue({"step", "data", "send", "wait for server 0"} <= said, said)
        self.b.run("const s = document.getElementById('step'); s.selectedIndex = s.selectedIndex > 0 ? 0 : 9; s.dispatchEvent(new Event('change'))")
        self.until("another step", lambda: self.label("svg.timeline") not in (None, before))
        self.click("as a table", "#step-chart summary")
        cells = self.until("the table", lambda: [td.text for td in self.b.find("[aria-label='Times of the step'] td")])
        self.assertEqual(cells[0], "worker 0, training")
        self.until("the timeline among the files", lambda: any(a.text.startswith("TRACE-") for a in self.b.find("td a")))
        self.b.find("#cancel")[0].click()
        self.until("cancelled", lambda: self.b.find(".state.CANCELLED"))
        self.assertTrue(self.b.find("svg.timeline"))  # it stays
        self.assertFalse(self.b.find("#record")[0].is_displayed())
        self.silent()

    def test_files_stay_when_the_job_changes_while_they_are_asked_for(self):
        """The answer to a call is late: it comes when a later event, of progress, has been drawn."""
        job = self.c.submit({**SLOW, "pservers": 1, "evalEverySteps": 10 ** 6})
        self.c.wait(job.id, lambda j: j.progress.step > 300)  # the rate of steps is known
        self.b.open(f"#/job/{job.id}")
        button = self.until("the button", lambda: (found := self.b.find("#record")) and found[0].is_displayed() and found)[0]
        self.b.run(LATE_ANSWERS)
        button.click()
        self.until("the timeline among the files", lambda: [a for a in self.b.find("td a") if a.text.startswith("TRACE-")])
        self.assertGreater(self.b.run("return window.lateAnswers"), 0)
        self.until("the chart", lambda: self.b.find("svg.timeline"))
        self.silent()

    def test_the_timeline_that_is_chosen_last_is_shown(self):
        """Also if the one that was chosen before it comes later."""
        job = self.c.submit({**SLOW, "pservers": 1})
        self.c.wait(job.id, lambda j: j.progress.step > 300)
        names = [self.call("TraceJob", {"job_id": job.id, "steps": 3})["name"] for _ in range(2)]
        self.b.open(f"#/job/{job.id}")
        self.until("both", lambda: [o.text for o in self.b.find("#timeline option")] == names and self.b.find("svg.timeline"))
        label = lambda: self.label("svg.timeline")
        last = label()
        self.b.run(LATE_FIRST, *names)
        self.until("both have come", lambda: self.b.run("return window.timelinesRead") == 2)
        self.assertEqual(label(), last)
        step = self.b.run("const s = document.getElementById('step'); s.selectedIndex = (s.selectedIndex + 1) % 3;"
                          "s.dispatchEvent(new Event('change')); return s.value")
        self.until("another step of it", lambda: label().startswith(f"Step {step}: "))

    def test_what_bounds_a_job_is_said(self):
        slow = {"name": "fixed", "params": {"rank": 1, "ms": 60, "others_ms": 5}}
        job = self.c.submit({**SLOW, "pservers": 1, "straggler": slow})
        self.c.wait(job.id, lambda j: j.progress.step > 20)
        self.b.open(f"#/job/{job.id}")
        said = lambda: [p.text for p in self.b.find("#because p")]
        self.until("the button", lambda: (found := self.b.find("#explain")) and found[0].is_displayed() and found)[0].click()
        self.until("its words", lambda: said()[:1] == ["A straggler bounds this job: worker 1, node worker-1."]
                   or said()[:1] == ["A straggler bounds this job: worker 1, node worker-0."])
        self.assertTrue(any(s.startswith("The job trains") for s in said()), said())
        rows = [[td.text for td in tr.find_elements("css selector", "td")][:2] for tr in self.b.find("[aria-label='Where the time goes'] tbody tr")]
        self.assertEqual([r[0] for r in rows], ["0", "1"])
        self.assertEqual({r[1] for r in rows}, {"worker-0", "worker-1"})
        self.assertEqual(len(self.b.find("svg.bars rect:not(.row)")), 2 * 4)
        self.b.find("#cancel")[0].click()
        self.until("of the whole job", lambda: (s := said()) and not any("The job trains" in x for x in s))
        self.assertFalse(self.b.find("#explain")[0].is_displayed())
        self.assertEqual(said(), self.call("ExplainJob", {"job_id": job.id})["sentences"])
        self.silent()

    def test_the_exchange_of_a_job_is_taken_apart(self):
        job = self.c.submit({**ENDLESS, "workers": 2, "pservers": 1, "straggler": {}, "blockSize": 1,
                             "model": {"preset": "mlp", "widths": [1024]}, "data": QUICK["data"]})
        self.c.wait(job.id, lambda j: j.progress.step > 20)
        self.b.open(f"#/job/{job.id}")
        self.until("the button", lambda: (found := self.b.find("#explain")) and found[0].is_displayed() and found)[0].click()
        self.c.poll("forecasts", lambda: self.b.find("[aria-label=Foretold]"), seconds=40)
        self.assertRegex(self.b.find("svg.bars")[0].get_attribute("aria-label"), r"^Of a step: the way up \d+\.\d %, a server ")
        heads = [th.text for th in self.b.find("[aria-label='Where a step goes'] th")]
        self.assertEqual(heads, ["Rank", *(f"{k}, ms" for k in ("data", "compute", "encode", "send", "wait", "decode"))])
        self.until("the timeline among the files", lambda: [a for a in self.b.find("td a") if a.text.startswith("TRACE-")])
        local = [[td.text for td in tr.find_elements("css selector", "td")] for tr in self.b.find("[aria-label=Foretold] tbody tr")]
        self.assertIn(["as now", "as now", "4", "as now"], [r[:4] for r in local])
        self.silent()

    def test_the_page_goes_on_after_the_coordinator_is_restarted(self):
        job = self.c.submit(SLOW)
        self.b.open(f"#/job/{job.id}")
        self.until("points", lambda: (p := self.b.points()) and min(p) > 1)
        self.silent()
        self.c.coordinator.kill()
        self.until("it says so", lambda: "does not answer" in self.b.text())
        self.c.restart_coordinator()
        before = self.b.points()
        self.until("more points", lambda: min(a - b for a, b in zip(self.b.points(), before)) > 2)
        self.assertNotIn("does not answer", self.b.text())

    def test_two_jobs_are_compared(self):
        jobs = [self.c.submit({**QUICK, "title": name, "codec": {"up": {"name": name}}}) for name in ("int8", "f16")]
        for job in jobs:
            self.c.wait(job.id)
        self.b.open()
        for job in jobs:
            self.click("a box", f"#choose-{job.id}")
        [b for b in self.b.find("button") if b.text == "Compare 2"][0].click()
        self.until("curves", lambda: (p := self.b.points()) and p[0] > 10)
        said = self.b.text()
        for part in ("What differs", "codec.up.name", "int8", "f16", *(j.id for j in jobs)):
            self.assertIn(part, said)
        self.assertNotIn("model.preset", said)
        self.b.run("const a = document.getElementById('axis'); a.value = 'bytes'; a.dispatchEvent(new Event('change'))")
        self.until("against bytes", lambda: "by bytes" in self.b.find(".chart")[0].get_attribute("aria-label"))
        self.silent()

    def test_a_job_is_submitted_with_errors_at_their_fields(self):
        self.b.open("#/submit")
        field = self.until("the form", lambda: self.b.find("#f-workers"))[0]
        field.send_keys("2000")
        self.b.find("button.first")[0].click()
        self.until("the error", lambda: "1 to 256 are allowed" in self.b.find("#f-workers-error")[0].text)
        self.assertEqual(self.b.run("return document.activeElement.id"), "f-workers")
        self.assertEqual(field.get_attribute("aria-invalid"), "true")
        self.assertEqual(len([m for m in self.b.console() if "400 (Bad Request)" not in m]), 0)
        field.clear()
        field.send_keys("2")
        self.b.find("#f-epochs")[0].send_keys("1")
        self.b.find("#f-data-train_limit")[0].send_keys("1024")
        self.assertEqual(self.b.find("#command")[0].text, "psgd submit --workers 2 --epochs 1 --train-limit 1024 --watch")
        self.b.find("button.first")[0].click()
        job_id = self.until("its page", lambda: (m := re.search(r"#/job/(.+)", self.b.driver.current_url)) and m.group(1))
        self.assertEqual(self.c.wait(job_id).spec.data.train_limit, 1024)
        self.until("done", lambda: self.b.find(".state.DONE"))
        [a for a in self.b.find("a.button") if a.text.startswith("Resubmit")][0].click()
        self.until("filled in", lambda: (f := self.b.find("#f-data-train_limit")) and f[0].get_attribute("value") == "1024")
        self.silent()

    def test_every_choice_has_its_numbers_and_any_field_can_be_set(self):
        self.b.open("#/submit")
        self.until("the form", lambda: self.b.find("#f-codec-up-name"))
        choose = "const f = document.getElementById(arguments[0]); f.value = arguments[1]; f.dispatchEvent(new Event('input'))"
        for plugin in self.call("GetServerInfo", {})["plugins"]:
            if plugin["kind"] != "codec":
                continue
            self.b.run(choose, "f-codec-up-name", plugin["name"])
            shown = self.b.run("return [...document.querySelectorAll('[name^=\"codec.up.params.\"]')].map((f) => f.name.slice(16))")
            self.assertEqual(shown, [p["name"] for p in plugin.get("params", [])], plugin["name"])
        self.b.run(choose, "f-codec-up-name", "topk")
        self.assertIn("0.0001 to 0.5", self.b.find("#f-codec-up-params-fraction-hint")[0].text)
        share = self.b.find("#f-codec-up-params-fraction")[0]
        share.send_keys("2")
        self.b.find("#f-more")[0].send_keys("timeouts.step_ms = 5000\nwhat")
        self.b.find("button.first")[0].click()
        self.until("a line that is none", lambda: "“what” is not path = value" in self.b.find("#f-more-error")[0].text)
        self.b.find("#f-more")[0].send_keys("\b" * 5)
        self.assertIn("--codec-up topk", self.b.find("#command")[0].text)
        self.assertIn("--set codec.up.params.fraction=2 --set timeouts.step_ms=5000", self.b.find("#command")[0].text)
        self.b.find("button.first")[0].click()
        self.until("the error", lambda: "2" in self.b.find("#f-codec-up-params-fraction-error")[0].text)
        self.assertEqual(self.b.run("return document.activeElement.id"), "f-codec-up-params-fraction")
        self.assertEqual([m for m in self.b.console() if "400 (Bad Request)" not in m], [])

    def test_a_job_of_a_million_steps_is_reduced_where_its_files_are(self):
        done = self.c.wait(self.c.submit({**QUICK, "title": "long"}).id)
        name, steps = "TR-long-N(0).csv", 10 ** 6
        losses = {777_777: 90.0, 123_456: 0.25}
        size = (self.c.coordinator.data_dir / "jobs" / done.id / name).write_text(
            "time_s,epoch,batch,step,loss,accuracy,samples_per_s,bytes_up,bytes_down,wait_s\n"
            + "".join(f"{i / 1000},1,{i},{i},{losses.get(i, 1 + i % 7 / 10)},0.5,64000,{i * 1000},{i * 1000},{i / 4000}\n"
                      for i in range(1, steps + 1)))
        self.c.coordinator.stop()
        for artifact in done.artifacts:
            artifact.size = size if artifact.name == name else artifact.size
        done.ClearField("spec")
        with contextlib.closing(sqlite3.connect(self.c.coordinator.data_dir / "jobs.db")) as db, db:
            db.execute("UPDATE jobs SET detail = ?, detail_sum = NULL WHERE id = ?", (done.SerializeToString(), done.id))
        self.c.restart_coordinator()
        self.assertEqual(self.c.get(done.id).artifacts, done.artifacts)
        status, _, content = self.ask(f"/api/v1/curves?job_id={done.id}")
        curves = json.loads(content)
        self.assertEqual((status, curves["step"][-1], min(curves["loss_min"]), max(curves["loss_max"])), (200, steps, 0.25, 90))
        self.assertLess(len(content), 200_000)
        self.b.open(f"#/job/{done.id}")
        self.until("its curve", lambda: (p := self.b.points()) and p[0] > 1000)
        self.assertLess(self.b.points()[0], 2100)
        self.until("where the time went", lambda: self.b.find('canvas[aria-label^="Longest wait by rank"]'))
        self.assertEqual([url for url in self.b.requests() if "name=TR-" in url or "name=ROUND-" in url], [])
        for x in ("step", "seconds"):
            self.b.run("const a = document.getElementById('axis'); a.value = arguments[0]; a.dispatchEvent(new Event('change'))", x)
            self.until(f"against {x}", lambda at=x: re.match(rf"Loss by {at}: \d+ points, 0.25 to 90$",
                                                             self.b.find(".chart")[0].get_attribute("aria-label")))
        self.assertEqual(self.b.console(), [])

    def test_a_thousand_jobs_cost_the_elements_of_fifty(self):
        for node in self.c.workers:
            node.kill()  # jobs stay in the queue
        for i in range(1000):
            self.c.submit({**QUICK, "title": f"many-{i:04}"})
        self.b.open()
        rows = lambda: self.b.run("return [...document.querySelectorAll('td.name a')].map((a) => a.textContent.slice(0, 9))")
        self.until("the newest", lambda: rows()[:1] == ["many-0999"])
        elements = self.b.run("return document.querySelectorAll('*').length")
        self.assertEqual((len(rows()), elements < 1500), (50, True), elements)
        self.b.find("#older")[0].click()
        self.until("older ones", lambda: rows()[:1] == ["many-0949"] and len(rows()) == 50)
        self.b.find("#search")[0].send_keys("many-0007")
        self.until("the one that is sought", lambda: rows() == ["many-0007"])
        self.b.find("#search")[0].send_keys("\b" * 4)
        self.until("all that match", lambda: len(rows()) == 50)
        self.assertLessEqual(self.b.run("return document.querySelectorAll('*').length"), elements)
        self.silent()

    def test_nodes_say_what_they_use(self):
        self.b.open("#/nodes")
        self.until("rates", lambda: len(re.findall(r"\d\.\d\d of \d+\s+[\d.]+ [KMG]iB of [\d.]+ [MGT]iB\s+in [\d.]+ \S+, out [\d.]+ \S+/s",
                                                   self.b.text())) == 3)
        for node in self.call("ListNodes")["nodes"]:
            self.assertGreater(node["load"]["memory_bytes"], 1 << 20)
            self.assertLess(node["load"]["memory_bytes"], node["load"]["host_memory_bytes"])
        self.silent()

    def test_trackers_are_links_and_what_they_say_is_text(self):
        good, bad = mlflow_stub.Stub(), mlflow_stub.Stub()
        self.addCleanup(good.close)
        self.addCleanup(bad.close)
        bad.mode, bad.says = "400", MARKUP
        job = self.c.submit(SLOW, tracker=[good.url, bad.url])
        self.b.open(f"#/job/{job.id}")
        run = self.until("a run", lambda: good.run_of(job.id))["info"]["run_id"]
        self.until("it is shown", lambda: f"Tracker {good.url}, run {run}" in self.b.text())
        self.until("a refusal", lambda: f"{bad.url}: nothing more is sent: it answers HTTP 400 BROKEN: {MARKUP}" in self.b.text())
        self.assertEqual(self.b.run("return [...document.querySelectorAll('main li a')].map((a) => a.href)"), [f"{s.url[7:]}/" for s in (good, bad)])
        self.b.find("#cancel")[0].click()
        self.c.wait_state(job.id, job_pb2.JOB_STATE_CANCELLED)
        self.b.open("#/jobs")
        self.b.open(f"#/job/{job.id}")  # as it is stored
        self.until("it is shown", lambda: f"Tracker {good.url}, run {run}" in self.b.text())
        self.assertEqual(self.b.find("main img"), [])
        self.assertEqual(self.b.console(), [])

    def test_text_is_never_markup(self):
        self.b.open("#/submit")
        self.until("the form", lambda: self.b.find("#f-title"))[0].send_keys(MARKUP)
        self.b.find("button.first")[0].click()
        self.until("the error", lambda: "<img src=x" in self.b.find("#f-title-error")[0].text)
        self.b.open("#/job/" + MARKUP.replace(" ", "%20"))
        self.until("the error", lambda: "<img src=x" in self.b.text())
        self.assertEqual(self.b.find("main img"), [])
        self.assertNotEqual(self.b.driver.title, "bad")

    def test_it_is_small(self):
        self.b.open()
        self.until("the page", lambda: self.b.find("h1"))
        size = 0
        for url in {u for u in self.b.requests() if "/api/" not in u and u.startswith(self.b.base)}:
            status, headers, content = self.ask(url[len(self.b.base) - 1:], headers={"Accept-Encoding": "gzip"})
            self.assertEqual(status, 200, url)
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertNotIn("unsafe", headers["Content-Security-Policy"])
            size += len(content)
            plain = self.ask(url[len(self.b.base) - 1:])[2]
            self.assertEqual(gzip.decompress(content) if headers["Content-Encoding"] == "gzip" else content, plain)
        self.assertGreater(size, 40000)
        self.assertLess(size, 400 << 10)

    @unittest.skipUnless(os.environ.get("PSGD_AXE"), "no axe-core")
    def test_axe_finds_no_serious_fault(self):
        job = self.c.submit({**QUICK, "title": "axe", "trace": {"steps": 3}})
        self.c.wait(job.id)
        axe = pathlib.Path(os.environ["PSGD_AXE"]).read_text(encoding="utf-8")
        for look in ({}, {"dark": True}, {"width": 390, "height": 844}):
            b = self.b
            b.turn_to(self.at, **look)
            for view in ("#/jobs", f"#/job/{job.id}", f"#/compare?jobs={job.id}", "#/nodes", "#/submit"):
                b.open(view)
                self.until(view, lambda: b.find("h1") and b.text().count("\n") > 8)
                if "job/" in view:
                    self.until("its files", lambda: "Where the time went" in b.text() and b.find("svg.timeline") and b.find("#because p"))
                b.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
                found = b.driver.execute_async_script("axe.run().then(arguments[0])")
                self.assertEqual([(v["id"], [n["html"][:120] for n in v["nodes"]][:4]) for v in found["violations"]
                                  if v["impact"] in ("serious", "critical")], [], (look, view))
                self.assertEqual(b.run("return document.documentElement.scrollWidth > innerWidth"), False, (look, view))


if __name__ == "__main__":
    main()
