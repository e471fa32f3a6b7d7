#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""web_pictures.py - makes docs/images/web-*.png: a job on the page, light and dark, 390 and 1440 pixels wide, what bounds one, and one
of its steps.

    PSGD_BIN=build/bin python3 tests/cluster/web_pictures.py
"""
from browser import Browser
from harness import ROOT, Cluster, coordinator_pb2
from test_web_api import page_of

SPEC = {"title": "digits", "workers": 2, "epochs": 60, "codec": {"up": {"name": "int8"}, "down": {"name": "int8"}},
        "straggler": {"name": "fixed", "params": {"ms": 2}}}
PICTURES = {"record": "step", "explain": "explain"}  # button and file
CODECS = {"explain": {"codec": {}}}


def card(cluster, name, title, is_there):
    """A picture of one card of a job whose layers can be seen, after a click on the button `name`."""
    job = cluster.submit({**SPEC, "title": name, "epochs": 1000, "model": {"preset": "mlp", "widths": [512, 256]},
                          "straggler": {"name": "none"}, **CODECS.get(name, {})})
    cluster.wait(job.id, until=lambda j: j.progress.step >= 300)
    browser = Browser(page_of(cluster), 1200, 1100)
    browser.open(f"#/job/{job.id}")
    cluster.poll("the button", lambda: browser.find(f"#{name}") and browser.find(f"#{name}")[0].is_displayed())
    browser.find(f"#{name}")[0].click()
    cluster.poll("the answer", lambda: browser.find(is_there))
    path = ROOT / f"docs/images/web-{PICTURES[name]}.png"
    element = browser.driver.find_element("xpath", f"//section[.//h2[text()='{title}']]")
    cluster.poll("its height", lambda: element.size["height"] > 250)
    browser.run("arguments[0].scrollIntoView({block: 'start'})", element)  # only what is in view is in the picture
    element.screenshot(str(path))
    browser.close()
    cluster.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
    cluster.wait(job.id)
    cluster.wait_idle()
    print(path)


def main():
    cluster = Cluster(workers=2, pservers=1, coordinator_args=["--web", "127.0.0.1:0"])
    try:
        cluster.wait_nodes(3)
        job = cluster.submit(SPEC)
        cluster.wait(job.id, until=lambda j: j.progress.epoch >= 7)
        for width, height in ((1440, 900), (390, 844)):
            for name, dark in (("light", False), ("dark", True)):
                browser = Browser(page_of(cluster), width, height, dark)
                browser.open(f"#/job/{job.id}")
                cluster.poll("curves", lambda: len(p := browser.points()) == 4 and min(p) > 5)
                cluster.poll("tests", lambda: "test" in browser.find(".legend")[0].text)
                path = ROOT / f"docs/images/web-job-{name}-{width}.png"
                browser.driver.save_screenshot(str(path))
                browser.close()
                print(path)
        cluster.wait(job.id)
        cluster.wait_idle()
        card(cluster, "record", "A step", "svg.timeline")
        card(cluster, "explain", "What bounds it", "#because p")
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
