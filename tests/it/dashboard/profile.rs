//! The dashboard's button for a profile, in Chromium.

use serde_json::{Value, json};

use super::script::Script;
use super::start;
use crate::harness::{Connection, Kind, Server, Setup, get, under_load};

const TOKEN: &str = "0123456789abcdef";

/// A browser that shows the dashboard of a server, which asks for a token.
fn shown() -> (Server, Script) {
    let setup = Setup::new(Kind::Classic).workers(2);
    let (server, port) = start(setup, &format!("admin_token = \"{TOKEN}\""));
    let mut browser = Script::start("browser.py", &[]);
    browser.ask(json!(["screen", 1280, "light"]));
    browser.ask(json!(["open", format!("http://127.0.0.1:{port}/")]));
    browser.until("document.activeElement.id === 'token'");
    browser.ask(json!(["key", TOKEN]));
    browser.ask(json!(["key", "Enter"]));
    browser.until("!document.getElementById('main').hidden");
    // Without the token there was a refusal.
    browser.ask(json!(["said"]));
    (server, browser)
}

/// Presses the button, by keyboard.
fn press(browser: &mut Script) {
    browser.value("document.getElementById('profile').focus()");
    browser.ask(json!(["key", "Enter"]));
}

fn status_text(browser: &mut Script) -> String {
    browser.value("document.getElementById('profiled').textContent").as_str().unwrap().to_owned()
}

#[test]
fn a_button_takes_a_profile_and_its_flame_graph_opens() {
    let (server, mut browser) = shown();
    browser.value("document.getElementById('length').options[0].value = '2'");
    browser.value("document.getElementById('prefix').value = '/hot'");
    let ask =
        |connection: &mut Connection, _: &str| connection.exchange(&get("/hot.php")).expect(200);
    under_load(&server, ask, |_| {
        press(&mut browser);
        browser.until("document.getElementById('profiling').value > 0.2");
        let progress = browser.value(
            "(() => { const bar = document.getElementById('profiling');
                return [bar.hidden, bar.max, bar.ariaLabel]; })()",
        );
        assert_eq!(progress, json!([false, 2, "Profile"]));
        assert_eq!(
            status_text(&mut browser),
            "A profile of all sites, of paths that begin with /hot is being taken, for 2 s."
        );
        browser.until("!document.getElementById('result').hidden");
    });
    let end = status_text(&mut browser);
    assert!(end.contains(" samples in ") && end.starts_with("The profile of all sites"), "{end}");
    assert_eq!(browser.value("document.getElementById('profiling').hidden"), true);
    assert_eq!(browser.value("document.getElementById('profile').textContent"), "Take a profile");
    assert_eq!(browser.ask(json!(["said"])), json!([]), "no complaint, none of its policy either");

    browser.value("document.getElementById('graph').click()");
    browser.ask(json!(["follow", "blob:"]));
    // Its own script has run, and its own style holds, under the policies of both pages.
    let frame = browser.until(
        "(() => {
            const all = [...document.querySelectorAll('#tree.drawn b')];
            const hot = all.find(b => b.ariaLabel?.startsWith('spend_most: '));
            return hot && [getComputedStyle(hot).position,
                Number(hot.style.getPropertyValue('--d')), hot.offsetTop > 0]; })()",
    );
    assert_eq!(frame, json!(["absolute", 2, true]));
    assert_eq!(browser.value("window.opener === null && !sessionStorage.length"), true);
    // It can ask the listener for nothing, not even itself.
    let asks = |what: &str| format!("{what}.then(() => 'answered', () => 'refused')");
    assert_eq!(browser.value(&asks("fetch(location.origin + '/live')")), "refused");
    assert_eq!(browser.value(&asks("fetch(location.href)")), "refused");
}

#[test]
fn a_profile_is_ended_by_the_same_button() {
    let (_server, mut browser) = shown();
    press(&mut browser);
    browser.until("document.getElementById('profile').textContent === 'End it'");
    press(&mut browser);
    browser.until("document.getElementById('profiled').textContent === 'The profile was ended.'");
    // There is room for the next one.
    browser.value("document.getElementById('length').options[0].value = '1'");
    let again = "(() => {
        const [button, told] = ['profile', 'profiled'].map(id => document.getElementById(id));
        if (button.textContent === 'Take a profile' && !told.textContent.startsWith('The profile of'))
            button.click();
        return told.textContent.startsWith('The profile of'); })()";
    assert_eq!(browser.until(again), Value::Bool(true));
}

#[test]
fn the_dashboard_shows_why_there_is_no_profile() {
    let (_server, mut browser) = shown();
    browser.value("document.getElementById('prefix').value = 'shop'");
    press(&mut browser);
    browser.until("document.getElementById('profiled').textContent.startsWith('No profile: ')");
    assert!(status_text(&mut browser).contains("`url` is the beginning of a path"));
}
