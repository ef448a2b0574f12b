//! A page in a real browser, headless, that a test works with: it clicks, types and asks what is
//! there, by the protocol of Chromium's developer tools over a pipe.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::home::Home;

/// An open page. Chromium ends with it, and then the home that it has for itself.
pub struct Page {
    chromium: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    count: u64,
    events: Vec<Value>,
    _home: Option<Home>,
}

/// The protocol uses descriptors 3 and 4.
const START: &str = "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";

impl Page {
    /// Opens `url` and waits until it is loaded.
    pub fn open(url: &str) -> Page {
        let home = Home::new();
        let mut page = Page::open_by(&home, url).unwrap_or_else(|why| panic!("{url}: {why}"));
        page._home = Some(home);
        page
    }

    /// Opens the page in a browser that has this home directory. If the browser cannot load it, its
    /// reason is returned, such as `net::ERR_CERT_AUTHORITY_INVALID`.
    pub fn open_by(home: &Home, url: &str) -> Result<Page, String> {
        let mut page = Page::start(home, &["--disable-quic"]);
        page.go(url).map(|()| page)
    }

    /// As [`Page::open_by`], over QUIC from the first connection on. Over QUIC Chromium believes no
    /// authority that its user has added, so it is told to believe the key of this certificate.
    pub fn open_over_quic(
        home: &Home,
        certificate: &Path,
        authority: &str,
        path: &str,
    ) -> Result<Page, String> {
        const HASH: &str = "openssl x509 -in \"$0\" -noout -pubkey \
            | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64";
        let hash = Command::new("sh").args(["-ec", HASH]).arg(certificate).output();
        let hash = String::from_utf8(hash.expect("openssl runs").stdout).expect("text");
        let key = format!("--ignore-certificate-errors-spki-list={}", hash.trim());
        let quic = format!("--origin-to-force-quic-on={authority}");
        // It knows `localhost` as ::1, too, and does not try another address over QUIC.
        let resolve = "--host-resolver-rules=MAP localhost 127.0.0.1";
        let mut page = Page::start(home, &["--enable-quic", &quic, &key, resolve]);
        page.go(&format!("https://{authority}{path}")).map(|()| page)
    }

    /// A browser with an empty page. `timeout` ends a browser that hangs, and then its answers end,
    /// too.
    fn start(home: &Home, arguments: &[&str]) -> Page {
        let mut chromium = Command::new("timeout")
            .args(["--kill-after=5", "120", "sh", "-c", START, "sh"])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update"])
            .args(["--disable-sync", "--remote-debugging-pipe"])
            .args(arguments)
            .arg(format!("--user-data-dir={}", home.profile().display()))
            .env("HOME", home.path())
            .env("TMPDIR", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("timeout runs (package coreutils)");
        let (orders, answers) = (chromium.stdin.take(), chromium.stdout.take().unwrap());
        let answers = BufReader::new(answers);
        let (session, events) = (None, Vec::new());
        let mut page = Page { chromium, orders, answers, session, count: 0, events, _home: None };
        let target = page.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = page.call("Target.attachToTarget", attach);
        page.session = attached["sessionId"].as_str().map(str::to_owned);
        for part in ["Page", "Runtime", "Network", "Log"] {
            page.call(&format!("{part}.enable"), json!({}));
        }
        page
    }

    fn go(&mut self, url: &str) -> Result<(), String> {
        let answer = self.call("Page.navigate", json!({"url": url}));
        if let Some(why) = answer["errorText"].as_str() {
            return Err(why.to_owned());
        }
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive();
            self.events.push(event);
        }
        Ok(())
    }

    /// One order of the protocol, and its result.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.count += 1;
        let mut order = json!({"id": self.count, "method": method, "params": params});
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        let orders = self.orders.as_mut().expect("an open page");
        write!(orders, "{order}\0").expect("Chromium (package chromium) runs");
        loop {
            let mut message = self.receive();
            if message["id"] == self.count {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    fn receive(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.answers.read_until(0, &mut bytes).expect("an answer");
        assert_eq!(bytes.pop(), Some(0), "Chromium (package chromium) has ended");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer:#}");
        answer["result"]["value"].take()
    }

    /// Clicks in the middle of what a selector finds first, scrolled into view.
    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        let found = self.value(&format!(
            "(() => {{ const found = document.querySelector({selector:?}); \
             found.scrollIntoView({{block: 'center'}}); \
             const box = found.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let mouse = json!({"type": kind, "x": found[0], "y": found[1], "button": "left",
                "clickCount": 1});
            self.call("Input.dispatchMouseEvent", mouse);
        }
    }

    /// Presses a key, by its name in the DOM.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            "Tab" => 9,
            _ => 0,
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if key == "Enter" && kind == "keyDown" { "\r" } else { "" };
            let key = json!({"type": kind, "key": key, "code": key, "text": text,
                "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", key);
        }
    }

    /// Types a text into what has the focus.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// What has gone wrong so far: exceptions, and what the page's own rules have forbidden.
    pub fn faults(&mut self) -> Vec<Value> {
        // Events of what has happened arrive before the answer.
        self.value("0");
        let is_fault = |event: &&Value| {
            event["method"] == "Runtime.exceptionThrown" || event["method"] == "Log.entryAdded"
        };
        self.events.iter().filter(is_fault).cloned().collect()
    }

    /// The URLs that were asked for.
    pub fn requests(&mut self) -> Vec<String> {
        self.value("0");
        let asked = self.events.iter().filter(|e| e["method"] == "Network.requestWillBeSent");
        let urls = asked.filter_map(|event| event["params"]["request"]["url"].as_str());
        urls.map(str::to_owned).collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Chromium ends when nobody can give it orders any more.
        self.orders = None;
        let _ = self.chromium.wait();
    }
}
