//! Compiles the C shim against the headers of the installed PHP and links libphp by its versioned
//! name.
//!
//! `PHP_CONFIG` names the php-config to ask; `TOKAMAK_SANITIZE=address,undefined` builds the shim
//! with sanitizers.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    for name in ["PHP_CONFIG", "TOKAMAK_SANITIZE"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=c");

    let php = Php::find();
    let mut sources = sources_below(Path::new("c"));
    sources.sort();

    let mut build = cc::Build::new();
    build
        .files(sources)
        .include("c")
        .include(
            env::var_os("DEP_TOKAMAK_IMAGE_INCLUDE")
                .expect("the image's build script names its header"),
        )
        .std("gnu11")
        .define("_GNU_SOURCE", None)
        .warnings(true)
        .extra_warnings(true)
        // Each of these is a wrong program, whatever it does today.
        .flag("-Werror=incompatible-pointer-types")
        .flag("-Werror=int-conversion");
    // PHP's own headers have unused parameters and signed comparisons in macros.
    build.flag("-Wno-unused-parameter").flag("-Wno-sign-compare");
    for include in &php.includes {
        // -isystem: warnings of PHP's headers are not ours to fix.
        build.flag("-isystem").flag(include);
    }
    if let Ok(sanitizers) = env::var("TOKAMAK_SANITIZE") {
        let flag = format!("-fsanitize={sanitizers}");
        build
            .flag(&flag)
            .flag("-fno-sanitize-recover=all")
            .flag("-fno-omit-frame-pointer")
            .flag("-g");
        // rustc links with -nodefaultlibs, so that gcc leaves out what -fsanitize would bring. In
        // front of libphp and libc, because the address sanitizer's malloc has to be the first that
        // the dynamic linker finds.
        for sanitizer in sanitizers.split(',') {
            let library = match sanitizer {
                "address" => "asan",
                "undefined" => "ubsan",
                other => panic!("TOKAMAK_SANITIZE knows address and undefined, not {other:?}"),
            };
            println!("cargo:rustc-link-lib=dylib={library}");
        }
        // The tests' own program takes interpose.c for its close(); what that calls is in
        // tokamak-php alone, and only without sanitizers does the linker see that nothing in the
        // tests gets there.
        println!("cargo:rustc-link-arg-tests=-Wl,--unresolved-symbols=ignore-all,-z,lazy");
    }
    precompile(&mut build, "ground/compat.h");
    build.compile("tokamak_shim");

    println!("cargo:rustc-link-search=native={}", php.directory.display());
    println!("cargo:rustc-link-lib=dylib={}", php.name);
    for name in interposed() {
        println!("cargo:rustc-link-arg=-Wl,--export-dynamic-symbol={name}");
    }
}

/// Has each file begin with a header that is compiled once. It brings PHP's headers: to read them
/// again for each file took half of the time. A compiler that cannot use the result reads them.
fn precompile(build: &mut cc::Build, header: &str) {
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let first = folder.join("first.h");
    std::fs::write(&first, format!("#include \"{header}\"\n")).expect("a writable OUT_DIR");
    let mut compiler = build.get_compiler().to_command();
    compiler.args(["-x", "c-header", "-o"]).arg(folder.join("first.h.gch")).arg(&first);
    if compiler.status().is_ok_and(|status| status.success()) {
        build.flag("-include").flag(first);
    }
}

/// The C files of a folder and of those in it.
fn sources_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the directory c lies beside build.rs");
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("a readable directory").path()) {
        if path.is_dir() {
            found.extend(sources_below(&path));
        } else if path.extension().is_some_and(|e| e == "c") {
            found.push(path);
        }
    }
    found
}

/// The functions of the table in interpose.c: the dynamic linker finds ours before libc's only if
/// they are exported.
fn interposed() -> Vec<String> {
    let table = std::fs::read_to_string("c/top/interpose.c")
        .expect("the table of the interposed functions");
    let name = |row: &str| row.split(',').nth(1).expect("a row with a name").trim().to_owned();
    table.lines().filter_map(|line| line.strip_prefix("INTERPOSE(")).map(name).collect()
}

/// The installed PHP.
struct Php {
    includes: Vec<String>,
    directory: PathBuf,
    name: String,
}

impl Php {
    fn find() -> Php {
        let named = env::var("PHP_CONFIG").ok();
        let candidates: Vec<&str> = match &named {
            Some(name) => vec![name],
            None => vec![
                "php-config8.2",
                "php-config8.4",
                "php-config8.3",
                "php-config8.5",
                "php-config",
            ],
        };
        let tool = candidates
            .iter()
            .copied()
            .find(|tool| ask(tool, "--version").is_some())
            .unwrap_or_else(|| {
                panic!(
                    "\n\nno php-config found (tried {}).\nInstall the development files and the \
                    embeddable library of \
                 PHP, on Debian 12:\n\n    apt-get install php8.2-dev libphp8.2-embed\n\nor set \
                 PHP_CONFIG to the \
                 php-config of another PHP, 8.2 to 8.5.\n",
                    candidates.join(", ")
                )
            });
        let wanted = |option| ask(tool, option).unwrap_or_else(|| panic!("{tool} {option} failed"));
        let version = wanted("--version");
        let short: String = version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
        let prefix = PathBuf::from(wanted("--prefix"));
        let (directory, library) = find_library(&prefix, &short).unwrap_or_else(|| {
            panic!(
                "\n\n{tool} is there (PHP {version}), but not its embeddable library: \
                    libphp{short}.so or libphp.so \
                 below {}.\nInstall it, on Debian:\n\n    apt-get install libphp{short}-embed\n",
                prefix.display()
            )
        });
        let includes = wanted("--includes")
            .split_whitespace()
            .filter_map(|flag| flag.strip_prefix("-I"))
            .map(str::to_owned)
            .collect();
        Php { includes, directory, name: library }
    }
}

/// Debian names the library after the version, so that several can be installed; PHP's own build
/// does not.
fn find_library(prefix: &Path, short: &str) -> Option<(PathBuf, String)> {
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let multiarch = format!("lib/{architecture}-linux-gnu");
    ["lib", multiarch.as_str(), "lib64"].iter().map(|part| prefix.join(part)).find_map(
        |directory| {
            [format!("php{short}"), "php".to_owned()]
                .into_iter()
                .find(|name| directory.join(format!("lib{name}.so")).exists())
                .map(|name| (directory, name))
        },
    )
}

fn ask(tool: &str, option: &str) -> Option<String> {
    let output = Command::new(tool).arg(option).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
