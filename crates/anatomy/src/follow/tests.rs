use super::*;
use crate::trace::Trace;

/// A web server (thread 1) between clients and a backend (thread 2), as strace writes it; `K` is
/// the server's end of the connection between the two, `L` the backend's, `C1` a client's, `S` and
/// `B` are where the two listen.
fn seen(text: &str) -> Trace {
    let hex = |inode: u64| {
        let path = format!("socket:[{inode}]");
        let bytes: String = path.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("<{bytes}>")
    };
    let names = [("<K>", 70), ("<L>", 80), ("<C1>", 51), ("<C2>", 52), ("<S>", 1), ("<B>", 2)];
    let mut text =
        names.iter().fold(text.to_owned(), |text, (name, inode)| text.replace(name, &hex(*inode)));
    text = text.replace("<log>", "<\\x2f\\x6c>");
    Trace::parse(&text).expect("a trace")
}

/// How the clients' connections and the one to the backend began.
const ACCEPTED: &str = "\
1 1.000000001 accept4(6<S>, {sin_port=htons(5001)}) = 3<C1> <0.000000001>
1 1.000000002 socket(AF_UNIX) = 11<K> <0.000000001>
1 1.000000003 connect(11<K>, {sun_path=\"\\x2f\\x62\"}) = 0 <0.000000001>
2 1.000000004 accept(12<B>, {}) = 5<L> <0.000000001>
";

fn purposes(text: &str, exchanges: &[Exchange]) -> Vec<(String, Option<Purpose>)> {
    let trace = seen(text);
    let processes = trace.calls.iter().map(|call| (call.thread, call.thread)).collect();
    let listeners = BTreeMap::from([(1, "80".to_owned()), (2, "/b".to_owned())]);
    let seen =
        Seen { calls: &trace.calls, processes: &processes, exchanges, listeners: &listeners };
    let purposes = follow(&seen);
    trace.calls.iter().map(|call| call.name.clone()).zip(purposes).collect()
}

fn at(port: u16, start: u64, end: u64) -> Exchange {
    Exchange { port, start: 1_000_000_000 + start, end: 1_000_000_000 + end }
}

#[test]
fn a_request_is_followed_to_the_backend_and_back() {
    let text = "\
1 1.000000010 accept4(6<S>, {sin_port=htons(5001)}) = 3<C1> <0.000000001>
1 1.000000020 recvfrom(3<C1>, \"\"..., 1024) = 79 <0.000000001>
1 1.000000022 newfstatat(AT_FDCWD<\\x2f>, \"\\x2f\\x61\", {}, 0) = 0 <0.000000001>
1 1.000000025 socket(AF_UNIX, SOCK_STREAM, 0) = 11<K> <0.000000001>
1 1.000000030 connect(11<K>, {sa_family=AF_UNIX, sun_path=\"\\x2f\\x62\"}, 110) = 0 <0.000000001>
2 1.000000035 accept(12<B>, {sa_family=AF_UNIX}) = 5<L> <0.000000001>
1 1.000000040 writev(11<K>, [], 1) = 528 <0.000000001>
2 1.000000045 read(5<L>, \"\", 8) = 8 <0.000000001>
2 1.000000050 getcwd(\"\\x2f\", 4095) = 2 <0.000000001>
2 1.000000055 openat(AT_FDCWD<\\x2f>, \"\\x2f\\x61\", O_RDONLY) = 7<\\x2f\\x61> <0.000000001>
2 1.000000056 read(7<\\x2f\\x61>, \"\", 8) = 8 <0.000000001>
2 1.000000057 write(6<log>, \"\", 8) = 8 <0.000000001>
2 1.000000060 write(5<L>, \"\", 72) = 72 <0.000000001>
1 1.000000036 epoll_wait(8<\\x65>, [], 512, 60000) = 1 <0.000000026>
1 1.000000065 recvfrom(11<K>, \"\"..., 4096) = 72 <0.000000001>
2 1.000000067 close(5<L>) = 0 <0.000000001>
1 1.000000070 close(11<K>) = 0 <0.000000001>
1 1.000000075 writev(3<C1>, [], 5) = 183 <0.000000001>
1 1.000000080 write(5<log>, \"\"..., 85) = 85 <0.000000001>
1 1.000000085 close(3<C1>) = 0 <0.000000001>
";
    let found = purposes(text, &[at(5001, 0, 78)]);
    let phases: Vec<Phase> = found
        .iter()
        .map(|(name, purpose)| purpose.unwrap_or_else(|| panic!("{name}")).phase)
        .collect();
    let expected = [
        Phase::Accept,
        Phase::ReadRequest,
        Phase::Files,
        Phase::Connect,
        Phase::Connect,
        Phase::BackendAccept,
        Phase::Send,
        Phase::BackendRead,
        Phase::BackendRun,
        Phase::BackendOpen,
        Phase::BackendFile,
        Phase::BackendLog,
        Phase::BackendRun,
        Phase::ReadResponse,
        Phase::ReadResponse,
        Phase::BackendClose,
        Phase::Disconnect,
        Phase::Respond,
        Phase::Log,
        Phase::Close,
    ];
    assert_eq!(phases, expected);
}

#[test]
fn a_kept_connection_belongs_to_the_request_that_was_sent_on_it_last() {
    let text = "\
1 1.000000010 recvfrom(3<C1>, \"\"..., 1024) = 79 <0.000000001>
1 1.000000012 getsockopt(11<K>, SOL_SOCKET, SO_ERROR, [0], [4]) = 0 <0.000000001>
1 1.000000015 writev(11<K>, [], 1) = 480 <0.000000009>
2 1.000000018 read(5<L>, \"\", 8) = 8 <0.000000001>
2 1.000000026 write(5<L>, \"\", 72) = 72 <0.000000001>
1 1.000000030 recvfrom(11<K>, \"\"..., 4096) = 72 <0.000000001>
1 1.000000035 writev(3<C1>, [], 5) = 183 <0.000000001>
1 1.000000110 recvfrom(3<C1>, \"\"..., 1024) = 79 <0.000000001>
1 1.000000112 getsockopt(11<K>, SOL_SOCKET, SO_ERROR, [0], [4]) = 0 <0.000000001>
1 1.000000115 writev(11<K>, [], 1) = 480 <0.000000009>
2 1.000000118 read(5<L>, \"\", 8) = 8 <0.000000001>
2 1.000000126 write(5<L>, \"\", 72) = 72 <0.000000001>
1 1.000000130 recvfrom(11<K>, \"\"..., 4096) = 72 <0.000000001>
1 1.000000135 writev(3<C1>, [], 5) = 183 <0.000000001>
";
    let found =
        &purposes(&(ACCEPTED.to_owned() + text), &[at(5001, 0, 40), at(5001, 100, 140)])[4..];
    let requests: Vec<usize> =
        found.iter().map(|(_, purpose)| purpose.expect("a purpose").request).collect();
    assert_eq!(requests, [[0; 7], [1; 7]].concat());
    assert_eq!(
        found[9],
        ("read".to_owned(), Some(Purpose { request: 1, phase: Phase::BackendRead }))
    );
}

#[test]
fn two_clients_at_once_are_told_apart() {
    let text = "\
1 1.000000010 recvfrom(3<C1>, \"\"..., 1024) = 79 <0.000000001>
1 1.000000012 newfstatat(AT_FDCWD<\\x2f>, \"\\x2f\\x61\", {}, 0) = 0 <0.000000001>
1 1.000000015 writev(11<K>, [], 1) = 480 <0.000000001>
1 1.000000016 epoll_wait(8<\\x65>, [], 512, 60000) = 1 <0.000000001>
1 1.000000019 accept4(6<S>, {sin_port=htons(5002)}) = 4<C2> <0.000000001>
1 1.000000020 recvfrom(4<C2>, \"\"..., 1024) = 79 <0.000000001>
2 1.000000021 getcwd(\"\\x2f\", 4095) = 2 <0.000000001>
2 1.000000022 write(5<L>, \"\", 72) = 72 <0.000000001>
1 1.000000024 writev(4<C2>, [], 5) = 183 <0.000000001>
1 1.000000028 epoll_wait(8<\\x65>, [], 512, 60000) = 1 <0.000000001>
1 1.000000030 recvfrom(11<K>, \"\"..., 4096) = 72 <0.000000001>
1 1.000000035 writev(3<C1>, [], 5) = 183 <0.000000001>
";
    let found = &purposes(&(ACCEPTED.to_owned() + text), &[at(5001, 0, 40), at(5002, 5, 30)])[4..];
    let requests: Vec<Option<usize>> =
        found.iter().map(|(_, purpose)| purpose.map(|purpose| purpose.request)).collect();
    let (one, two) = (Some(0), Some(1));
    assert_eq!(requests, [one, one, one, two, two, two, one, one, two, one, one, one]);
}

#[test]
fn idle_waits_and_timers_of_the_server_do_not_cut_what_the_backend_does() {
    let text = "\
1 1.000000010 recvfrom(3<C1>, \"\"..., 1024) = 79 <0.000000001>
1 1.000000015 writev(11<K>, [], 1) = 480 <0.000000001>
2 1.000000018 read(5<L>, \"\", 8) = 8 <0.000000001>
1 1.000000020 epoll_wait(8<\\x65>, [], 512, 10) = 0 <0.000000010>
1 1.000000031 epoll_wait(8<\\x65>, [], 512, 10) = 0 <0.000000010>
1 1.000000041 write(12<\\x65>, \"\", 8) = 8 <0.000000001>
2 1.000000020 clock_nanosleep(CLOCK_REALTIME, 0, {}, NULL) = 0 <0.000000030>
2 1.000000055 write(5<L>, \"\", 72) = 72 <0.000000001>
1 1.000000042 epoll_wait(8<\\x65>, [], 512, 10) = 1 <0.000000015>
1 1.000000060 recvfrom(11<K>, \"\"..., 4096) = 72 <0.000000001>
1 1.000000065 writev(3<C1>, [], 5) = 183 <0.000000001>
";
    let text = ACCEPTED.to_owned() + text;
    let exchanges = [at(5001, 0, 70)];
    let found = purposes(&text, &exchanges);
    let waits: Vec<Option<Purpose>> =
        found.iter().filter(|(name, _)| name == "epoll_wait").map(|found| found.1).collect();
    assert_eq!(waits, [None, None, Some(Purpose { request: 0, phase: Phase::ReadResponse })]);
    assert!(found.contains(&("write".to_owned(), None)), "{found:?}");
    let purposes: Vec<Option<Purpose>> = found.into_iter().map(|(_, purpose)| purpose).collect();
    let pieces = crate::account::pieces(&seen(&text).calls, &purposes, &exchanges);
    let run = pieces[0].iter().filter(|piece| piece.phase == Phase::BackendRun);
    assert_eq!(run.map(|piece| piece.length).sum::<u64>(), 56 - 19);
}

#[test]
fn the_timer_of_a_page_in_an_event_loop_is_that_of_its_request() {
    let text = "\
1 1.000000001 accept4(6<S>, {sin_port=htons(5001)}) = 3<C1> <0.000000001>
1 1.000000010 recvfrom(3<C1>, \"\"..., 1024) = 79 <0.000000001>
1 1.000000012 write(12<\\x65>, \"\", 8) = 8 <0.000000001>
2 1.000000001 epoll_pwait2(8<\\x65>, [], 512, NULL) = 1 <0.000000013>
2 1.000000015 epoll_pwait2(8<\\x65>, [], 512, {}) = 0 <0.000000020>
2 1.000000040 write(13<\\x65>, \"\", 8) = 8 <0.000000001>
1 1.000000045 writev(3<C1>, [], 5) = 183 <0.000000001>
2 1.000000042 epoll_pwait2(8<\\x65>, [], 512, {}) = 0 <0.000000030>
2 1.000000073 write(13<\\x65>, \"\", 8) = 8 <0.000000001>
";
    let found = purposes(text, &[at(5001, 0, 50)]);
    let of_worker: Vec<Option<Purpose>> = found
        .iter()
        .filter(|(name, purpose)| {
            name.starts_with("epoll")
                || *purpose == Some(Purpose { request: 0, phase: Phase::BackendRun })
        })
        .map(|found| found.1)
        .collect();
    let run = Some(Purpose { request: 0, phase: Phase::BackendRun });
    assert_eq!(
        of_worker,
        [None, run, run, Some(Purpose { request: 0, phase: Phase::Close })],
        "{found:?}"
    );
}
