//! The page of the dashboard in Chromium.

use std::time::Duration;

use serde_json::{Value, json};

use super::script::Script;
use super::{ask, document_of, start, sum};
use crate::harness::{Kind, Server, Setup, eventually, free_address};
use crate::operate::command;
use crate::tls::secured;

/// A page that answers with an error by itself.
const WRONG: &str = "<?php http_response_code(500); echo 'wrong';";
const TOKEN: &str = "0123456789abcdef";

/// The cells of a table: those of its head, then those of each row.
fn cells(browser: &mut Script, id: &str) -> Vec<Vec<String>> {
    let rows = browser.value(&format!(
        "[...document.querySelectorAll('#{id} tr')].map(r => [...r.cells].map(c => c.textContent))"
    ));
    serde_json::from_value(rows).expect("rows of texts")
}

/// A page that shows all of a server's `requests`, counted since its start.
fn shows(browser: &mut Script, requests: u32) {
    browser.until("!document.getElementById('main').hidden");
    let since_the_start = "const w = document.getElementById('window'); w.value = '0';
        w.dispatchEvent(new Event('change'))";
    browser.value(since_the_start);
    browser.until(&format!(
        "[...document.querySelectorAll('#phases tbody tr')].some(row =>
            row.cells[0].innerText === 'send' && row.cells[4].innerText === '{requests}')"
    ));
}

fn served() -> (Server, u16) {
    let (server, port) = start(Setup::new(Kind::Classic), "");
    let script = "<?php usleep(30000); echo 'done';";
    std::fs::write(server.places.root().join("wait.php"), script).unwrap();
    std::fs::write(server.places.root().join("wrong.php"), WRONG).unwrap();
    for target in ["/hello.php", "/hello.php", "/wait.php?q=1", "/missing.txt", "/wrong.php?q=1"] {
        server.get(target);
    }
    // A name that would be markup, and characters that would not be shown.
    server.get("/wait.php/&amp;\"'\u{9b}2J").expect(200);
    (server, port)
}

#[test]
fn the_page_shows_the_figures_of_the_document() {
    let (_server, port) = served();
    let document = document_of(port, 6.0);
    let mut browser = Script::start("browser.py", &[]);
    browser.ask(json!(["screen", 1280, "light"]));
    browser.ask(json!(["open", format!("http://127.0.0.1:{port}/")]));
    shows(&mut browser, 6);
    let phases = cells(&mut browser, "phases");
    for family in document["metrics"]["tokamak_request_phase_seconds"].as_array().unwrap() {
        let name = family["labels"]["phase"].as_str().unwrap();
        let row = phases.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name}"));
        let count = sum(&document, "tokamak_request_phase_seconds", &[("phase", name)]);
        assert_eq!(row[4], count.to_string(), "{name}");
        let mean = family["sum"].as_f64().unwrap() / count;
        let (number, unit) = row[2].split_once(' ').unwrap();
        let unit = match unit {
            "µs" => 1e-6,
            "ms" => 1e-3,
            _ => 1.0,
        };
        let shown = number.replace(',', "").parse::<f64>().unwrap() * unit;
        // Three digits; of less than a microsecond two behind the point.
        let allowed = 0.006 * mean + 0.006e-6;
        assert!((shown - mean).abs() <= allowed, "{name}: {shown} {mean}");
    }
    let failures = cells(&mut browser, "failures");
    assert!(failures.contains(&vec!["NotFound".into(), "client".into(), "1".into()]));
    // The application has answered with an error, and its failure is none of the server's.
    let errors = cells(&mut browser, "errors");
    let [path, status] = [0, 3].map(|nth| errors[1][nth].clone());
    assert_eq!((errors.len(), &path[..], &status[..]), (2, "/wrong.php", "500"), "{errors:?}");
    // Each phase has a colour, each chart its times: the clock at both ends and in the middle.
    let colours = browser.value(
        "[...document.querySelectorAll('#phases .swatch')].filter(one =>
            getComputedStyle(one).backgroundColor === 'rgba(0, 0, 0, 0)').length",
    );
    assert_eq!(colours, 0);
    for chart in ["rate", "times", "stack"] {
        let clock = format!(
            "[...document.querySelectorAll('#{chart}-times span')].filter(one =>
                /\\d:\\d\\d/.test(one.textContent)).length"
        );
        assert_eq!(browser.value(&clock), 3, "{chart}");
    }
    let slowest = cells(&mut browser, "slowest");
    let urls = document["slowest"]["urls"].as_array().unwrap();
    assert_eq!(slowest.len(), 1 + urls.len());
    for (row, url) in slowest[1..].iter().zip(urls) {
        assert_eq!((&row[0][..], &row[5][..]), (url["path"].as_str().unwrap(), "localhost"));
    }
    assert!(slowest.iter().any(|row| row[0].contains("/&amp;\"'")), "{slowest:?}");
    assert_eq!(browser.value("document.querySelectorAll('main img, #slowest td b').length"), 0);
    assert_eq!(browser.ask(json!(["said"])), json!([]), "no complaint, none of its policy either");
}

