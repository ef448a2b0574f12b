//! A request in memory that scripts run for, and a loop that runs them.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokamak_lua::cache::{CachedResponse, Override, Purge};
use tokamak_lua::{
    Attribute, Batch, Call, Engine, Host, HttpContext, Item, Limits, LuaState, Other, Outcome,
    Piece, RedisServer, Response, ScriptId, Side, Stage, Value, Waiting,
};

/// Header fields in their order.
pub type Fields = Vec<(String, Vec<u8>)>;

/// A request, and the response as far as scripts have made it.
#[derive(Default)]
pub struct Memory {
    pub request: Fields,
    pub response: Fields,
    pub attributes: BTreeMap<&'static str, Vec<u8>>,
    pub variables: BTreeMap<Vec<u8>, Vec<u8>>,
    pub request_body: Option<Vec<u8>>,
    pub wants_body: bool,
    pub body: Vec<u8>,
    pub keep_alive: i64,
    pub log: Vec<String>,
    pub overrides: Vec<Override>,
    pub purges: Vec<Purge>,
}

impl Memory {
    fn side(&self, side: Side) -> &Fields {
        if side == Side::Request { &self.request } else { &self.response }
    }

    fn side_mut(&mut self, side: Side) -> &mut Fields {
        if side == Side::Request { &mut self.request } else { &mut self.response }
    }
}

impl Host for Memory {
    fn http(&mut self) -> Option<&mut dyn HttpContext> {
        Some(self)
    }

    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        self.variables.get(name).cloned()
    }

    fn log(&mut self, text: &str) {
        self.log.push(text.to_string());
    }

    fn sleep(&mut self, time: Duration) -> Waiting {
        Box::pin(Sleep { until: Instant::now() + time })
    }

    /// Whatever is asked answers with what it was asked, a little later.
    fn call(&mut self, call: Call<'_>) -> Waiting {
        let (pause, answer) = (self.sleep(Duration::from_millis(20)), answer(call));
        Box::pin(async move {
            pause.await?;
            answer
        })
    }

    fn redis(&mut self, server: RedisServer) -> Result<u32, String> {
        self.log.push(format!("{server:?}"));
        Ok(7)
    }
}

fn answer(call: Call<'_>) -> Result<Value, String> {
    match call {
        Call::Http(call) if call.url == b"http://down/" => Err("no connection to down".to_string()),
        Call::Http(call) | Call::Fetch(call) => Ok(Value::Response(Response {
            status: 203,
            body: format!("{call:?}").into_bytes(),
            fields: call.fields.iter().flat_map(|text| [text, &b"\n"[..]].concat()).collect(),
        })),
        Call::Redis { mut commands, batch: Batch::Single, .. } => {
            let command = commands.remove(0);
            Ok(match &command[0][..] {
                b"nothing" => Value::Nil,
                b"wrong" => Value::Problem(b"ERR wrong".to_vec()),
                b"values" => Value::List(vec![
                    Value::Integer(-3),
                    Value::Nil,
                    Value::Bytes(b"\0\xff".to_vec()),
                    Value::Boolean(true),
                    Value::Number(0.5),
                    Value::List(vec![Value::Problem(b"ERR inner".to_vec())]),
                ]),
                _ => Value::Bytes(command.join(&b' ')),
            })
        }
        Call::Redis { server, commands, batch } => {
            let commands: Vec<_> = commands.iter().map(|command| command.join(&b' ')).collect();
            let commands = String::from_utf8_lossy(&commands.join(&b"; "[..])).into_owned();
            Ok(Value::Bytes(format!("{server} {batch:?}: {commands}").into_bytes()))
        }
        Call::Read { path, most } => {
            let bytes =
                std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(Value::Bytes(bytes[..bytes.len().min(most as usize)].to_vec()))
        }
    }
}

impl HttpContext for Memory {
    fn values(&self, side: Side, name: &[u8], each: &mut dyn FnMut(&[u8])) {
        for (_, value) in
            self.side(side).iter().filter(|(key, _)| key.as_bytes().eq_ignore_ascii_case(name))
        {
            each(value);
        }
    }

    fn fields(&self, side: Side, each: &mut dyn FnMut(&[u8], &[u8])) {
        for (name, value) in self.side(side) {
            each(name.as_bytes(), value);
        }
    }

    fn set_field(&mut self, side: Side, name: &[u8], value: Option<&[u8]>) {
        self.side_mut(side).retain(|(key, _)| !key.as_bytes().eq_ignore_ascii_case(name));
        if let Some(value) = value {
            self.add_field(side, name, value);
        }
    }

    fn add_field(&mut self, side: Side, name: &[u8], value: &[u8]) {
        let name = String::from_utf8_lossy(name).into_owned();
        self.side_mut(side).push((name, value.to_vec()));
    }

    fn attribute(&self, attribute: Attribute) -> Option<Vec<u8>> {
        self.attributes.get(attribute.name()).cloned()
    }

    fn set_attribute(&mut self, attribute: Attribute, value: &[u8]) -> Result<(), String> {
        if attribute == Attribute::RemoteAddr && !value.contains(&b'.') {
            return Err(format!(
                "r.req_attr['remote-addr'] invalid addr: {}",
                value.escape_ascii()
            ));
        }
        self.attributes.insert(attribute.name(), value.to_vec());
        Ok(())
    }

