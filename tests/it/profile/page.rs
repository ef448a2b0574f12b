//! The page with the flame graph, in a browser.

use serde_json::{Value, json};

use super::*;
use crate::services::devtools::Page;

/// A script whose name does harm in a page that does not escape it.
const HOSTILE: &str = "\"><img src=x onerror=alert(1)>&amp;.php";
const ADDRESS: &str = "/%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E&amp;.php";

/// The page of a profile in which a function takes most of the time, and another one waits.
fn profiled(by: &str) -> (tempfile::TempDir, Page) {
    let server = started(Kind::Classic);
    let script = "<?php
        function spin() { $end = hrtime(true) + 8e6; while (hrtime(true) < $end); }
        function doze() { usleep(4000); }
        spin(); doze();";
    std::fs::write(server.places.root().join(HOSTILE), script).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let words = ["--for", "2s", "--rate", "299", "--by", by, "--html", file.to_str().unwrap()];
    profile_of(&server, ADDRESS, &words);
    let page = Page::open(&format!("file://{}", file.display()));
    (folder, page)
}

/// In the page: the frame of this name, and what part of the picture's width it has.
const HELP: &str = "
    frame = (name) => [...document.querySelectorAll('#tree b')].find(b => b.textContent === name);
    part = (name) => frame(name).offsetWidth / document.getElementById('tree').clientWidth;
    told = () => document.getElementById('said').textContent;
    samples = (name) => Number(frame(name).dataset.w);
    chosen = () => document.activeElement.textContent;
    void 0";

#[track_caller]
fn check(page: &mut Page, expression: &str) {
    let found = page.value(expression);
    assert_eq!(found, true, "{expression}: {}", page.value("document.body.innerText"));
}

#[test]
fn a_flame_graph_is_clicked_searched_and_typed_at() {
    let (_folder, mut page) = profiled("url");
    page.value(HELP);
    check(&mut page, "Math.abs(part('spin') - samples('spin') / samples('all')) < 0.01");

    page.value("frame('spin').id = 'spin'");
    page.click("#spin");
    check(&mut page, "part('spin') > 0.99 && part('all') > 0.99 && frame('doze').hidden");
    check(&mut page, "told().startsWith('The picture shows spin and its calls: ')");
    page.press("Escape");
    check(&mut page, "part('spin') < 0.9 && !frame('doze').hidden");

    page.press("/");
    page.write("DOZE");
    check(&mut page, "document.querySelectorAll('#tree .hit').length === 1");
    check(&mut page, "frame('doze').matches('.hit')");
    check(&mut page, "told().startsWith('1 place found, in ') && !told().includes(' 0.0 %')");
    page.press("Enter");
    check(&mut page, "chosen() === 'doze'");

    // The first child of each, and back.
    page.press("Home");
    check(&mut page, "chosen() === 'all'");
    page.press("ArrowDown");
    check(&mut page, "chosen().startsWith('/%22')");
    page.press("ArrowDown");
    page.press("ArrowDown");
    check(&mut page, "chosen() === 'spin'");
    page.press("ArrowRight");
    check(&mut page, "chosen() === 'doze'");
    page.press("Enter");
    check(&mut page, "part('doze') > 0.99 && frame('spin').hidden");
    page.press("ArrowUp");
    page.press("Enter");
    check(&mut page, "!frame('spin').hidden");

    check(&mut page, "frame('doze').ariaLabel.includes('of the wall time')");
    page.value("globalThis.slept = part('usleep')");
    page.click("input[value=cpu]");
    check(&mut page, "frame('spin').ariaLabel.includes('of the CPU time')");
    // On a busy machine it waits for a processor when it wakes, which counts as CPU time.
    check(&mut page, "frame('usleep').hidden || part('usleep') < slept");
    assert_eq!(page.faults(), [Value::Null; 0]);
}