#[test]
fn calls_are_shown_if_a_site_counts_them_and_log_lines_if_they_are_lost() {
    let (_server, port) = served();
    let mut browser = Script::start("browser.py", &[]);
    browser.ask(json!(["open", format!("http://127.0.0.1:{port}/")]));
    shows(&mut browser, 6);
    assert_eq!(browser.value("document.getElementById('s-calls').hidden"), true);
    assert_eq!(browser.value("document.getElementById('note').hidden"), true);
    assert_eq!(browser.value("document.getElementById('s-certificates').hidden"), true);
    let setup = Setup::new(Kind::Classic).site_line("count_calls = true");
    let (server, port) = start(setup.site_line("access_log = \"/dev/full\""), "");
    let page = "<?php $base = new PDO('sqlite::memory:'); $base->exec('CREATE TABLE a (b INT)');
        for ($n = 0; $n < 6; $n++) $base->query('SELECT * FROM a')->fetchAll();";
    std::fs::write(server.places.root().join("calls.php"), page).unwrap();
    for target in ["/calls.php", "/calls.php", "/hello.php"] {
        server.get(target).expect(200);
    }
    std::fs::write(server.places.root().join("wrong.php"), WRONG).unwrap();
    server.get("/wrong.php").expect(500);
    document_of(port, 4.0);
    browser.ask(json!(["open", format!("http://127.0.0.1:{port}/")]));
    shows(&mut browser, 4);
    browser.until(
        "!document.getElementById('note').hidden && document.getElementById('note').innerText ===
            'Log lines were lost, since a disk or a reader was too slow: 4 (access logs).'",
    );
    let calls = cells(&mut browser, "calls");
    assert_eq!(calls[1][..4], ["sql", "14", "2", "7"], "{calls:?}");
    assert!(calls[1][4].starts_with(|c: char| c.is_ascii_digit()), "{calls:?}");
    assert_eq!(calls[2], ["http", "0", "0", "–", "–", "–"]);
    // Since the page is open: the tile of 5xx is red, and the server has no failure. That is said.
    let since_then = "const now = document.getElementById('window'); now.value = '60';
        now.dispatchEvent(new Event('change'))";
    browser.value(since_then);
    server.get("/wrong.php").expect(500);
    browser.until(
        "document.querySelector('#tiles .bad')?.innerText.includes('5xx') && document
            .querySelector('#failures tbody').innerText.includes('the application answered with')",
    );
    assert_eq!(cells(&mut browser, "errors")[1][0], "/wrong.php");
}

#[test]
fn certificates_are_shown_with_their_ends() {
    let port = free_address().port();
    let admin = format!("admin = \"127.0.0.1:{port}\"");
    let _secured = secured(Kind::Classic, &[&admin], &[]);
    document_of(port, 0.0);
    let mut browser = Script::start("browser.py", &[]);
    browser.ask(json!(["open", format!("http://127.0.0.1:{port}/")]));
    browser.until("document.querySelectorAll('#certificates td').length");
    let shown = cells(&mut browser, "certificates");
    assert_eq!((shown.len(), &shown[1][0][..]), (2, "localhost"), "{shown:?}");
    let end = browser.value(
        "JSON.stringify(Math.round((new Date(document.querySelectorAll('#certificates td')[0]
            .textContent) - Date.now()) / 86400e3))",
    );
    let days = |text: &str| text.replace(',', "").parse::<f64>().expect("days");
    assert!((days(end.as_str().unwrap()) - days(&shown[1][2])).abs() <= 1.0, "{shown:?} {end}");
}

