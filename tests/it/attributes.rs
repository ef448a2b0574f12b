//! What the kernel keeps for a worker, changed by ways that no function of the server sees: system
//! calls of code in C, files below `/proc`. The next visitor has another process.

use serde_json::Value;

use crate::harness::{Kind, Server, Setup, is_root};

/// Those that root alone can, and those of everybody.
const OF_ROOT: [&str; 4] = ["setresuid", "setgroups", "unshare", "oom_score_adj"];
const OF_ALL: [&str; 2] = ["mprotect", "mremap"];

fn ask(server: &Server, what: &str) -> (Value, Value) {
    let mut seen = server.get(&format!("/index.php?do={what}")).expect(200).json();
    (seen["pid"].take(), seen["state"].take())
}

fn another_process_serves_the_next_visitor(kind: Kind) {
    let setup = Setup::new(kind).site("sites/attributes").bare().workers(1);
    let setup = setup.php_admin_value("ffi.enable", "1");
    let of_root = if is_root() { &OF_ROOT[..] } else { &[] };
    let server = setup.run_as_root().start();
    for way in OF_ALL.iter().chain(of_root) {
        let (_, clean) = ask(&server, "look");
        let (pid, polluted) = ask(&server, way);
        assert_ne!(polluted, clean, "{kind:?}, {way}: the change shows where it was made");
        let (next, seen) = ask(&server, "look");
        assert_eq!(seen, clean, "{kind:?}, {way}: {}", server.log());
        assert_ne!(next, pid, "{kind:?}, {way}: {}", server.log());
    }
}

#[test]
fn in_classic_mode() {
    another_process_serves_the_next_visitor(Kind::Classic);
}

#[test]
fn in_sealed_mode() {
    another_process_serves_the_next_visitor(Kind::Sealed);
}
