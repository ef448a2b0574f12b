//! lighttpd and Tokamak with the same scripts: each script has a host name of its own.

use std::fmt::Write;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{
    Connection, Process, Request, Response, eventually, free_address, get, is_root, program, tests,
};

/// When a script is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    RawUrl,
    Physical,
    Response,
}

impl Hook {
    fn of_tokamak(self) -> &'static str {
        match self {
            Hook::RawUrl => "lua_raw_url",
            Hook::Physical => "lua_physical",
            Hook::Response => "lua_response",
        }
    }

    fn of_lighttpd(self) -> &'static str {
        match self {
            Hook::RawUrl => "magnet.attract-raw-url-to",
            Hook::Physical => "magnet.attract-physical-path-to",
            Hook::Response => "magnet.attract-response-start-to",
        }
    }
}

/// Shows values: one a line, those of a list between brackets.
const SHOW: &str = "local function text(v) if type(v) ~= 'table' then return tostring(v) end \
    local t = {} \
                    for n = 1, #v do t[n] = text(v[n]) end return '[' .. table.concat(t, ' ') .. \
                    ']' end \
                    local function show(...) local t = {} for n = 1, select('#', ...) do t[n] = \
                    text((select(n, ...))) end \
                    lighty.r.resp_body.set(table.concat(t, '\\n')) return 200 end";

/// A running server with scripts.
pub struct Scripted {
    address: SocketAddr,
    process: Option<Process>,
    folder: TempDir,
}

impl Scripted {
    /// Starts lighttpd with these scripts of `tests/lua/scripts`.
    pub fn lighttpd(scripts: &[(&str, Hook)]) -> Scripted {
        let (folder, address) = (folder(), free_address());
        let top = folder.path().display();
        let port = address.port();
        let mut text = format!(
            "server.modules = (\"mod_magnet\")\nserver.document-root = \
                \"{top}/public\"\nserver.bind = \"127.0.0.1\"\n\
             server.port = {port}\nserver.upload-dirs = (\"{top}\")\n\
             mimetype.assign = (\".html\" => \"text/html\", \".txt\" => \"text/plain\")\n"
        );
        for (name, hook) in scripts {
            let hook = hook.of_lighttpd();
            let script = script(&folder, name);
            writeln!(
                text,
                "$HTTP[\"host\"] == \"{name}\" {{ {hook} = (\"{}\") }}",
                script.display()
            )
            .unwrap();
        }
        let configuration = folder.path().join("lighttpd.conf");
        fs::write(&configuration, text).unwrap();
        let program = Path::new("/usr/sbin/lighttpd");
        assert!(
            program.exists(),
            "{} is missing: install lighttpd and lighttpd-modules-lua",
            program.display()
        );
        let arguments = ["-D", "-f", configuration.to_str().unwrap()].map(String::from);
        Scripted::start(program, &arguments, &[], address, folder)
    }

    /// Starts Tokamak with the same.
    pub fn tokamak(scripts: &[(&str, Hook)]) -> Scripted {
        Scripted::tokamak_with("early_hints = \"all\"", scripts)
    }

    /// The same with more lines at the top of its configuration.
    pub fn tokamak_with(lines: &str, scripts: &[(&str, Hook)]) -> Scripted {
        Scripted::tokamak_with_tail(lines, scripts, "")
    }

    /// The same with more lines for the last site, too.
    pub fn tokamak_with_tail(lines: &str, scripts: &[(&str, Hook)], tail: &str) -> Scripted {
        let (folder, address) = (folder(), free_address());
        let top = folder.path().display();
        let mut text = first_lines(&folder, address, lines);
        for (name, hook) in scripts {
            let hook = hook.of_tokamak();
            let script = script(&folder, name);
            writeln!(
                text,
                "[[site]]\nhost = \"{name}\"\nroot = \"{top}/public\"\nmode = \"fastcgi\"\n{hook} \
                    = [\"{}\"]",
                script.display()
            )
            .unwrap();
        }
        text.push_str(tail);
        Scripted::serve(&text, &[], address, folder)
    }

