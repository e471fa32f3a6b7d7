#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""web_pictures.py - makes docs/images/web-*.png: a job on the page, light and dark, 390 and 1440 pixels wide, and one of its steps.

    PSGD_BIN=build/bin python3 tests/cluster/web_pictures.py
"""
from browser import Browser
from harness import ROOT, Cluster, coordinator_pb2
from test_web_api import page_of

SPEC = {"title": "digits", "workers": 2, "epochs": 60, "codec": {"up": {"name": "int8"}, "down": {"name": "int8"}},
        "straggler": {"name": "fixed", "params": {"ms": 2}}}


def step(cluster):
    """One step of a network whose layers can be seen."""
    job = cluster.submit({**SPEC, "title": "step", "epochs": 1000, "model": {"preset": "mlp", "widths": [512, 256]},
                          "straggler": {"name": "none"}})
    cluster.wait(job.id, until=lambda j: j.progress.step >= 300)
    browser = Browser(page_of(cluster), 1200, 900)
    browser.open(f"#/job/{job.id}")
    cluster.poll("the button", lambda: browser.find("#record") and browser.find("#record")[0].is_displayed())
    browser.find("#record")[0].click()
    cluster.poll("the chart", lambda: browser.find("svg.timeline"))
    path = ROOT / "docs/images/web-step.png"
    card = browser.driver.find_element("xpath", "//section[.//h2[text()='A step']]")
    cluster.poll("its height", lambda: card.size["height"] > 250)
    browser.run("arguments[0].scrollIntoView({block: 'start'})", card)  # only what is in view is in the picture
    card.screenshot(str(path))
    browser.close()
    cluster.api.CancelJob(coordinator_pb2.CancelJobRequest(job_id=job.id))
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
        step(cluster)
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
