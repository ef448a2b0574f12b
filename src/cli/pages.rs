//! Pages made from the declaration of the command line and the table of options: the manual and the
//! completions.

use std::{io, iter};

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use tokamak_config::option;

use super::{Tokamak, print};
use crate::program;

/// Prints the completions of one shell.
pub fn completions(shell: Shell) -> io::Result<()> {
    let mut page = Vec::new();
    clap_complete::generate(shell, &mut Tokamak::command(), "tokamak", &mut page);
    print(&page)
}

/// Prints `tokamak(1)`: one page with every command, as the program has few of them.
pub fn manual() -> io::Result<()> {
    let command = Tokamak::command().disable_help_subcommand(true);
    let mut page = Vec::new();
    let man = Man::new(command.clone()).manual("Tokamak");
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    for sub in command.get_subcommands() {
        let name = format!("tokamak {}", sub.get_name());
        let sub = sub.clone().bin_name(&name).display_name(&name).disable_version_flag(true);
        let mut part = Vec::new();
        let man = Man::new(sub);
        man.render_synopsis_section(&mut part)?;
        man.render_description_section(&mut part)?;
        man.render_options_section(&mut part)?;
        Roff::new().control("SH", [name.as_str()]).to_writer(&mut page)?;
        // What is a section of a page of its own is a subsection here.
        page.extend(String::from_utf8_lossy(&part).replace(".SH ", ".SS ").into_bytes());
    }
    let mut end = Roff::new();
    environment(&mut end);
    end.control("SH", ["EXIT STATUS"]);
    end.text([roman(
        "0: done. 1: it could not be done; the reason is on standard error. 2: the command line \
            is wrong. seal-report: \
         0: nothing is foreign or grows. 1: something is. 2: there is no report; the reason is on \
         standard error.",
    )]);
    end.control("SH", ["FILES"]);
    end.control("TP", []).text([bold(tokamak_config::FILE_NAME)]);
    end.text([roman(
        "Configuration of the application in this directory; docs/configuration.md names every \
            option.",
    )]);
    end.to_writer(&mut page)?;
    print(&page)
}

fn environment(page: &mut Roff) {
    page.control("SH", ["ENVIRONMENT"]);
    for (name, about) in own_variables().into_iter().chain(option::rows().filter_map(|row| {
        let plain = row.about.replace('`', "");
        Some((row.variable?, format!("Overrides {} of the configuration file. {plain}", row.key())))
    })) {
        page.control("TP", []).text([bold(name)]).text([roman(about)]);
    }
}

fn own_variables() -> Vec<(&'static str, String)> {
    let file = "Configuration file, unless --config names one.".to_owned();
    let programs = program::ALL
        .iter()
        .map(|it| (it.variable, format!("{}, if it is not beside the server.", it.about)));
    iter::once((tokamak_config::CONFIG_VARIABLE, file)).chain(programs).collect()
}
