//! `tokamak import`: a configuration of another server as a `tokamak.toml`. The work is done by
//! `tokamak-import`, a program of its own; what may be typed is declared here.

use std::io;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::program;

/// `tokamak import`.
#[derive(Args, Debug)]
pub struct Import {
    /// The language of the file.
    language: Server,
    /// The file: of the whole server, or of one site.
    file: PathBuf,
    /// Write to this new file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Directory that relative names in the file start from; without it, that of the server's main
    /// file above it.
    #[arg(long, value_name = "DIRECTORY")]
    prefix: Option<PathBuf>,
}

/// A server whose configuration is read.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Server {
    Nginx,
    Apache,
    Caddy,
}

impl Import {
    /// Becomes `tokamak-import`. Returns only if it cannot.
    pub fn run(self) -> io::Result<()> {
        let language = match self.language {
            Server::Nginx => "nginx",
            Server::Apache => "apache",
            Server::Caddy => "caddy",
        };
        // No path that was typed is empty.
        let [output, prefix] = [self.output, self.prefix].map(Option::unwrap_or_default);
        program::import([language.into(), self.file, output, prefix])
    }
}
