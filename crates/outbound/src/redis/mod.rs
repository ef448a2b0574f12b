//! A Redis server, to which an event loop has one connection for all callers: what they send at the
//! same time travels together, and no call waits for another's reply before it is sent.

mod commands;
pub mod streams;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, RedisResult};
use tokio::net::UnixStream;
use tokio::sync::OnceCell;

pub use redis::Value;

use crate::names::Names;
use commands::{is_reading, refusal};

/// Where a server is, and as whom it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its host and port, or its Unix socket.
    pub address: Result<(String, u16), PathBuf>,
    /// The user, if not the default one.
    pub user: Option<String>,
    /// The password, if it asks for one.
    pub password: Option<String>,
    /// The database.
    pub database: u32,
    /// Time for a call, connecting included.
    pub timeout: Duration,
}

/// What several commands are together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// It is a single one.
    Single,
    /// They are sent together.
    Pipeline,
    /// They are carried out together, with none of others between them.
    Transaction,
}

/// The client of one event loop for one server.
pub struct Client {
    server: Server,
    names: Names,
    /// Replaced when it is gone; callers that wait for its making share it.
    link: Mutex<Arc<OnceCell<Link>>>,
}

/// A connection.
struct Link {
    connection: MultiplexedConnection,
    /// Whether it has ended, or does not answer in time.
    gone: Arc<AtomicBool>,
}

/// Why there is no reply.
#[derive(Debug)]
pub enum CommandError {
    /// The command is not for a connection that others use as well.
    Refused(String),
    /// No connection.
    Connect(String, RedisError),
    /// It took longer than this.
    Time(Duration),
    /// The server's message, or how the connection broke.
    Failed(RedisError),
}

impl Client {
    /// A client, which connects when it is used.
    pub fn new(server: Server, names: Names) -> Client {
        Client { server, names, link: Mutex::default() }
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Sends commands, each with its arguments, and waits for their replies: for a single one its
    /// reply, else a list.
    ///
    /// # Errors
    /// Fails if there is no reply.
    pub async fn call(
        &self,
        commands: &[Vec<Vec<u8>>],
        batch: Batch,
    ) -> Result<Value, CommandError> {
        if let Some(refusal) = commands.iter().find_map(|command| refusal(command)) {
            return Err(CommandError::Refused(refusal));
        }
        self.within(self.server.timeout, commands, batch).await
    }

    /// Sends a single command that may wait at the server, for as long as this at most. Other calls
    /// of this client wait as long: it is for one that has no others.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn wait(
        &self,
        command: Vec<Vec<u8>>,
        limit: Duration,
    ) -> Result<Value, CommandError> {
        self.within(limit, &[command], Batch::Single).await
    }

    async fn within(
        &self,
        limit: Duration,
        commands: &[Vec<Vec<u8>>],
        batch: Batch,
    ) -> Result<Value, CommandError> {
        let mut link = Arc::default();
        match tokio::time::timeout(limit, self.attempt(commands, batch, &mut link)).await {
            Ok(result) => result,
            Err(_) => {
                // The next call must not wait behind one that is stuck.
                link.get().inspect(|link| link.give_up());
                Err(CommandError::Time(limit))
            }
        }
    }

    async fn attempt(
        &self,
        commands: &[Vec<Vec<u8>>],
        batch: Batch,
        used: &mut Arc<OnceCell<Link>>,
    ) -> Result<Value, CommandError> {
        let mut is_repeatable = commands.iter().all(|command| is_reading(command));
        loop {
            let was_open;
            (*used, was_open) = self.link();
            let link = used.get_or_try_init(|| self.connect()).await?;
            match link.send(commands, batch).await {
                // The server may have closed it while the command was on its way. A second time
                // would be no accident.
                Err(error) if error.is_unrecoverable_error() && was_open && is_repeatable => {
                    is_repeatable = false;
                    link.give_up();
                }
                Err(error) => {
                    if error.is_unrecoverable_error() {
                        link.give_up();
                    }
                    return Err(CommandError::Failed(error));
                }
                Ok(value) => return Ok(value),
            }
        }
    }

    /// The connection, and whether it has been made already.
    fn link(&self) -> (Arc<OnceCell<Link>>, bool) {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if link.get().is_some_and(|link| link.gone.load(Ordering::Relaxed)) {
            *link = Arc::default();
        }
        (link.clone(), link.initialized())
    }

    async fn connect(&self) -> Result<Link, CommandError> {
        let address = match &self.server.address {
            Ok((host, port)) => format!("{host}:{port}"),
            Err(socket) => socket.display().to_string(),
        };
        self.open().await.map_err(|error| CommandError::Connect(address, error))
    }

    async fn open(&self) -> RedisResult<Link> {
        let mut info = RedisConnectionInfo::default().set_db(self.server.database.into());
        // Two commands less until the first reply.
        info = info.set_skip_set_lib_name();
        if let Some(user) = &self.server.user {
            info = info.set_username(user);
        }
        if let Some(password) = &self.server.password {
            info = info.set_password(password);
        }
        // The callers look at the time.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let gone = Arc::new(AtomicBool::new(false));
        let connection = match &self.server.address {
            Ok((host, port)) => {
                let stream = self.names.connect(host, *port).await?;
                let (connection, driver) =
                    MultiplexedConnection::new_with_config(&info, stream, config).await?;
                tokio::spawn(watch(driver, gone.clone()));
                connection
            }
            Err(socket) => {
                let stream = UnixStream::connect(socket).await?;
                let (connection, driver) =
                    MultiplexedConnection::new_with_config(&info, stream, config).await?;
                tokio::spawn(watch(driver, gone.clone()));
                connection
            }
        };
        Ok(Link { connection, gone })
    }
}

async fn watch(driver: impl Future<Output = ()>, gone: Arc<AtomicBool>) {
    driver.await;
    gone.store(true, Ordering::Relaxed);
}

impl Link {
    fn give_up(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    async fn send(&self, commands: &[Vec<Vec<u8>>], batch: Batch) -> RedisResult<Value> {
        let mut connection = self.connection.clone();
        if let (Batch::Single, [command]) = (batch, commands) {
            return connection.send_packed_command(&packed(command)).await;
        }
        let mut pipeline = redis::pipe();
        if batch == Batch::Transaction {
            pipeline.atomic();
        }
        for command in commands {
            pipeline.add_command(packed(command));
        }
        if batch == Batch::Transaction {
            // Of the replies the last one counts, which has those of all commands.
            let replies = connection.send_packed_commands(&pipeline, commands.len() + 1, 1).await?;
            return Ok(replies.into_iter().next().unwrap_or_default());
        }
        connection.send_packed_commands(&pipeline, 0, commands.len()).await.map(Value::Array)
    }
}

fn packed(command: &[Vec<u8>]) -> Cmd {
    let size = command.iter().map(Vec::len).sum();
    let mut packed = Cmd::with_capacity(command.len(), size);
    for argument in command {
        packed.arg(argument);
    }
    packed
}

impl fmt::Display for CommandError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Refused(reason) => write!(out, "{reason}"),
            CommandError::Connect(address, error) => {
                write!(out, "no connection to {address}: {error}")
            }
            CommandError::Time(limit) => write!(out, "no reply within {limit:?}"),
            CommandError::Failed(error) => match error.code() {
                // As the server said it.
                Some(code) => write!(out, "{code} {}", error.detail().unwrap_or_default()),
                None => write!(out, "{error}"),
            },
        }
    }
}

impl std::error::Error for CommandError {}