/// On the page, and in a terminal.
#[test]
fn a_sealed_site_has_the_mean_of_its_roll_backs() {
    let (server, port) = start(Setup::new(Kind::Sealed), "");
    (0..3).for_each(|_| drop(server.get("/hello.php").expect(200)));
    let mut browser = Script::start("browser.py", &[]);
    browser.ask(json!(["screen", 1280, "light"]));
    browser.ask(json!(["open", format!("http://127.0.0.1:{port}/")]));
    // Workers roll back when they begin, too, and after a request when its response is out already.
    let (row, pages) = eventually(Duration::from_secs(20), || {
        let row = cells(&mut browser, "sealed").into_iter().nth(1)?;
        let document = document_of(port, 3.0);
        let count = sum(&document, "tokamak_roll_back_pages", &[]);
        let pages = document["metrics"]["tokamak_roll_back_pages"][0]["sum"].as_f64()?;
        (count >= 3.0 && row[1] == count.to_string()).then(|| (row, pages / count))
    })
    .expect("all roll-backs");
    let is_mean = |cell: &str| (cell.parse::<f64>().unwrap() - pages).abs() <= pages / 100.0;
    assert!(pages >= 1.0 && is_mean(&row[3]), "{pages} {row:?}");
    assert!(row[2..6].iter().all(|cell| cell.starts_with(|c: char| c.is_ascii_digit())), "{row:?}");
    let shown = command(&server, &["top", "--once"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let (_, shown) = shown.split_once("HOT PAGES").expect("a column");
    let site = shown.lines().find(|line| line.contains(" sealed ")).expect("a site");
    assert!(site.split_whitespace().nth(7).is_some_and(is_mean), "{pages} {site}");
}

#[test]
fn the_page_is_for_keyboards_readers_and_phones() {
    let (_server, port) = served();
    document_of(port, 6.0);
    let mut browser = Script::start("browser.py", &[]);
    browser.ask(json!(["screen", 360, "dark"]));
    browser.ask(json!(["open", format!("http://127.0.0.1:{port}/")]));
    shows(&mut browser, 6);
    assert_eq!(browser.value("document.documentElement.scrollWidth"), 360);
    // All of a slow URL is seen without scrolling aside: its figures stand below it.
    for table in ["slowest", "errors"] {
        let is_whole = format!(
            "(() => {{
                const place = document.getElementById('{table}');
                const [url, time] = place.querySelectorAll('tbody th, tbody td');
                return place.scrollWidth <= place.clientWidth && url.offsetHeight < 60
                    && time.offsetTop >= url.offsetTop + url.offsetHeight;
            }})()"
        );
        assert_eq!(browser.value(&is_whole), true, "{table}");
    }
    assert_eq!(browser.value("document.documentElement.lang"), "en");
    let order: Vec<Value> = (0..4)
        .map(|_| {
            browser.ask(json!(["key", "Tab"]));
            browser.value("document.activeElement.id")
        })
        .collect();
    assert_eq!(order, ["site", "window", "pause", "phases"]);
    // Each control and picture has a name, each table a caption and heads, each id is one.
    let faults = browser.value(
        "(() => {
            const all = what => [...document.querySelectorAll(what)];
            const name = e => e.ariaLabel || e.labels?.length || e.innerText?.trim()
                || e.getAttribute('aria-labelledby');
            return [
                ...all('select, button, input, meter, [role=img], [role=region], section')
                    .filter(e => e.offsetParent !== null && !name(e)),
                ...all('table').filter(t => !t.caption.textContent
                    || !t.querySelector('th[scope=col]')
                    || t.querySelector('tbody tr > :first-child:not(th[scope=row])')),
                ...all('[id]').filter(e => all('#' + e.id).length > 1),
                ...all('[aria-labelledby]').filter(e =>
                    !document.getElementById(e.getAttribute('aria-labelledby'))),
            ].map(e => e.outerHTML.slice(0, 200));
        })()",
    );
    assert_eq!(faults, json!([]));
    // Text is told from its ground by at least 4.5 to 1, in both schemes.
    for scheme in ["light", "dark"] {
        browser.ask(json!(["screen", 1280, scheme]));
        let weak = browser.value(
            "(() => {
                const parts = c => c.match(/[\\d.]+/g).map(Number);
                const light = c => parts(c).slice(0, 3).map(v => v / 255)
                    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
                    .reduce((all, v, nth) => all + v * [0.2126, 0.7152, 0.0722][nth], 0);
                const ground = e => { for (; e; e = e.parentElement) {
                    const c = getComputedStyle(e).backgroundColor, p = parts(c);
                    if (p.length < 4 || p[3] > 0) return c; } return 'rgb(255,255,255)'; };
                return [...document.querySelectorAll('body *')].filter(e => e.offsetParent &&
                    [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => {
                    const [a, b] = [getComputedStyle(e).color, ground(e)].map(light);
                    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML];
                }).filter(([ratio]) => ratio < 4.5).map(found => found.join(' ').slice(0, 200));
            })()",
        );
        assert_eq!(weak, json!([]), "{scheme}");
    }
}

