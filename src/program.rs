//! Finds `tokamak-php`, the program that runs PHP. It is never linked: the server starts it.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable that names the program, for packagers and for trying another build of
/// PHP.
pub const VARIABLE: &str = "TOKAMAK_PHP";

const NAME: &str = "tokamak-php";

/// Where the program is: where [`VARIABLE`] says, else beside the server, else in the
/// `libexec/tokamak` next to the server's directory, else in the search path.
pub fn tokamak_php() -> io::Result<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        return if named.is_file() {
            Ok(named)
        } else {
            Err(missing(format!("{} (from {VARIABLE}) is not a file", named.display())))
        };
    }
    let own = std::env::current_exe()?;
    let directory = own.parent().unwrap_or(Path::new("/"));
    let beside = [directory.to_owned(), directory.join("../libexec/tokamak")];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = beside.into_iter().chain(std::env::split_paths(&path));
    places.find_map(|place| Some(place.join(NAME)).filter(|found| found.is_file())).ok_or_else(
        || {
            missing(format!(
                "cannot find {NAME} beside {}, nor in PATH; set {VARIABLE} to its path",
                own.display()
            ))
        },
    )
}

/// Becomes `tokamak-php --info`, which prints what PHP says about itself. Returns only if it
/// cannot.
pub fn show_php_info() -> io::Result<()> {
    become_php(&["--info".to_owned()])
}

/// Becomes `tokamak-php --show`, which prints what php-fpm does with `-v`, `-m` and `-i`. Returns
/// only if it cannot.
pub fn show_php(what: &str, settings: &[(String, String)]) -> io::Result<()> {
    let settings = settings.iter().map(|(name, value)| format!("{name}={value}"));
    let arguments: Vec<String> =
        ["--show".to_owned(), what.to_owned()].into_iter().chain(settings).collect();
    become_php(&arguments)
}

/// All settings of PHP as a site without any of its own has them, by their names; those of the
/// `php.ini` and `conf.d` of this SAPI, if one is named and has such files.
///
/// The file itself is `php.ini`, and each extension is `extension`.
pub fn php_settings(ini_of: Option<&str>) -> io::Result<Vec<(String, String)>> {
    let mut command = Command::new(tokamak_php()?);
    command.args(["--show", "settings"]).args(ini_of.map(|sapi| format!("ini_of={sapi}")));
    let output = command.stderr(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(io::Error::other("PHP does not start; see tokamak php-info"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn become_php(arguments: &[String]) -> io::Result<()> {
    let program = tokamak_php()?;
    let error = Command::new(&program).args(arguments).exec();
    Err(io::Error::new(error.kind(), format!("cannot start {}: {error}", program.display())))
}

fn missing(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, what)
}