#[test]
fn a_table_is_sorted_by_its_heads_and_a_legend_has_the_colours() {
    let (_folder, mut page) = profiled("url");
    page.value(HELP);
    page.value(
        "column = (nth) => [...document.querySelectorAll('tbody tr')]
            .map(row => row.cells[nth].textContent);
        falls = (nth) => column(nth).every((cell, at, all) => !at || +cell <= +all[at - 1]);
        sorted = () => [...document.querySelectorAll('th[aria-sort]')]
            .map(th => th.textContent + ' ' + th.ariaSort).join();
        press = (nth) => document.querySelectorAll('th button')[nth].click();
        void 0",
    );
    check(&mut page, "sorted() === 'wall, own descending' && falls(0)");
    // The script has called all else, and computed nothing itself.
    page.value("press(1)");
    check(&mut page, "sorted() === 'wall, all descending' && falls(1)");
    check(&mut page, "column(4)[0].endsWith('.php')");
    page.value("press(2)");
    check(&mut page, "sorted() === 'CPU, own descending' && falls(2)");
    page.value("press(4)");
    check(&mut page, "sorted() === 'function ascending'");
    check(&mut page, "column(4).every((n, at, all) => !at || all[at - 1].localeCompare(n) <= 0)");

    page.value(
        "colour = (element) => getComputedStyle(element).backgroundColor;
        legend = (name) => colour(document.querySelector('.legend .' + name));
        void 0",
    );
    check(&mut page, "legend('group') === colour(frame('all'))");
    check(&mut page, "legend('own') === colour(frame('usleep'))");
    page.press("/");
    page.write("spin");
    check(&mut page, "legend('hit') === colour(frame('spin'))");
}

#[test]
fn a_page_asks_for_nothing_and_runs_no_name() {
    let (_folder, mut page) = profiled("url,worker,site");
    page.value(HELP);
    let names = page.value("[...document.querySelectorAll('#tree b')].map(b => b.textContent)");
    let is_script = |name: &Value| name.as_str().is_some_and(|name| name.ends_with(HOSTILE));
    assert!(names.as_array().unwrap().iter().any(is_script), "{names}");
    check(&mut page, "document.images.length === 0 && document.scripts.length === 1");
    let requests = page.requests();
    assert!(requests.len() == 1 && requests[0].starts_with("file://"), "{requests:?}");
    // What a name could do if it were a tag, the page forbids once more.
    page.value(
        "document.body.insertAdjacentHTML('beforeend', '<img src=/x onerror=\"hurt = true\">')",
    );
    let faults = page.faults();
    assert!(faults.iter().any(|fault| fault.to_string().contains("img-src")), "{faults:?}");
    check(&mut page, "typeof hurt === 'undefined'");
}

/// In the page: the least contrast of a frame's text, by the formula of WCAG 2.
const CONTRAST: &str = "
    (() => {
        const light = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map(Number)
            .map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
            .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
        const contrasts = [...document.querySelectorAll('#tree b:not([hidden])')].map((b) => {
            const style = getComputedStyle(b);
            const both = [light(style.color), light(style.backgroundColor)].sort((a, b) => a - b);
            return (both[1] + 0.05) / (both[0] + 0.05);
        });
        return Math.min(...contrasts);
    })()";

#[test]
fn a_flame_graph_is_read_by_eye_and_by_ear() {
    let (_folder, mut page) = profiled("url");
    page.value(HELP);
    let scheme =
        |scheme: &str| json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
    let mut backgrounds = Vec::new();
    for name in ["light", "dark"] {
        page.call("Emulation.setEmulatedMedia", scheme(name));
        backgrounds.push(page.value("getComputedStyle(document.body).backgroundColor"));
        for search in ["", "spin"] {
            page.value(&format!("document.forms[0].search.value = '{search}'; search()"));
            let contrast = page.value(CONTRAST).as_f64().unwrap();
            assert!(contrast >= 4.5, "{contrast} in {name}");
        }
    }
    assert_ne!(backgrounds[0], backgrounds[1]);

    let tree = page.call("Accessibility.getFullAXTree", json!({}));
    let nodes = tree["nodes"].as_array().unwrap();
    let called = |role: &str, begin: &str| {
        nodes.iter().any(|node| {
            let name = node["name"]["value"].as_str().unwrap_or_default();
            node["role"]["value"] == role && name.starts_with(begin)
        })
    };
    assert!(called("tree", "Calls, each below its caller"), "{tree:#}");
    assert!(called("treeitem", "spin: ") && called("searchbox", "Search:"), "{tree:#}");
    assert!(called("radio", "wall time") && called("button", "Whole picture"), "{tree:#}");

    let phone = json!({"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true});
    page.call("Emulation.setDeviceMetricsOverride", phone);
    check(&mut page, "document.documentElement.scrollWidth <= 360");
    check(&mut page, "part('all') > 0.99");

    let paper = json!({"media": "print", "features": []});
    page.call("Emulation.setEmulatedMedia", paper);
    check(&mut page, "getComputedStyle(document.forms[0]).display === 'none'");
    check(&mut page, "getComputedStyle(frame('spin')).printColorAdjust === 'exact'");
}