#[test]
fn a_token_is_asked_for_and_kept_out_of_the_address() {
    let (server, port) = start(Setup::new(Kind::Classic), &format!("admin_token = \"{TOKEN}\""));
    server.get("/hello.php").expect(200);
    let (head, page) = ask(port, "/", "");
    assert!(head.starts_with("HTTP/1.1 200") && !page.contains("localhost"), "{head}");
    assert!(ask(port, "/dashboard.json", "").0.starts_with("HTTP/1.1 401"));
    let mut browser = Script::start("browser.py", &[]);
    browser.ask(json!(["open", format!("http://127.0.0.1:{port}/")]));
    browser.until("document.activeElement.id === 'token'");
    for (typed, shown) in [("wrong", "#wrong:not(:empty)"), (TOKEN, "main:not([hidden])")] {
        browser.ask(json!(["key", typed]));
        browser.ask(json!(["key", "Enter"]));
        browser.until(&format!("!!document.querySelector('{shown}')"));
    }
    assert_eq!(browser.value("location.href"), format!("http://127.0.0.1:{port}/"));
    assert_eq!(browser.value("document.cookie + localStorage.length"), "0");
    // Forgotten and typed anew while an answer is under way.
    let hold = "{ const real = fetch, open = new Promise(go => { window.go = go; });
        window.fetch = async (...all) => { window.held = true; await open; return real(...all); } }";
    browser.value(hold);
    browser.until("window.held");
    browser.value("document.getElementById('forget').click()");
    browser.until("document.getElementById('main').hidden && !sessionStorage.length");
    browser.ask(json!(["key", TOKEN]));
    browser.ask(json!(["key", "Enter"]));
    browser.until("document.getElementById('login').hidden");
    browser.value("window.go()");
    browser.until("!document.getElementById('main').hidden");
}

#[test]
fn the_page_says_since_when_the_server_is_gone() {
    let (server, port) = start(Setup::new(Kind::Classic), "");
    let mut browser = Script::start("browser.py", &[]);
    browser.ask(json!(["open", format!("http://127.0.0.1:{port}/")]));
    browser.until("document.getElementById('state').innerText.startsWith('Live')");
    drop(server);
    let said = browser.until("document.querySelector('#state.lost')?.innerText");
    let said = said.as_str().unwrap();
    assert!(said.starts_with("Not reachable since ") && said.ends_with("old"), "{said}");
}

/// Pages of others get nothing of it, and cannot make a browser ask.
#[test]
fn pages_of_other_sites_are_refused() {
    let (_server, port) = start(Setup::new(Kind::Classic), "");
    for (path, fields, status) in [
        ("/", "Sec-Fetch-Site: cross-site\r\n", 200),
        ("/dashboard.json", "Sec-Fetch-Site: same-origin\r\n", 200),
        ("/dashboard.json", "Sec-Fetch-Site: none\r\n", 200),
        ("/dashboard.json", "Sec-Fetch-Site: same-site\r\n", 403),
        ("/metrics", "Sec-Fetch-Site: cross-site\r\n", 403),
        ("/live", "Sec-Fetch-Site: cross-site\r\n", 200),
        ("/", "Host: evil.example\r\n", 403),
    ] {
        let (head, _) = ask(port, path, fields);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{path} {fields} {head}");
        assert!(!head.contains("access-control-"), "{head}");
    }
    let (head, _) = ask(port, "/", "");
    assert!(head.contains("frame-ancestors 'none'"), "{head}");
}
