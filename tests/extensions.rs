//! The PHP extensions of the servers under test: the same ones whatever else is installed on this
//! machine, because an extension more or less changes what a page, a log or a benchmark says.
//!
//! The end-to-end tests and those of `crates/php` both include this file.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The variable by which PHP finds its settings beside `php.ini`.
pub const SCAN_DIRECTORY: &str = "PHP_INI_SCAN_DIR";

/// In the order in which PHP loads them: some need functions of an earlier one.
/// `scripts/setup test` installs them all; one that is missing is left out.
pub const EXTENSIONS: &[&str] = &[
    "mysqlnd",
    "pdo",
    "xml",
    "apcu",
    "bcmath",
    "bz2",
    "calendar",
    "ctype",
    "curl",
    "dom",
    "enchant",
    "exif",
    "ffi",
    "fileinfo",
    "ftp",
    "gd",
    "gettext",
    "gmp",
    "iconv",
    "igbinary",
    "imagick",
    "imap",
    "intl",
    "ldap",
    "mbstring",
    "msgpack",
    "memcached",
    "mysqli",
    "pdo_mysql",
    "pdo_pgsql",
    "pdo_sqlite",
    "pgsql",
    "phar",
    "posix",
    "readline",
    "redis",
    "shmop",
    "simplexml",
    "snmp",
    "soap",
    "sockets",
    "sqlite3",
    "sysvmsg",
    "sysvsem",
    "sysvshm",
    "tidy",
    "tokenizer",
    "uuid",
    "xmlreader",
    "xmlwriter",
    "xsl",
    "yaml",
    "zip",
];

/// A folder with more settings: by these the tests run beside another extension.
const MORE_SETTINGS: &str = "TOKAMAK_TEST_INI_DIR";

/// The folders that [`SCAN_DIRECTORY`] names in the environment of whatever runs PHP in a test.
pub fn scan_directory() -> &'static str {
    static DIRECTORIES: OnceLock<String> = OnceLock::new();
    DIRECTORIES.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("extensions");
        fs::create_dir_all(&directory).expect("a folder");
        let (file, settings) = (directory.join("tests.ini"), settings());
        // A change of the folder has the sealed sites of other test programs make a new image.
        if fs::read_to_string(&file).is_ok_and(|text| text == settings) {
            return named(&directory);
        }
        // Complete at once: another test program may be reading it.
        let partial = directory.join(format!("{}.partial", std::process::id()));
        fs::write(&partial, settings).expect("a file");
        fs::rename(partial, file).expect("a file");
        named(&directory)
    })
}

/// The folder, and the one with more settings if there is one.
fn named(directory: &Path) -> String {
    let directory = directory.to_str().expect("the path is text");
    match std::env::var(MORE_SETTINGS) {
        Ok(more) => format!("{directory}:{more}"),
        Err(_) => directory.to_owned(),
    }
}

fn settings() -> String {
    let folder = extension_directory();
    let is_here = |name: &&&str| folder.join(format!("{name}.so")).exists();
    // As Debian sets it.
    let mut text = "opcache.jit=off\n".to_owned();
    // Since 8.5 it is a part of PHP.
    if is_here(&&"opcache") {
        text.push_str("zend_extension=opcache.so\n");
    }
    for name in EXTENSIONS.iter().filter(is_here) {
        let _ = writeln!(text, "extension={name}.so");
    }
    text
}

/// Where the extensions of the tested PHP are.
pub fn extension_directory() -> PathBuf {
    let php_config = std::env::var("PHP_CONFIG").unwrap_or_else(|_| "php-config".into());
    let output = Command::new(php_config).arg("--extension-dir").output().expect("php-config runs");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}
