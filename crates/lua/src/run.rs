//! One script at work for one request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::call::{Value, Waiting};
use crate::current::{ScriptContext, Waits, run_in};
use crate::host::Host;
use crate::outcome::{Outcome, ScriptError, Stage, decide};
use crate::raw::{End, go_on_panicking};
use crate::scripts::ScriptId;
use crate::state::LuaState;
use crate::vm::{Pause, Ready, Step, Vm};

/// A script at work for a request: a future of the request, as the script left it, and of what
/// becomes of it.
///
/// Dropped before it is ready, the script is never continued.
pub struct Run {
    state: Arc<LuaState>,
    script: ScriptId,
    stage: Stage,
    host: Option<Box<dyn Host>>,
    phase: Progress,
}

enum Progress {
    New,
    /// The script waits for one thing or several, and that until its whole time is up.
    Waiting {
        vm: Arc<Vm>,
        pause: Pause,
        waits: Waits,
        limit: Waiting,
    },
    Done,
}

impl LuaState {
    /// A run of a script for a request; nothing happens before it is polled.
    pub fn run(self: &Arc<LuaState>, script: ScriptId, stage: Stage, host: Box<dyn Host>) -> Run {
        Run::new(self.clone(), script, stage, host)
    }

    /// Runs a script for a request at once: the request, and what becomes of it.
    ///
    /// # Errors
    /// If the script waits, the error is the rest of the run.
    pub fn begin(
        self: &Arc<LuaState>,
        script: ScriptId,
        stage: Stage,
        host: Box<dyn Host>,
    ) -> Result<(Box<dyn Host>, Outcome), Box<Run>> {
        self.run(script, stage, host).now()
    }
}

impl Run {
    pub(crate) fn new(
        state: Arc<LuaState>,
        script: ScriptId,
        stage: Stage,
        host: Box<dyn Host>,
    ) -> Run {
        Run { state, script, stage, host: Some(host), phase: Progress::New }
    }

    /// Begins at once, outside a task.
    ///
    /// # Errors
    /// If the script waits, the error is the rest of the run.
    pub(crate) fn now(mut self) -> Result<(Box<dyn Host>, Outcome), Box<Run>> {
        match self.begin() {
            Some(outcome) => {
                Ok((self.host.unwrap_or_else(|| unreachable!("a run ends once")), outcome))
            }
            None => Err(Box::new(self)),
        }
    }

    fn host(&mut self) -> &mut dyn Host {
        self.host
            .as_deref_mut()
            .unwrap_or_else(|| unreachable!("the request is away only inside `enter`"))
    }

    fn begin(&mut self) -> Option<Outcome> {
        let Run { state, script, stage, host, .. } = self;
        let shared = state.shared();
        shared.wake();
        let vm = state.vm();
        let mut say = |text: &str| host.as_deref_mut().into_iter().for_each(|host| host.log(text));
        let turn = match vm.ready(*script, &shared.scripts) {
            Ready::Yes(turn, notice) => {
                notice.iter().for_each(|notice| say(notice));
                turn
            }
            Ready::No(fault) => {
                say(&fault);
                return Some(failed(*stage, ScriptError::Error));
            }
        };
        let left =
            enter(host, &vm, shared.limits.ticks(), Waits::default(), Value::Nil, || turn.start());
        match left {
            // Nearly always, and so without taking hold of the state.
            Left {
                end: End::InTime,
                step: Ok(Step::Finished { number, is_due: false }),
                remarks,
                ..
            } if remarks.is_empty() => Some(decide(*stage, number)),
            left => {
                let held = Arc::clone(&vm);
                drop(vm);
                self.leave(&held, None, left)
            }
        }
    }

    /// What becomes of the request after a stay, if the script has ended.
    fn leave(&mut self, vm: &Arc<Vm>, limit: Option<Waiting>, left: Left) -> Option<Outcome> {
        let Left { waits, remarks, end, step } = left;
        for remark in remarks {
            self.remark(&remark);
        }
        let error = match (end, step) {
            (End::InTime, Ok(Step::Finished { number, is_due })) => {
                if is_due {
                    self.look_at_memory(vm);
                }
                return Some(decide(self.stage, number));
            }
            (End::InTime, Ok(Step::Waiting(pause))) => {
                if !waits.all.is_empty() {
                    let total = self.state.shared().limits.total;
                    let limit = limit.unwrap_or_else(|| self.host().sleep(total));
                    self.phase = Progress::Waiting { vm: vm.clone(), pause, waits, limit };
                    return None;
                }
                self.broken("the script waits for nothing")
            }
            (End::InTime, Ok(Step::Failed(problem))) => self.broken(&problem),
            (End::InTime, Err(error)) => self.broken(&error.to_string()),
            (End::Overdue(location), _) => self.overdue(location.as_deref()),
        };
        if error == ScriptError::NoMemory {
            self.look_at_memory(vm);
        }
        Some(failed(self.stage, error))
    }

