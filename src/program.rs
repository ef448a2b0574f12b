//! Finds and starts the programs beside the server, which are never linked: `tokamak-php` runs
//! PHP, and `tokamak-import` reads configurations of other servers.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program beside the server.
pub struct Program {
    name: &'static str,
    /// The environment variable that names its file, for packagers and for trying another build.
    pub variable: &'static str,
    /// What it does, as the manual says it.
    pub about: &'static str,
}

/// All of them, in the order of the manual.
pub const ALL: [&Program; 2] = [&PHP, &IMPORT];

const PHP: Program =
    Program { name: "tokamak-php", variable: "TOKAMAK_PHP", about: "The program that runs PHP" };

const IMPORT: Program = Program {
    name: "tokamak-import",
    variable: "TOKAMAK_IMPORT",
    about: "The program that reads configurations of other servers",
};

impl Program {
    /// Where it is: where its variable says, else beside the server, else in the `libexec/tokamak`
    /// next to the server's directory, else in the search path.
    fn find(&self) -> io::Result<PathBuf> {
        let Program { name, variable, .. } = self;
        if let Some(named) = std::env::var_os(variable).filter(|named| !named.is_empty()) {
            let named = PathBuf::from(named);
            return if named.is_file() {
                Ok(named)
            } else {
                Err(missing(format!("{} (from {variable}) is not a file", named.display())))
            };
        }
        let own = std::env::current_exe()?;
        let directory = own.parent().unwrap_or(Path::new("/"));
        let libexec = directory.join("../libexec/tokamak");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = [directory, &libexec].map(Path::to_owned).into_iter();
        let mut files = places.chain(std::env::split_paths(&path)).map(|place| place.join(name));
        files.find(|file| file.is_file()).ok_or_else(|| {
            missing(format!(
                "cannot find {name} beside {}, in {}, nor in PATH; `make install` puts it there, \
                 or set {variable} to its path",
                own.display(),
                libexec.display()
            ))
        })
    }

    /// Becomes the program, with this variable of the environment. Returns only if it cannot.
    fn exec<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        variable: Option<(&str, PathBuf)>,
    ) -> io::Result<()> {
        let file = self.find()?;
        let error = Command::new(&file).args(arguments).envs(variable).exec();
        Err(io::Error::new(error.kind(), format!("cannot start {}: {error}", file.display())))
    }
}

/// Where `tokamak-php` is.
pub fn tokamak_php() -> io::Result<PathBuf> {
    PHP.find()
}

/// Becomes `tokamak-php --info`, which prints what PHP says about itself. Returns only if it
/// cannot.
pub fn show_php_info() -> io::Result<()> {
    PHP.exec(["--info"], None)
}

/// Becomes `tokamak-php --show`, which prints what php-fpm does with `-v`, `-m` and `-i`. Returns
/// only if it cannot.
pub fn show_php(what: &str, settings: &[(String, String)]) -> io::Result<()> {
    let settings = settings.iter().map(|(name, value)| format!("{name}={value}"));
    PHP.exec(["--show".to_owned(), what.to_owned()].into_iter().chain(settings), None)
}

/// Becomes `tokamak-import`, which is told where `tokamak-php` is: it compares settings of PHP.
/// Returns only if it cannot.
pub fn import(arguments: [impl AsRef<OsStr>; 4]) -> io::Result<()> {
    IMPORT.exec(arguments, PHP.find().ok().map(|php| (PHP.variable, php)))
}

fn missing(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, what)
}
