//! Scripts that wait: others go on meanwhile, each with its own request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokamak_lua::{Host, Limits, Outcome, Run, ScriptError, Stage};

use crate::harness::{Memory, Site, request, run, wait_for};

/// A run's request, and what becomes of it.
type Result = (Box<dyn Host>, Outcome);

/// Several runs at once on one thread.
struct Batch(Vec<(Option<Run>, Option<Result>)>);

impl Future for Batch {
    type Output = Vec<Result>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        for (run, result) in &mut self.0 {
            if let Some(pending) = run
                && let Poll::Ready(ready) = Pin::new(pending).poll(context)
            {
                *result = Some(ready);
                *run = None;
            }
        }
        if self.0.iter().any(|(run, _)| run.is_some()) {
            return Poll::Pending;
        }
        Poll::Ready(self.0.drain(..).map(|(_, result)| result.expect("it is ready")).collect())
    }
}

const SLEEPER: &str = "n = lighty.request['X-N'] lighty.header.Before = n \
                       local good = pcall(function() tokamak.sleep(0.3) end) assert(good) \
                       lighty.header.After = n lighty.content = { lighty.request['X-N'], ' ', n } \
                       return 200";

#[test]
fn runs_overlap_and_do_not_mix() {
    let site = Site::new(Limits::default(), &[("test.lua", SLEEPER)]);
    let began = Instant::now();
    let runs = (0..20).map(|n| {
        let mut memory = request();
        memory.request.push(("x-n".into(), n.to_string().into_bytes()));
        (Some(site.state.run(site.script("test.lua"), Stage::RawUrl, Box::new(memory))), None)
    });
    for (n, (host, outcome)) in wait_for(Batch(runs.collect())).into_iter().enumerate() {
        let host: Box<dyn std::any::Any> = host;
        let memory = host.downcast::<Memory>().expect("our own host");
        assert_eq!(outcome, Outcome::Answer(200), "{:?}", memory.log);
        assert_eq!(memory.text(), format!("{n} {n}"));
        assert_eq!(
            (memory.header("before"), memory.header("after")),
            (vec![n.to_string()], vec![n.to_string()])
        );
    }
    assert!(
        began.elapsed() < Duration::from_millis(5500),
        "they waited for each other: {:?}",
        began.elapsed()
    );
}

#[test]
fn waiting_is_bounded_in_all() {
    let limits = Limits { total: Duration::from_millis(300), ..Limits::default() };
    let site = Site::new(
        limits,
        &[("test.lua", "while true do tokamak.sleep(0.05) end"), ("good.lua", "return 200")],
    );
    let began = Instant::now();
    let (outcome, memory) = site.ask("test.lua");
    assert_eq!(outcome, Outcome::Failed(ScriptError::TooLong));
    assert!(memory.log[0].contains("while it waited"), "{:?}", memory.log);
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(site.ask("good.lua").0, Outcome::Answer(200));
}

/// Each stretch may take its time; what a script waits for does not count.
#[test]
fn a_loop_after_a_pause_ends_as_well() {
    let limits = Limits { stretch: Duration::from_millis(200), ..Limits::default() };
    let site = Site::new(limits, &[("test.lua", "tokamak.sleep(0.4) while true do end")]);
    assert_eq!(site.ask("test.lua").0, Outcome::Failed(ScriptError::TooLong));
}

#[test]
fn only_the_script_itself_waits() {
    let (outcome, memory) = run("coroutine.wrap(function() tokamak.sleep(0) end)()");
    assert_eq!(outcome, Outcome::Failed(ScriptError::Error));
    assert!(memory.log[0].contains("not a coroutine of its own"), "{:?}", memory.log);
    for bad in ["tokamak.sleep()", "tokamak.sleep('x')", "tokamak.sleep(-1)", "tokamak.sleep(0/0)"]
    {
        assert_eq!(run(bad).0, Outcome::Failed(ScriptError::Error), "{bad}");
    }
}

/// A client that goes takes its script along.
#[test]
fn a_run_that_is_dropped_leaves_nothing() {
    let site = Site::new(Limits::default(), &[("test.lua", SLEEPER), ("good.lua", "return 200")]);
    let mut runs = Batch(vec![(
        Some(site.state.run(site.script("test.lua"), Stage::RawUrl, Box::new(request()))),
        None,
    )]);
    let waker = std::task::Waker::noop();
    assert!(Pin::new(&mut runs).poll(&mut Context::from_waker(waker)).is_pending());
    drop(runs);
    assert_eq!(site.ask("good.lua").0, Outcome::Answer(200));
}
