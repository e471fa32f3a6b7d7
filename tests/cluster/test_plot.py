#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""psgd plot: files that need nothing else, of jobs of a cluster and of folders; psgd watch --curves."""
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import termios
import xml.etree.ElementTree as ElementTree

from harness import BIN, ENDLESS, PATIENCE, SMALL, ClusterTest, main

HTML, SVG = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/2000/svg}"


class Plot(ClusterTest):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="psgd-plot-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def run_psgd(self, *args, coordinator=None):
        """(exit code, stdout, stderr)"""
        general = ["--coordinator", coordinator] if coordinator else []
        p = subprocess.run([str(BIN / "psgd"), *general, *map(str, args)], capture_output=True, text=True,
                           cwd=self.folder, timeout=60 * PATIENCE, env={"TMPDIR": str(self.folder)})
        return p.returncode, p.stdout, p.stderr

    def titles(self, root):
        return [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "pt ph"]

    def read(self, name):
        """The root of a file, which is XML and names nothing outside of it."""
        text = (self.folder / name).read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
        for element in root.iter():
            self.assertNotIn(element.tag.split("}")[-1], ("script", "img", "image", "link", "iframe", "use", "a"))
            for key in element.attrib:
                self.assertFalse(key.startswith("on") or key in ("src", "href"), key)
        self.assertNotRegex(text, r"url\(|@import")
        return root

    def test_jobs_of_a_cluster(self):
        c = self.cluster(workers=2, pservers=1)
        plain = c.wait(c.submit({**SMALL, "workers": 2}).id)
        other = c.wait(c.submit({**SMALL, "workers": 2, "title": "other", "codec": {"up": {"name": "int8"}}}).id)
        address = c.coordinator.address
        code, out, err = self.run_psgd("plot", plain.id, coordinator=address)
        self.assertEqual((code, out, err), (0, "report of 1 job in report.html\n", ""))
        page = self.read("report.html")
        self.assertEqual(self.titles(page), ["Loss", "Accuracy", "Bytes", "Steps a second", "Where time goes"])
        text = "".join(page.itertext())
        for expected in (plain.id, "worker 0", "worker 1", f"{plain.result['accuracy']:.4f}", "codec.up.name",
                         "worker-1", "worker 1 at 127.0.0.1:", "version "):
            self.assertIn(expected, text)
        # a title finds the newest job of it; what differs is the legend
        code, out, err = self.run_psgd("plot", plain.id, "other", "-x", "bytes", "-o", "two.svg", coordinator=address)
        self.assertEqual((code, out, err), (0, "curves of 2 jobs in two.svg\n", ""))
        picture = self.read("two.svg")
        labels = [t.text for t in picture.iter(f"{SVG}text")]
        self.assertIn("codec.up f32", labels)
        self.assertIn("codec.up int8", labels)
        self.assertIn("bytes that all workers sent and received", labels)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["report.html", "two.svg"])
        # refusals
        code, _, err = self.run_psgd("plot", "nothing", coordinator=address)
        self.assertEqual(code, 1)
        self.assertIn("'nothing' is no folder, and no id or title", err)
        running = c.submit({**ENDLESS, "workers": 2})
        c.wait(running.id, until=lambda j: j.progress.step > 20)
        code, _, err = self.run_psgd("plot", running.id, coordinator=address)
        self.assertEqual(code, 1)
        self.assertIn("has no reports yet", err)

    def test_folders_need_no_coordinator(self):
        job = self.folder / "job.json"
        job.write_text(json.dumps({**SMALL, "workers": 2}))
        for name in ("a", "b"):
            code, _, err = self.run_psgd("train", job, "--seed", 1 if name == "a" else 2, "--out", name)
            self.assertEqual((code, err), (0, ""))
        summary = self.folder / "a" / "summary.json"
        evil = "<img src=x onerror=alert(1)>"
        said = json.loads(summary.read_text())
        said["spec"]["title"] = said["id"] = evil
        summary.write_text(json.dumps(said))
        for x, name in (("step", "of the axis: steps"), ("time", "time since training began"), ("bytes", "bytes that all")):
            code, out, err = self.run_psgd("--coordinator", "127.0.0.1:1", "plot", "a", "b", "-x", x, "-o", f"{x}.html")
            self.assertEqual((code, err), (0, ""), out)
            page = self.read(f"{x}.html")
            self.assertEqual(page.find(f".//{HTML}h1").text, f"{evil} and 1 more")
            self.assertIn(name.split(": ")[-1], "".join(page.itertext()))
        labels = "".join(self.read("step.html").find(f".//{HTML}ul").itertext())
        self.assertEqual(re.findall(r"seed \d", labels), ["seed 1", "seed 2"])
        code, out, _ = self.run_psgd("--format", "json", "plot", "b", "-o", "b.svg")
        self.assertEqual((code, json.loads(out)["jobs"]), (0, 1))
        self.read("b.svg")
        for args, expected in ((("a", "-o", "a.png"), "must end with .html or .svg"),
                               (("a", "-x", "miles"), "step|time|bytes")):
            code, _, err = self.run_psgd("plot", *args)
            self.assertEqual(code, 4, err)
            self.assertIn(expected, err)
        (self.folder / "empty").mkdir()
        code, _, err = self.run_psgd("plot", "empty")
        self.assertNotEqual(code, 0)
        self.assertIn("has no reports", err)

    def watch(self, c, job, rows, columns, locale):
        """What psgd watch --curves writes to a terminal of that size."""
        main_end, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        p = subprocess.Popen([BIN / "psgd", "-c", c.coordinator.address, "watch", "--curves", job], stdout=end,
                             stderr=subprocess.DEVNULL, env={"LC_ALL": locale})
        os.close(end)
        said = b""
        with open(main_end, "rb", buffering=0) as f:
            try:
                while piece := f.read(65536):
                    said += piece
            except OSError:  # the other end is closed
                pass
        self.assertEqual(p.wait(60 * PATIENCE), 0)
        return said.decode()

    def test_curves_on_a_terminal(self):
        c = self.cluster(workers=2, pservers=1)
        long = {**SMALL, "workers": 2, "epochs": 100000, "maxSeconds": 4}
        for rows, columns, locale in ((24, 80, "C.UTF-8"), (50, 120, "C.UTF-8"), (24, 80, "C")):
            with self.subTest(rows=rows, columns=columns, locale=locale):
                said = self.watch(c, c.submit(long).id, rows, columns, locale)
                frames = [f for f in said.split("\x1b[J") if "accuracy 0." in f and "loss " in f and "step " in f]
                self.assertGreater(len(frames), 1)
                for line in re.sub(r"\x1b\[\d*[A-Z]", "", said).replace("\r", "\n").split("\n"):
                    if "|" in line or "\u2502" in line:
                        self.assertLess(len(line), columns)
                self.assertNotIn("\x1b[2J", said)
                self.assertRegex(said, r"\r\nCOLLECTING")  # the last curves stay
                self.assertEqual(bool(re.search("[\u2801-\u28ff]", said)), locale != "C")
                self.assertEqual(said.isascii(), locale == "C")
                for up in re.findall(r"\x1b\[(\d+)A", said):
                    self.assertLess(int(up), rows)
        job = c.submit({**SMALL, "workers": 2}).id
        code, out, err = self.run_psgd("watch", "--curves", job, coordinator=c.coordinator.address)
        self.assertEqual(code, 0)
        self.assertIn("--curves draws on a terminal", err)
        self.assertNotIn("\x1b", out)
        code, _, err = self.run_psgd("--format", "json", "watch", "--curves", job, coordinator=c.coordinator.address)
        self.assertEqual(code, 4, err)


if __name__ == "__main__":
    main()
