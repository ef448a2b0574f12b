use super::*;

fn one(line: &str) -> Call {
    match event(line).expect("a readable line") {
        (thread, time, Event::Whole(name, arguments, result, took)) => {
            call(thread, name, arguments, result, time, took)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_has_its_times_descriptors_and_path() {
    let call = one("7212  1795430606.472144000 newfstatat(AT_FDCWD<\\x2f\\x74>, \"\\x2f\\x61\", \
         {st_mode=S_IFREG|0644, st_size=20, ...}, 0) = 0 <0.000017001>");
    assert_eq!((call.thread, &*call.name), (7212, "newfstatat"));
    assert_eq!(call.end - call.start, 17_001);
    assert_eq!((call.path.as_deref(), call.error), (Some("/a"), None));
    assert_eq!(call.descriptors, []);
}

#[test]
fn sockets_are_identified_by_inode_and_peers_by_port() {
    let accept = one(
        "1 1.0 accept4(6<\\x73\\x6f\\x63\\x6b\\x65\\x74\\x3a\\x5b\\x31\\x5d>, {sa_family=AF_INET, \
         sin_port=htons(5001), sin_addr=inet_addr(\"\\x31\")}, [112 => 16], SOCK_NONBLOCK) = \
         3<\\x73\\x6f\\x63\\x6b\\x65\\x74\\x3a\\x5b\\x37\\x5d> <0.1>",
    );
    assert_eq!(accept.descriptors[0].target, Target::Socket(1));
    assert_eq!(accept.made.expect("a socket").target, Target::Socket(7));
    assert_eq!(accept.port, Some(5001));
    let six =
        one("1 1.0 accept(6<\\x73>, {sa_family=AF_INET6, sin6_port=htons(7)}, [1]) = 3 <0.1>");
    assert_eq!(six.port, Some(7));
}

#[test]
fn devices_pipes_and_deleted_files_are_told_apart() {
    let first = |text: &str| one(text).descriptors[0].target.clone();
    let null = first("1 1.0 write(2<\\x2f\\x6e<char 1:3>>, \"\"..., 6) = 6 <0.1>");
    assert_eq!(null, Target::Device("/n".into()));
    let deleted = first("1 1.0 fcntl(3<\\x2f\\x6e>(deleted), F_SETLK, {l_type=F_UNLCK}) = 0 <0.1>");
    assert_eq!(deleted, Target::File("/n".into()));
    let poll = one("1 1.0 poll([{fd=8<\\x61>, events=POLLIN}], 1, 5000) = 1 ([{fd=8, \
         revents=POLLIN}]) <0.1>");
    assert_eq!(poll.descriptors[0].number, 8);
    assert_eq!(poll.made, None);
}

#[test]
fn errors_are_named_and_calls_that_never_end_are_none() {
    let failed = one("1 1.0 read(3<\\x61>, 0x1, 8000) = -1 EAGAIN (Resource unavailable) <0.1>");
    assert_eq!(failed.error.as_deref(), Some("EAGAIN"));
    let restarted = one("1 1.0 futex(0x1, FUTEX_WAIT) = ? ERESTARTSYS (To be restarted) <0.1>");
    assert_eq!(restarted.error.as_deref(), Some("ERESTARTSYS"));
    for cut in ["exit_group(0) = ?", "read(3<\\x61>,  <detached ...>"] {
        assert_eq!(event(&format!("1 1.0 {cut}")).map(|(.., event)| event), Some(Event::Cut));
    }
}

#[test]
fn other_lines_are_refused() {
    for wrong in [
        "",
        "1",
        "1 2",
        "1 2.0",
        "x 1.0 close(3) = 0 <0.1>",
        "1 1 close(3) = 0 <0.1>",
        "1 1.0 close(3) = 0",
        "1 1.0 close(3 = 0 <0.1>",
        "1 1.0 cl ose(3) = 0 <0.1>",
        "1 1.0 close(3) = 0 <0.1234567890>",
        "1 99999999999999999999.0 close(3) = 0 <0.1>",
    ] {
        assert_eq!(event(wrong), None, "{wrong}");
    }
}

#[test]
fn contents_are_neither_taken_for_a_path_nor_shown_with_a_line_that_cannot_be_read() {
    for name in ["write", "sendto", "recvfrom", "pwrite64", "setsockopt"] {
        let call = one(&format!("1 1.0 {name}(3<\\x61>, \"\\x2f\\x73\\x65\", 3) = 3 <0.1>"));
        assert_eq!(call.path, None, "{name}");
    }
    for name in ["openat", "connect", "unlink", "getcwd", "statx"] {
        let call = one(&format!("1 1.0 {name}(\"\\x2f\\x61\") = 3 <0.1>"));
        assert_eq!(call.path.as_deref(), Some("/a"), "{name}");
    }
    let wrong = Unreadable { line: 7, text: "1 1.0 write(3, \"\\x73\\x65\", 2) - 2".to_owned() };
    let said = wrong.to_string();
    assert!(said.contains("write(3, \"…\", 2)") && !said.contains("x73"), "{said}");
}

#[test]
fn a_file_name_gives_no_orders_to_a_terminal() {
    let call = one("1 1.0 openat(3<\\x2f\\xc2\\x9b>, \"\\x2f\\x1b\\x5b\", O_RDONLY) = 4 <0.1>");
    assert_eq!(call.path.as_deref(), Some("/?["));
    assert_eq!(call.descriptors[0].target, Target::File("/?".to_owned()));
}
