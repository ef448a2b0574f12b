"""Drives Chromium over a pipe, by its own protocol: no package beside Debian's python3.

Reads commands as lines of JSON, [method, argument, ...], and answers each with a line of JSON.
"""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Longer than anything takes on a busy machine; who waits for so long has failed.
PATIENCE = 40


class Browser:
    """One Chromium with one page."""

    def __init__(self, folder):
        to_browser, self.to = os.pipe()
        self.back, from_browser = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update",
                   "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe",
                   f"--user-data-dir={folder}"]

        def move():
            # Chromium reads commands from descriptor 3 and answers on 4.
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        self.process = subprocess.Popen(
            ["chromium", *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=move, pass_fds=(3, 4), start_new_session=True,
            env={**os.environ, "TMPDIR": folder})
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session, self.console = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.attach(attached["sessionId"])

    def end(self):
        """Ends it with all of its processes, which would write into its folder later on."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for _ in range(1000):
            try:
                os.killpg(self.process.pid, 0)
            except ProcessLookupError:
                break
            time.sleep(0.01)

    def attach(self, session):
        """Drives the page of this session from now on."""
        self.session = session
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")

    def message(self):
        """The next message of the browser."""
        while b"\0" not in self.buffer:
            piece = os.read(self.back, 1 << 20)
            if not piece:
                raise EOFError("Chromium has ended (package chromium)")
            self.buffer += piece
        whole, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(whole)

    def call(self, method, **params):
        """The result of a command of the protocol."""
        self.number += 1
        asked = {"id": self.number, "method": method, "params": params}
        if self.session:
            asked["sessionId"] = self.session
        os.write(self.to, json.dumps(asked).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.console.append(json.dumps(message["params"]))
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    # What a test may ask for.

    def open(self, url):
        """Loads a page."""
        return self.call("Page.navigate", url=url).get("errorText")

    def follow(self, begin):
        """Goes on in the page that a link has opened, whose address begins so."""
        end = time.monotonic() + PATIENCE
        # Of the browser, not of the page.
        self.session = None
        while time.monotonic() < end:
            for target in self.call("Target.getTargets")["targetInfos"]:
                if target["type"] == "page" and target["url"].startswith(begin):
                    attached = self.call("Target.attachToTarget", targetId=target["targetId"],
                                         flatten=True)
                    self.attach(attached["sessionId"])
                    return
            time.sleep(0.1)
        raise TimeoutError(f"no page {begin}")

    def value(self, script):
        """What a script evaluates to."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True,
                          returnByValue=True, userGesture=True)
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"]))
        return found["result"].get("value")

    def until(self, script):
        """The value of a script, once it is true."""
        end, reason = time.monotonic() + PATIENCE, ""
        while time.monotonic() < end:
            try:
                value = self.value(script)
                if value:
                    return value
            except RuntimeError as error:
                # The page may not be there yet.
                reason = str(error)
            time.sleep(0.1)
        raise TimeoutError(f"{script}\n{reason}\n{self.value('document.body.innerText')}")

    def key(self, name):
        """Presses a key: Tab, Enter, Space, or types a text."""
        codes = {"Tab": (9, ""), "Enter": (13, "\r"), "Space": (32, " ")}
        if name not in codes:
            return self.call("Input.insertText", text=name)
        code, text = codes[name]
        key = " " if name == "Space" else name
        for kind in ["keyDown", "keyUp"]:
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=name, text=text,
                      windowsVirtualKeyCode=code)
        return None

    def screen(self, width, scheme):
        """Has the page as wide as a device, in a light or a dark scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        """Writes a picture of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def said(self):
        """What the browser has complained about since the last time."""
        said, self.console = self.console, []
        return said


def main():
    """Answers commands until there are no more."""
    made = tempfile.TemporaryDirectory(prefix="tokamak-browser-", ignore_cleanup_errors=True)
    with made as folder:
        browser = Browser(folder)
        try:
            for line in sys.stdin:
                method, *arguments = json.loads(line)
                try:
                    answer = {"value": getattr(browser, method)(*arguments)}
                except (RuntimeError, TimeoutError, EOFError) as error:
                    answer = {"error": str(error)}
                print(json.dumps(answer), flush=True)
        finally:
            browser.end()
            # A browser process that is ending may write a file while its folder is removed.
            for _ in range(100):
                shutil.rmtree(folder, ignore_errors=True)
                if not os.path.exists(folder):
                    break
                time.sleep(0.05)


main()
