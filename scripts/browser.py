"""Chromium without a window, driven over a pair of pipes (the DevTools protocol), for scripts that look at pages.

Needs Chromium: scripts/install-deps.sh test.
"""
import base64
import json
import os
import shutil
import subprocess
import sys
import time

PATIENCE_S = 60


class Browser:
    """Messages of JSON go both ways, each with a zero byte at its end."""

    def __init__(self, profile):
        program = shutil.which("chromium") or sys.exit("browser: chromium is missing: scripts/install-deps.sh test installs it")
        (to_read, self.to_write), (self.to_hear, to_say) = os.pipe(), os.pipe()
        shell = f'exec "$0" "$@" 3<&{to_read} 4>&{to_say}'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb",
                 "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(
            ["bash", "-c", shell, program, *flags], pass_fds=[to_read, to_say], stderr=subprocess.DEVNULL
        )
        os.close(to_read), os.close(to_say)
        self.number, self.rest, self.complaints = 0, b"", []

    def call(self, method, session=None, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        os.write(self.to_write, json.dumps(request).encode() + b"\0")
        while True:
            message = self.hear()
            if message.get("id") == self.number:
                if "error" in message:
                    sys.exit(f"browser: {method}: {message['error']}")
                return message["result"]

    def hear(self):
        while b"\0" not in self.rest:
            heard = os.read(self.to_hear, 1 << 16)
            if not heard:
                sys.exit("browser: Chromium has ended")
            self.rest += heard
        message, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(message)
        self.note(message.get("method"), message.get("params"))
        return message

    def note(self, method, told):
        """Keeps what the page complains about."""
        if method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(one.get("value", one.get("description"))) for one in told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    def open(self, url, script=None):
        return Page(self, url, script)

    def end(self):
        self.process.kill()
        self.process.wait()


class Page:
    """One tab. A script runs before those of the page."""

    def __init__(self, browser, url, script):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        if script:
            self.call("Page.addScriptToEvaluateOnNewDocument", source=script)
        self.size(1280, 800)
        self.call("Page.navigate", url=url)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def colours(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def tell(self, expression):
        """The value of an expression; a promise is waited for."""
        told = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            details = told["exceptionDetails"]
            sys.exit(f"browser: {expression[:120]}: {details.get('exception', {}).get('description', details['text'])}")
        return told["result"].get("value")

    def wait(self, expression, what):
        """Waits until an expression is true."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if self.tell(f"!!({expression})"):
                return
            time.sleep(0.1)
        text = self.tell("document.querySelector('main').innerText.slice(0, 2000)")
        sys.exit(f"browser: {what} never came; complaints: {self.browser.complaints}; the page says:\n{text}")

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
