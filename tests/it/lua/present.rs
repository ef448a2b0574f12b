//! `lighty.server.irequests()`: who is being served, whichever event loop does it.

use std::fs;
use std::time::Duration;

use crate::harness::{Kind, Setup, eventually, get};

const STATUS: &str = "local t = {}
    for r in lighty.server.irequests() do
        local item = r.req_item
        t[#t + 1] = table.concat({ r.req_attr['request.method'], r.req_attr['request.uri'],
            tostring(r.req_header['X-Who']), item.http_status, tostring(item.start_time() > 1e9) \
            }, ' ')
    end
    table.sort(t)
    lighty.r.resp_body.set(table.concat(t, '\\n'))
    return 200";

#[test]
fn requests_of_all_event_loops_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("status.lua");
    fs::write(&script, STATUS).unwrap();
    let route =
        format!("route = [{{ path = \"/status\", lua_raw_url = [\"{}\"] }}]", script.display());
    let server = Setup::new(Kind::Classic).workers(4).site_line(&route).start();
    let alone = "GET /status nil 0 true";
    // From now on requests are noted.
    assert_eq!(server.get("/status").expect(200).text(), alone);
    std::thread::scope(|scope| {
        for who in 1..=4 {
            let request = get("/sleep.php?ms=2000").header("X-Who", &who.to_string());
            let server = &server;
            scope.spawn(move || server.send(&request).expect(200));
        }
        let expected: Vec<String> = (1..=4)
            .map(|who| format!("GET /sleep.php?ms=2000 {who} 0 true"))
            .chain([alone.into()])
            .collect();
        let all_are_shown = || (server.get("/status").text() == expected.join("\n")).then_some(());
        eventually(Duration::from_secs(20), all_are_shown).expect("all of them are shown");
    });
    let gone = || (server.get("/status").text() == alone).then_some(());
    eventually(Duration::from_secs(20), gone).expect("they are gone");
}
