//! Figures, by hand: `cargo test --release -p tokamak-lua --test it -- --ignored --nocapture --test-threads 1 bench`.

use std::any::Any;
use std::task::{Context, Poll, Waker};

use tokamak_lua::{Host, Limits, Stage};

use crate::harness::{Memory, Site, request};

/// The empty endpoint, in the way that scripts for lighttpd write it.
const EMPTY: &str = r#"
lighty.content = { "{\"errno\":0}" }
lighty.header["Content-Type"] = "application/json"
return 200
"#;

/// The same in the newer way.
const NEWER: &str = r#"
local r = lighty.r
r.resp_header["Content-Type"] = "application/json"
r.resp_body.set("{\"errno\":0}")
return 200
"#;

/// Looks at the request, and lets it go on.
const LOOK: &str = r#"
if string.find(lighty.env["request.uri"], "UNION%s") or lighty.request["Host"] == "www.example.com" then
    return 400
end
"#;

/// Nanoseconds that this thread has had a processor: others may be busy at the same time.
fn own_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number")
}

#[test]
#[ignore = "a measurement"]
fn time_of_a_run() {
    for (name, script) in [("nothing", "return 0"), ("empty", EMPTY), ("newer", NEWER), ("look", LOOK)] {
        let site = Site::new(Limits::default(), &[("test.lua", script)]);
        let id = site.script("test.lua");
        let mut host: Box<dyn Host> = Box::new(request());
        let mut best = f64::INFINITY;
        for _ in 0..10 {
            const RUNS: u32 = 100_000;
            let began = own_time();
            for _ in 0..RUNS {
                let mut run = std::pin::pin!(site.state.run(id, Stage::RawUrl, host));
                let Poll::Ready((back, _)) = run.as_mut().poll(&mut Context::from_waker(Waker::noop()))
                else {
                    panic!("it waits for nothing")
                };
                host = back;
            }
            best = best.min((own_time() - began) / f64::from(RUNS));
        }
        let any: Box<dyn Any> = host;
        let memory = any.downcast::<Memory>().expect("our own host");
        assert!(memory.log.is_empty(), "{:?}", memory.log);
        println!("{name:8} {best:7.0} ns");
    }
}
