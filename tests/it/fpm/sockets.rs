//! Who may use a pool's socket.

use std::process::Command;

use super::client::{Client, Request};
use super::{pool, socket};

#[test]
fn users_and_groups_may_be_let_in_by_a_list() {
    let setup = pool(1).fpm_line("listen.mode = 0600").fpm_line("listen.acl_users = daemon,bin");
    let server = setup.fpm_line("listen.acl_groups = 5").start();
    let list =
        Command::new("getfacl").args(["-cpn"]).arg(socket(&server)).output().expect("getfacl");
    let list = String::from_utf8(list.stdout).expect("text");
    let expected =
        "user::rw-\nuser:1:rw-\nuser:2:rw-\ngroup::---\ngroup:5:rw-\nmask::rw-\nother::---\n\n";
    assert_eq!(list, expected);
    if crate::harness::is_root() {
        assert_eq!(
            Client::connect(&server).ask(&Request::new(&server, "/hello.php")).body(),
            "Hello from PHP"
        );
    }
}
