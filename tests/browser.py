"""Drive a real Chromium by the WebDriver protocol, with the standard library."""

import base64
import contextlib
import http.client
import json
import re
import shutil
import subprocess

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--window-size=1100,900",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no internet
)


class Browser:
    """One window."""

    def __init__(self, port):
        self.port, self.session = port, ""
        options = {"binary": CHROMIUM, "args": FLAGS}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = f"/session/{self.send('/session', capabilities={'alwaysMatch': wanted})['sessionId']}"

    def send(self, path, method="POST", **content):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:
            connection.request(method, f"{self.session}{path}", json.dumps(content) if method == "POST" else None)
            value = json.loads(connection.getresponse().read())["value"]
        assert not (isinstance(value, dict) and "error" in value), value
        return value

    def open(self, address):
        self.send("/url", url=address)

    def run(self, script, *arguments):
        """Run JavaScript and return its result."""
        return self.send("/execute/sync", script=script, args=arguments)

    def dark(self, is_dark):
        """Prefer dark colours, or light ones."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
        self.send("/goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params={"features": features})

    def log(self):
        """Return what the console has said since the last call."""
        return [entry["message"] for entry in self.send("/se/log", type="browser")]

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.send("/screenshot", "GET")))


@contextlib.contextmanager
def browsing():
    """Run a browser."""
    with subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True) as driver:
        try:
            lines = iter(driver.stdout.readline, "")
            port = next(found[1] for line in lines if (found := re.search(r"started successfully on port (\d+)", line)))
            browser = Browser(int(port))
            try:
                yield browser
            finally:
                browser.send("", "DELETE")
        finally:
            driver.terminate()
