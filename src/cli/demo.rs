//! `tokamak demo`: writes the demo site, which is part of the program, into a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::{print, report};

/// Lists files of `examples/demo` by their path below it, each with its content.
macro_rules! files {
    ($($path:literal),+ $(,)?) => {
        &[$(($path, include_bytes!(concat!("../../examples/demo/", $path)))),+]
    };
}

/// The demo site.
const FILES: &[(&str, &[u8])] = files![
    "public/index.php",
    "public/static/torus.svg",
    "src/app.php",
    "src/layout.php",
    "src/pages/api.php",
    "src/pages/events.php",
    "src/pages/form.php",
    "src/pages/home.php",
    "src/pages/missing.php",
    "src/pages/request.php",
    "src/pages/session.php",
    "src/pages/stream.php",
    "worker.php",
];

/// `tokamak demo`.
#[derive(Args, Debug)]
pub struct Demo {
    /// Folder to write the demo site into. It is created, and may exist only if it is empty.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Demo {
    /// Writes the files and says how to serve them.
    pub fn run(self) -> ExitCode {
        let folder = &self.folder;
        if let Err(error) = write(folder) {
            return report(Err(format!(
                "cannot write the demo site to {}: {error}",
                folder.display()
            )));
        }
        let next = format!(
            "The demo site is in {0}. To serve it:\n\n    tokamak serve {0}\n",
            folder.display()
        );
        report(print(next.as_bytes()))
    }
}

/// Writes all files below `folder`, and nothing if something is there already.
fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    if fs::read_dir(folder)?.next().is_some() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the folder is not empty; name a new one",
        ));
    }
    for (path, content) in FILES {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a file lies in a folder"))?;
        fs::write(path, content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths of all files below `folder`.
    fn files_in(folder: &Path) -> Vec<PathBuf> {
        let entries =
            fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        entries.flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn the_whole_demo_is_in_the_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/demo");
        let mut there: Vec<_> = files_in(&folder);
        let mut here: Vec<_> = FILES.iter().map(|(path, _)| folder.join(path)).collect();
        there.sort();
        here.sort();
        assert_eq!(here, there);
    }

    #[test]
    fn it_is_written_to_a_new_folder_only() {
        let top = tempfile::tempdir().expect("a folder");
        let folder = top.path().join("a/b");
        write(&folder).expect("it is written");
        assert_eq!(files_in(&folder).len(), FILES.len());
        assert_eq!(write(&folder).expect_err("it is there").kind(), io::ErrorKind::AlreadyExists);
    }
}
