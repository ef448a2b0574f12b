//! `tokamak profile`: where the PHP workers of a running server spend their time.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokamak_observe::text::for_terminal;
use tokamak_profile::{By, Clock, Profile as Sampled, Taken, folded, page, pprof, table};
use tokamak_supervisor::client::{LONGEST_PROFILE, MOST_SAMPLES_A_SECOND};

use super::{At, print};
use crate::wiring::profile::{ProfileOrder, profile};

/// `tokamak profile`.
#[derive(Args, Debug)]
pub struct Profile {
    /// Which server is meant.
    #[command(flatten)]
    at: At,
    /// Only the PHP workers of this site, as `tokamak status` names it.
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Only requests whose path begins so, as /shop/.
    #[arg(long, value_name = "PREFIX", value_parser = prefix, default_value = "")]
    url: String,
    /// For how long, at most 10m.
    #[arg(long = "for", value_name = "TIME", value_parser = length, default_value = "10s")]
    length: Duration,
    /// Samples a second of each worker.
    #[arg(long, value_name = "N", default_value = "99",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_SAMPLES_A_SECOND)))]
    rate: u16,
    /// Show the time in which a worker ran or waited for a processor, not all time.
    #[arg(long)]
    cpu: bool,
    /// Show all time in which a request was under way; so it is without a flag.
    #[arg(long, conflicts_with = "cpu")]
    wall: bool,
    /// Put this below the outermost call of each stack; more than one, separated by commas.
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    by: Vec<Below>,
    /// Write folded text to this file, for flamegraph.pl, speedscope and others; - is standard
    /// output.
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
    /// Write a page with a flame graph to this file; it needs nothing but a browser.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write what `go tool pprof` reads to this file, with both kinds of time, and with the site,
    /// the path and the worker as tags.
    #[arg(long, value_name = "FILE")]
    pprof: Option<PathBuf>,
}

/// What `--by` may name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Below {
    /// The site.
    Site,
    /// The path of the request.
    Url,
    /// The process id of the worker.
    Worker,
}

/// No sampler could compare a path with it otherwise, and it is a word of a command.
fn prefix(typed: &str) -> Result<String, String> {
    match typed {
        _ if typed.len() > 1024 => Err("it is longer than 1024 bytes".into()),
        _ if typed.contains(char::is_control) => Err("a path has no control characters".into()),
        "" => Ok(String::new()),
        _ if typed.starts_with('/') => Ok(typed.to_owned()),
        _ => Err("a path begins with /".into()),
    }
}

fn length(typed: &str) -> Result<Duration, String> {
    let length = tokamak_config::time(typed)?;
    if length.is_zero() || length > LONGEST_PROFILE {
        return Err(format!("write 1ms to {}s", LONGEST_PROFILE.as_secs()));
    }
    Ok(length)
}

impl Profile {
    /// Takes the profile and shows it.
    pub fn run(self) -> Result<(), String> {
        let clock = if self.cpu { Clock::Cpu } else { Clock::Wall };
        let by: Vec<By> = self
            .by
            .iter()
            .map(|below| match below {
                Below::Site => By::Site,
                Below::Url => By::Url,
                Below::Worker => By::Worker,
            })
            .collect();
        let order = ProfileOrder {
            site: self.site,
            rate: self.rate,
            length: self.length,
            prefix: self.url,
        };
        // Before the profile is taken, so that no mistyped name costs one.
        let outputs = outputs(&[
            (self.folded.as_deref(), Form::Folded),
            (self.html.as_deref(), Form::Page),
            (self.pprof.as_deref(), Form::Pprof),
        ])?;
        let Taken { profile, refusals } = profile(self.at.target(), &order)?;
        for refusal in refusals {
            eprintln!("tokamak: {}", for_terminal(&refusal));
        }
        if outputs.is_empty() {
            return print(table(&profile, clock).as_bytes()).map_err(|error| error.to_string());
        }
        eprintln!("{profile}");
        outputs.into_iter().try_for_each(|output| output.write(&profile, clock, &by))
    }
}

/// Stands for standard output in place of a file's name.
const STANDARD_OUTPUT: &str = "-";

/// What a profile is written as.
#[derive(Clone, Copy)]
enum Form {
    Folded,
    Page,
    Pprof,
}

/// Where a result is written to.
struct Output<'a> {
    form: Form,
    path: &'a Path,
    /// None: standard output.
    file: Option<File>,
    /// Whether the file is ours to remove: there was none before, and nothing whole is in it.
    is_new: bool,
}

fn outputs<'a>(wanted: &[(Option<&'a Path>, Form)]) -> Result<Vec<Output<'a>>, String> {
    let named = wanted.iter().filter_map(|(path, form)| Some(((*path)?, *form)));
    let outputs = named.map(|(path, form)| Output::open(path, form)).collect::<Result<Vec<_>, _>>();
    match outputs {
        Ok(outputs) if outputs.iter().filter(|output| output.file.is_none()).count() > 1 => {
            Err("only one of the files can be standard output (-)".into())
        }
        Ok(outputs) => match same_file(&outputs) {
            Some(path) => Err(format!("{} is named for two results: name two", path.display())),
            None => Ok(outputs),
        },
        refused => refused,
    }
}

/// The second name of a file in which the later result would replace the earlier one.
fn same_file<'a>(outputs: &[Output<'a>]) -> Option<&'a Path> {
    let mut seen = Vec::new();
    outputs.iter().find_map(|output| {
        let data = output.file.as_ref()?.metadata().ok().filter(Metadata::is_file)?;
        let file = (data.dev(), data.ino());
        let is_second = seen.contains(&file);
        seen.push(file);
        is_second.then_some(output.path)
    })
}

impl Output<'_> {
    /// What is in the file stays there until there is a result.
    fn open(path: &Path, form: Form) -> Result<Output<'_>, String> {
        if path == Path::new(STANDARD_OUTPUT) {
            return Ok(Output { form, path, file: None, is_new: false });
        }
        let mut options = File::options();
        options.write(true);
        let (opened, is_new) = match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                (options.create(true).truncate(false).open(path), false)
            }
            opened => (opened, true),
        };
        let file = opened.map_err(|error| cannot_write(path, &error))?;
        Ok(Output { form, path, file: Some(file), is_new })
    }

    fn write(mut self, profile: &Sampled, clock: Clock, by: &[By]) -> Result<(), String> {
        let bytes = match self.form {
            Form::Folded => folded(profile, clock, by).into_bytes(),
            Form::Page => page(profile, clock, by).into_bytes(),
            Form::Pprof => pprof(profile, clock),
        };
        let written = match &mut self.file {
            None => print(&bytes),
            Some(file) => {
                // A pipe has no length.
                let _ = file.set_len(0);
                file.write_all(&bytes)
            }
        };
        self.is_new &= written.is_err();
        written.map_err(|error| cannot_write(self.path, &error))
    }
}

/// A profile that fails leaves no empty file.
impl Drop for Output<'_> {
    fn drop(&mut self) {
        if self.is_new {
            let _ = fs::remove_file(self.path);
        }
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}