    fn overdue(&mut self, location: Option<&str>) -> ScriptError {
        // A function that was called in place of the rest of the script leaves no line behind.
        let limit = self.state.shared().limits.stretch;
        let text = format!("ended after {limit:?} without a pause");
        match location {
            Some(location) => self.host().log(&format!("lua: {location}: {text}")),
            None => self.remark(&text),
        }
        ScriptError::TooLong
    }

    /// Says something of the script as a whole.
    fn remark(&mut self, text: &str) {
        let entry = self.state.shared().scripts.entry(self.script);
        self.host().log(&format!("lua: {}: {text}", entry.path.display()));
    }

    fn broken(&mut self, problem: &str) -> ScriptError {
        self.host().log(&format!("lua: {problem}"));
        // The only message that Lua has for it.
        if problem.contains("not enough memory") {
            ScriptError::NoMemory
        } else {
            ScriptError::Error
        }
    }

    fn look_at_memory(&mut self, vm: &Arc<Vm>) {
        if vm.is_full()
            && let Some(notice) = self.state.replace(vm)
        {
            self.host().log(&notice);
        }
    }

    fn end(&mut self, outcome: Outcome) -> Poll<(Box<dyn Host>, Outcome)> {
        self.phase = Progress::Done;
        Poll::Ready((self.host.take().unwrap_or_else(|| unreachable!("a run ends once")), outcome))
    }
}

/// A script that fails when the response is decided leaves it as it is.
fn failed(stage: Stage, error: ScriptError) -> Outcome {
    if stage.has_response() { Outcome::GoOn } else { Outcome::Failed(error) }
}

/// What a stay in Lua has left.
struct Left {
    waits: Waits,
    remarks: Vec<String>,
    end: End,
    step: mlua::Result<Step>,
}

/// Lets a script run until it ends or waits.
fn enter(
    host: &mut Option<Box<dyn Host>>,
    vm: &Vm,
    ticks: u64,
    waits: Waits,
    brought: Value,
    into: impl FnOnce() -> mlua::Result<Step>,
) -> Left {
    let own = host.take().unwrap_or_else(|| unreachable!("a run is entered once at a time"));
    let stay = vm.slot.enter(ticks);
    let context = ScriptContext { host: own, waits, brought, remarks: Vec::new() };
    let (ScriptContext { host: own, waits, remarks, .. }, step) = run_in(context, into);
    let end = stay.end();
    go_on_panicking();
    *host = Some(own);
    Left { waits, remarks, end, step }
}

impl Future for Run {
    type Output = (Box<dyn Host>, Outcome);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let run = self.get_mut();
        if matches!(run.phase, Progress::New)
            && let Some(outcome) = run.begin()
        {
            return run.end(outcome);
        }
        while let Progress::Waiting { waits, limit, .. } = &mut run.phase {
            if limit.as_mut().poll(context).is_ready() {
                let total = run.state.shared().limits.total;
                run.remark(&format!("ended after {total:?}, while it waited"));
                let outcome = failed(run.stage, ScriptError::TooLong);
                return run.end(outcome);
            }
            let (number, result) = ready!(waits.poll(context));
            let Progress::Waiting { vm, pause, waits, limit } =
                std::mem::replace(&mut run.phase, Progress::Done)
            else {
                unreachable!("it was waiting just now")
            };
            let brought = result.unwrap_or_else(|problem| Value::Problem(problem.into_bytes()));
            let ticks = run.state.shared().limits.ticks();
            let left = enter(&mut run.host, &vm, ticks, waits, brought, || vm.go_on(pause, number));
            if let Some(outcome) = run.leave(&vm, Some(limit), left) {
                return run.end(outcome);
            }
        }
        unreachable!("a run was polled after its end")
    }
}