    /// Starts Tokamak with one site, where each of these scripts answers at the path `/NAME`.
    /// `show(…)` ends a script with its arguments as the body, one a line; `self` in a script is
    /// the server's address. `lines` may begin another site, in whose folder `TOP` are scripts and
    /// `public`.
    pub fn answering(
        lines: &str,
        environment: &[(String, String)],
        scripts: &[(&str, &str)],
    ) -> Scripted {
        let (folder, address) = (folder(), free_address());
        let lines = lines.replace("TOP", folder.path().to_str().unwrap());
        let mut text = first_lines(&folder, address, &lines);
        writeln!(
            text,
            "[[site]]\nhost = \"test\"\nroot = \"{}/public\"\nmode = \"fastcgi\"",
            folder.path().display()
        )
        .unwrap();
        for (name, source) in scripts {
            let path = script(&folder, name);
            fs::write(&path, format!("{SHOW} local self = 'http://{address}' {source}")).unwrap();
            writeln!(
                text,
                "[[site.route]]\npath = \"/{name}\"\nlua_content = [\"{}\"]",
                path.display()
            )
            .unwrap();
        }
        Scripted::serve(&text, environment, address, folder)
    }

    fn serve(
        text: &str,
        environment: &[(String, String)],
        address: SocketAddr,
        folder: TempDir,
    ) -> Scripted {
        let configuration = folder.path().join("tokamak.toml");
        fs::write(&configuration, text).unwrap();
        let arguments = ["serve", "--config", configuration.to_str().unwrap()].map(String::from);
        Scripted::start(&program(), &arguments, environment, address, folder)
    }

    fn start(
        program: &Path,
        arguments: &[String],
        environment: &[(String, String)],
        address: SocketAddr,
        folder: TempDir,
    ) -> Scripted {
        let process = Process::start(program, arguments, environment, &folder.path().join("log"));
        let mut server = Scripted { address, process: Some(process), folder };
        let there = eventually(Duration::from_secs(20), || {
            let ended = server.process.as_mut().and_then(Process::ended);
            assert!(ended.is_none(), "{} ended: {}", program.display(), server.log());
            TcpStream::connect(address).ok()
        });
        assert!(there.is_some(), "{} does not listen: {}", program.display(), server.log());
        server
    }

    /// Sends a request to a script's host.
    pub fn send(&self, host: &str, request: &Request) -> Response {
        Connection::open(self.address).exchange(&request.clone().header("Host", host))
    }

    /// What the script at a path shows.
    #[track_caller]
    pub fn shown(&self, path: &str) -> String {
        let response = Connection::open(self.address).exchange(&get(path).header("Host", "test"));
        assert_eq!(response.status(), 200, "{path}: {response}\n{}", self.log());
        response.text()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A script's file.
    pub fn script(&self, name: &str) -> PathBuf {
        script(&self.folder, name)
    }

    /// What the server has written to its error log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Scripted {
    /// Waits for a log line that contains all of these texts.
    #[track_caller]
    pub fn log_line(&self, texts: &[&str]) {
        let has_line =
            |log: String| log.lines().any(|line| texts.iter().all(|text| line.contains(text)));
        let logged = eventually(Duration::from_secs(20), || has_line(self.log()).then_some(()));
        assert!(logged.is_some(), "no log line with {texts:?}: {}", self.log());
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        // Before its files go.
        drop(self.process.take());
    }
}

fn script(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join("scripts").join(format!("{name}.lua"))
}

/// The lines above the sites. Scripts that count do so in one event loop, as in lighttpd's one
/// process.
fn first_lines(folder: &TempDir, address: SocketAddr, lines: &str) -> String {
    let top = folder.path().display();
    let user = if is_root() { "user = \"www-data\"\n" } else { "" };
    format!("listen = \"{address}\"\nloops = 1\ncontrol = \"{top}/control\"\n{user}{lines}\n")
}

/// A copy of the site and its scripts, which every user may read.
fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("tokamak-lua-").tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for part in ["public", "public/dir", "scripts"] {
        fs::create_dir(folder.path().join(part)).unwrap();
        for entry in fs::read_dir(tests().join("lua").join(part)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), folder.path().join(part).join(entry.file_name())).unwrap();
            }
        }
    }
    folder
}