    fn item(&self, item: Item) -> (i64, i64) {
        match item {
            Item::StartTime => (1_700_000_000, 42),
            Item::KeepAlive => (self.keep_alive, 0),
            _ => (7, 0),
        }
    }

    fn set_keep_alive(&mut self, value: i64) {
        self.keep_alive = value;
    }

    fn variables(&mut self, each: &mut dyn FnMut(&[u8], &[u8])) {
        for (name, value) in &self.variables {
            each(name, value);
        }
    }

    fn set_variable(&mut self, name: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.variables.insert(name.to_vec(), value.to_vec()),
            None => self.variables.remove(name),
        };
    }

    fn request_length(&self) -> Option<u64> {
        self.request_body.as_ref().map(|body| body.len() as u64)
    }

    fn request_body(&self) -> Option<Vec<u8>> {
        self.request_body.clone()
    }

    fn collect_body(&mut self) -> bool {
        self.wants_body = true;
        self.request_body.is_some()
    }

    fn set_request_body(&mut self, body: Vec<u8>) {
        self.request_body = Some(body);
    }

    fn response_body(&self) -> Option<Vec<u8>> {
        Some(self.body.clone())
    }

    fn response_length(&self) -> Option<u64> {
        Some(self.body.len() as u64)
    }

    fn clear_body(&mut self) {
        self.body.clear();
    }

    fn add_piece(&mut self, piece: Piece) {
        match piece {
            Piece::Bytes(bytes) => self.body.extend(bytes),
            Piece::File { mut file, offset, length } => {
                file.seek(SeekFrom::Start(offset)).expect("a seekable file");
                file.take(length).read_to_end(&mut self.body).expect("a readable file");
            }
        }
    }

    fn content_type(&self, path: &Path) -> Option<String> {
        (path.extension()? == "html").then(|| "text/html".to_string())
    }

    fn others(&self) -> Vec<Other> {
        vec![Other {
            attributes: vec![(Attribute::UriPath, b"/other".to_vec())],
            items: vec![(Item::StartTime, (5, 6)), (Item::BytesOut, (70, 0))],
            fields: vec![(b"x-kind".to_vec(), b"other".to_vec())],
        }]
    }

    fn override_cache(&mut self, with: Override) {
        self.overrides.push(with);
    }

    fn kept(&mut self, key: Option<&[u8]>) -> Option<CachedResponse> {
        (key != Some(b"nothing")).then_some(CachedResponse {
            status: 200,
            age: 5,
            ttl: -2,
            length: 7,
        })
    }

    fn send_kept(&mut self, key: &[u8]) -> Option<u16> {
        self.body = key.to_vec();
        (key != b"nothing").then_some(203)
    }

    fn purge(&mut self, what: Purge) -> Result<u64, String> {
        self.purges.push(what);
        Ok(3)
    }

    fn uptime(&self) -> u64 {
        12
    }

    fn clients(&self) -> u64 {
        3
    }
}

struct Sleep {
    until: Instant,
}

impl Future for Sleep {
    type Output = Result<Value, String>;

    fn poll(self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let rest = self.until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Poll::Ready(Ok(Value::Nil));
        }
        let waker = context.waker().clone();
        thread::spawn(move || {
            thread::sleep(rest);
            waker.wake();
        });
        Poll::Pending
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
pub fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        assert!(Instant::now() < end, "nothing happened for a minute");
        thread::park_timeout(Duration::from_secs(1));
    }
}

/// Script files in a folder of their own, and what runs them.
pub struct Site {
    pub folder: TempDir,
    pub engine: Engine,
    pub state: Arc<LuaState>,
}

impl Site {
    /// A site with these script files.
    pub fn new(limits: Limits, scripts: &[(&str, &str)]) -> Site {
        let folder = tempfile::tempdir().expect("a folder");
        let paths: Vec<PathBuf> =
            scripts.iter().map(|(name, _)| folder.path().join(name)).collect();
        for ((_, text), path) in scripts.iter().zip(&paths) {
            std::fs::write(path, text).expect("a writable folder");
        }
        let dictionaries = BTreeMap::from([("main", 1 << 20), ("small", 4096)]);
        let dictionaries =
            dictionaries.into_iter().map(|(name, size)| (name.to_string(), size)).collect();
        let engine = Engine::new(limits, &dictionaries, &paths);
        let state = Arc::new(LuaState::new(&engine).expect("memory for Lua"));
        Site { folder, engine, state }
    }

    /// The script file of that name.
    pub fn script(&self, name: &str) -> ScriptId {
        self.engine.script(&self.folder.path().join(name)).expect("a known script")
    }

    /// Runs a script for a request.
    pub fn ask_at(&self, stage: Stage, name: &str, memory: Memory) -> (Outcome, Memory) {
        let run = self.state.run(self.script(name), stage, Box::new(memory));
        let (host, outcome) = wait_for(run);
        let host: Box<dyn std::any::Any> = host;
        (outcome, *host.downcast::<Memory>().expect("our own host"))
    }
}
