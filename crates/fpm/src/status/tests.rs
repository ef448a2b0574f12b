use proptest::prelude::*;

use super::*;

fn snapshot() -> Snapshot {
    let busy = Process {
        pid: 12,
        state: RequestStage::Running,
        started: 1000,
        requests: 3,
        duration: Duration::from_micros(1500),
        method: b"GET".to_vec(),
        uri: b"/<script>a</script>".to_vec(),
        query: b"x=\"1\"&y='\xff".to_vec(),
        script: b"/srv/a&b.php".to_vec(),
        cpu: 12.5,
        memory: 4096,
        ..Process::default()
    };
    let idle = Process {
        pid: 13,
        state: RequestStage::Idle,
        cpu: 12.345,
        memory: 4096,
        ..Process::default()
    };
    Snapshot {
        pool: "www".into(),
        manager: "dynamic",
        started: 1_795_176_000,
        now: 1_795_176_060,
        accepted: 7,
        listen_queue_len: 511,
        idle: 1,
        active: 1,
        max_active: 2,
        processes: vec![busy, idle],
        ..Snapshot::default()
    }
}

fn page(query: &str) -> String {
    String::from_utf8(snapshot().page(StatusQuery::of(query.as_bytes())).body).expect("text")
}

#[test]
fn what_is_asked_for() {
    let table = [
        ("", Format::Text, false),
        ("full", Format::Text, true),
        ("full&html", Format::Html, true),
        ("json=1", Format::Json, false),
        ("xml&full=", Format::Xml, true),
        ("openmetrics", Format::OpenMetrics, false),
        ("fuller&htm", Format::Text, false),
        ("json&html", Format::Html, false),
    ];
    for (query, format, full) in table {
        assert_eq!(StatusQuery::of(query.as_bytes()), StatusQuery { format, full }, "{query}");
    }
}

#[test]
fn text() {
    let page = page("full");
    let lines: Vec<&str> = page.lines().collect();
    assert_eq!(lines[0], "pool:                 www");
    assert_eq!(lines[1], "process manager:      dynamic");
    assert!(lines[2].starts_with("start time:           ") && lines[2].contains("/Nov/2026:"));
    assert_eq!(lines[3], "start since:          60");
    assert_eq!(lines[10], "total processes:      2");
    assert_eq!(lines[11], "max active processes: 2");
    assert_eq!(lines[14..16], ["", "************************"]);
    assert_eq!(lines[16], "pid:                  12");
    assert_eq!(lines[23], "request URI:          /<script>a</script>?x=\"1\"&y='\u{fffd}");
    assert_eq!(lines[25], "user:                 -");
    assert_eq!(lines[27], "last request cpu:     0.00", "that of a worker at work is not known");
    assert!(page.ends_with("last request cpu:     12.35\nlast request memory:  4096\n"), "{page}");
    assert!(page.contains("request URI:          -\n"));
}

#[test]
fn a_line_cannot_be_forged() {
    let mut forged = snapshot();
    forged.processes[0].uri = b"/a\npool: evil".to_vec();
    let body = forged.page(StatusQuery::of(b"full")).body;
    assert!(!String::from_utf8_lossy(&body).lines().any(|line| line == "pool: evil"));
}

#[test]
fn html() {
    let page = page("html&full");
    assert!(page.starts_with("<!DOCTYPE html PUBLIC"));
    assert!(page.contains(
        "<tr><th>pool</th><td>www</td></tr>\n<tr><th>process manager</th><td>dynamic</td></tr>\n"
    ));
    assert!(
        page.contains(
            "<td>/&lt;script&gt;a&lt;/script&gt;?x=&quot;1&quot;&amp;y=&#039;\u{fffd}</td>"
        ),
        "{page}"
    );
    assert!(page.contains("<td>/srv/a&amp;b.php</td>"));
    assert!(page.ends_with("</tr>\n</table></body></html>"));
    assert!(Snapshot::default().html(false).ends_with("</table>\n</body></html>"));
}

#[test]
fn xml() {
    let page = page("xml&full");
    assert!(
        page.starts_with("<?xml version=\"1.0\" ?>\n<status>\n<pool>www</pool>\n<process-manager>")
    );
    assert!(page.contains("<start-time>1795176000</start-time>\n"));
    assert!(page.contains("<processes>\n<process><pid>12</pid><state>Running</state>"));
    assert!(page.contains("<request-uri>/&lt;script&gt;"));
    assert!(page.ends_with("</process>\n</processes>\n</status>"));
}

#[test]
fn json() {
    let value: serde_json::Value = serde_json::from_str(&page("json&full")).expect("JSON");
    assert_eq!(value["pool"], "www");
    assert_eq!(value["start time"], 1_795_176_000);
    assert_eq!(value["listen queue len"], 511);
    assert_eq!(value["processes"][0]["request uri"], "/<script>a</script>?x=\"1\"&y='\u{fffd}");
    assert_eq!(value["processes"][1]["last request cpu"], 12.35);
    assert!(page("json").starts_with(
        "{\"pool\":\"www\",\"process manager\":\"dynamic\",\"start time\":1795176000,"
    ));
    assert!(page("json").ends_with(",\"slow requests\":0}"));
    assert!(page("json&full").contains("\"request uri\":\"\\/<script>a<\\/script>"));
}

#[test]
fn openmetrics() {
    let page = page("openmetrics");
    assert!(page.starts_with(
        "# HELP phpfpm_up Could pool www using a dynamic PM on PHP-FPM be reached?\n# TYPE \
            phpfpm_up gauge\nphpfpm_up 1\n"
    ));
    assert!(page.contains(
        "# TYPE phpfpm_listen_queue_length gauge\n# HELP phpfpm_listen_queue_length The size of \
            the socket queue of pending \
         connections.\nphpfpm_listen_queue_length 511\n"
    ));
    assert!(page.ends_with("phpfpm_slow_requests 0\n# EOF\n"));
    assert_eq!(page.lines().count(), 12 * 3 + 1);
}

#[test]
fn ping_answers_with_the_configured_text() {
    assert_eq!(ping("pong"), Page { content_type: "text/plain", body: b"pong".to_vec() });
}

proptest! {
    #[test]
    fn whatever_a_request_brings_json_and_xml_stay_whole(uri: Vec<u8>, user: Vec<u8>) {
        let mut snapshot = snapshot();
        snapshot.processes[0].uri = uri;
        snapshot.processes[0].user = user;
        let json = snapshot.page(StatusQuery { format: Format::Json, full: true }).body;
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok());
        for format in [Format::Xml, Format::Html] {
            let query = StatusQuery { format, full: true };
            let page = String::from_utf8(snapshot.page(query).body).expect("text");
            let plain = self::snapshot().page(query).body;
            let tags = |text: &str| text.matches('<').count();
            prop_assert_eq!(tags(&page), tags(&String::from_utf8_lossy(&plain)));
        }
    }
}
