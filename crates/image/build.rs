//! Compiles the image manager, and tells the worker's build where its header is.

fn main() {
    println!("cargo:rerun-if-changed=c");
    let mut sources: Vec<_> = std::fs::read_dir("c")
        .expect("the directory c lies beside build.rs")
        .map(|entry| entry.expect("a readable directory").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    sources.sort();
    let mut build = cc::Build::new();
    build
        .files(sources)
        .std("gnu11")
        .define("_GNU_SOURCE", None)
        .warnings(true)
        .extra_warnings(true)
        // Each of these is a wrong program, whatever it does today.
        .flag("-Werror=incompatible-pointer-types")
        .flag("-Werror=int-conversion");
    build.compile("tokamak_image");
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo:include={here}/c");
}
