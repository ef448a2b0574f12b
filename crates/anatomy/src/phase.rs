//! The phases of a request: one row each, from which tables, pages and JSON are made.

/// A phase. They are in the order in which a web server with a backend goes through them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// From the client's `connect()` to the server's accepted socket.
    Accept,
    /// Until the request is read.
    ReadRequest,
    /// The server looks for files, and reads them.
    Files,
    /// What the server does itself besides, such as running a script.
    Work,
    /// What the server computes between two calls of any phase.
    Compute,
    /// A socket is made and connected to the backend.
    Connect,
    /// The request goes to the backend.
    Send,
    /// The backend takes the connection.
    BackendAccept,
    /// The backend reads the request.
    BackendRead,
    /// The backend looks at files.
    BackendStat,
    /// The backend opens files.
    BackendOpen,
    /// The backend reads files.
    BackendFile,
    /// The backend runs the script and answers.
    BackendRun,
    /// What the backend computes between two calls of any phase: mostly the script itself.
    BackendCompute,
    /// The backend writes its logs.
    BackendLog,
    /// The backend takes the connection down.
    BackendClose,
    /// The server wakes up for the backend's response and reads it.
    ReadResponse,
    /// The server takes the connection to the backend down.
    Disconnect,
    /// The response goes to the client.
    Respond,
    /// From the server's last call to the client's last byte.
    Arrive,
    /// The server writes its logs.
    Log,
    /// The client's connection is closed, or looked at for the next request.
    Close,
}

/// Each phase with its key in JSON, and its name for people; the backend's are indented.
pub const ROWS: &[(Phase, &str, &str)] = &[
    (Phase::Accept, "accept", "accept"),
    (Phase::ReadRequest, "read_request", "read request"),
    (Phase::Files, "files", "look at files"),
    (Phase::Work, "work", "work in the server"),
    (Phase::Compute, "compute", "compute in the server"),
    (Phase::Connect, "connect", "connect to backend"),
    (Phase::Send, "send", "send to backend"),
    (Phase::BackendAccept, "backend_accept", "  accept"),
    (Phase::BackendRead, "backend_read", "  read request"),
    (Phase::BackendStat, "backend_stat", "  stat"),
    (Phase::BackendOpen, "backend_open", "  open"),
    (Phase::BackendFile, "backend_file", "  read files"),
    (Phase::BackendRun, "backend_run", "  execute and respond"),
    (Phase::BackendCompute, "backend_compute", "  compute"),
    (Phase::BackendLog, "backend_log", "  log"),
    (Phase::BackendClose, "backend_close", "  close"),
    (Phase::ReadResponse, "read_response", "wait for and read response"),
    (Phase::Disconnect, "disconnect", "close to backend"),
    (Phase::Respond, "respond", "send to client"),
    (Phase::Arrive, "arrive", "on the way to the client"),
    (Phase::Log, "log", "log"),
    (Phase::Close, "close", "close"),
];

impl Phase {
    /// Its key in JSON.
    pub fn key(self) -> &'static str {
        ROWS.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// The phase that counts what is computed between the calls of this one.
    pub fn computed(self) -> Phase {
        if self.name().starts_with(' ') { Phase::BackendCompute } else { Phase::Compute }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        ROWS.iter().find(|row| row.0 == self).map_or("", |row| row.2)
    }
}

/// The kind of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Takes a connection.
    Accept,
    /// Makes or connects a socket.
    Connect,
    /// Reads from a descriptor.
    Read,
    /// Writes to a descriptor.
    Write,
    /// Closes a descriptor or one of its directions.
    Close,
    /// Asks whether a path is there, and what it is.
    Stat,
    /// Opens a path.
    Open,
    /// Sleeps until one of many descriptors has news.
    Wait,
    /// Anything else.
    Other,
}

/// The kind of a call by its name.
pub fn kind(name: &str) -> Kind {
    match name {
        "accept" | "accept4" => Kind::Accept,
        "socket" | "connect" => Kind::Connect,
        "read" | "readv" | "pread64" | "preadv" | "recvfrom" | "recvmsg" | "recvmmsg" => Kind::Read,
        "write" | "writev" | "pwrite64" | "pwritev" | "sendto" | "sendmsg" | "sendmmsg"
        | "sendfile" | "splice" => Kind::Write,
        "close" | "shutdown" => Kind::Close,
        "stat" | "lstat" | "newfstatat" | "statx" | "access" | "faccessat" | "faccessat2"
        | "readlink" | "readlinkat" => Kind::Stat,
        "open" | "openat" | "openat2" => Kind::Open,
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" | "select"
        | "pselect6" => Kind::Wait,
        _ => Kind::Other,
    }
}
