# SPDX-License-Identifier: Apache-2.0
"""browser.py - the coordinator's page in a real Chromium, for tests and for pictures of it."""
import json

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
         "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")


class Browser:
    """Chromium; with an address, host:port, at the page there. By HTTPS it takes any certificate."""

    def __init__(self, address="", width=1440, height=1000, dark=False, tls=False):
        options = webdriver.ChromeOptions()
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.accept_insecure_certs = tls
        self.scheme = "https" if tls else "http"
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.turn_to(address, width, height, dark)

    def turn_to(self, address, width=1440, height=1000, dark=False):
        """Looks at the page of another coordinator, or at another size; forgets what was said and asked for before."""
        self.driver.get("about:blank")
        self.console(), self.requests()
        self.base = f"{self.scheme}://{address}/"
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def open(self, view=""):
        self.driver.get(self.base + view)

    def close(self):
        self.driver.quit()

    def find(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def run(self, script, *args):
        return self.driver.execute_script(script, *args)

    def text(self):
        return self.run("return document.body.innerText")

    def points(self):
        """How many points each chart has."""
        return self.run("return [...document.querySelectorAll('.chart')].map((c) => Number(c.dataset.points ?? 0))")

    def console(self):
        """What the console has said since it was asked last."""
        return [e["message"] for e in self.driver.get_log("browser")]

    def requests(self):
        """Every URL that was asked for since this was asked last."""
        events = (json.loads(e["message"])["message"] for e in self.driver.get_log("performance"))
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
