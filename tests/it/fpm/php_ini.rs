use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{php_fpm, program};

/// The arguments and the environment of a program.
type Row<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);

/// What a program says of the settings that it has read.
fn settings(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Vec<String> {
    let mut command = Command::new(program);
    command.args(arguments).arg("-i").envs(environment.iter().copied());
    for name in ["PHPRC", "PHP_INI_SCAN_DIR"] {
        if environment.iter().all(|(own, _)| own != &name) {
            command.env_remove(name);
        }
    }
    let text = String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned();
    let starts = ["Loaded Configuration File", "precision =>"];
    // The files of the folder have no words in front of them.
    let is_setting = |line: &&str| {
        starts.iter().any(|start| line.starts_with(start))
            || line.trim_end_matches(',').ends_with(".ini")
    };
    text.lines().filter(is_setting).map(str::to_owned).collect()
}

#[test]
fn the_php_ini_is_that_of_php_fpm() {
    let folder = tempfile::tempdir().unwrap();
    let (file, scanned) = (folder.path().join("php.ini"), folder.path().join("more"));
    fs::write(&file, "precision = 5\n").unwrap();
    fs::create_dir(&scanned).unwrap();
    fs::write(scanned.join("last.ini"), "precision = 6\n").unwrap();
    let [file, folder] = [&*file, folder.path()].map(|path| path.to_str().unwrap());
    let (scanned, missing) = (scanned.to_str().unwrap(), format!("{folder}/none"));
    let rows: [Row<'_>; 9] = [
        (&[], &[]),
        (&["-n"], &[]),
        (&["-c", file], &[]),
        (&["-c", folder], &[("PHPRC", &missing)]),
        (&[], &[("PHPRC", folder)]),
        (&[], &[("PHPRC", file)]),
        (&[], &[("PHPRC", &missing)]),
        (&[], &[("PHP_INI_SCAN_DIR", "")]),
        (&[], &[("PHP_INI_SCAN_DIR", &format!(":{scanned}")), ("PHPRC", folder)]),
    ];
    for (arguments, environment) in rows {
        let theirs = settings(&php_fpm(), arguments, environment);
        let ours = settings(&program(), &[&["fpm"], arguments].concat(), environment);
        assert!(theirs.iter().any(|line| line.starts_with("precision")), "{theirs:?}");
        assert_eq!(theirs, ours, "{arguments:?} {environment:?}");
    }
}
