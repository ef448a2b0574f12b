//! Async mode: what waits, waits without holding others.
//!
//! Nothing here is measured. Two requests of one worker need each other: the first waits for
//! something that only the second does. A wait that held the worker would last for ever.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use crate::concurrent::{site, texts};
use crate::harness::extensions::{EXTENSIONS, extension_directory};
use crate::harness::*;

/// `$n` is the request's number, `$fifo` a named pipe and `$own` the beginning of file names of the
/// row alone; `$until` waits for what a function says; `$c` is libc.
const BEGIN: &str = r"<?php
$n = (int) $_GET['n'];
$own = __DIR__ . '/row' . $_GET['row'];
$fifo = $own . '.fifo';
@posix_mkfifo($fifo, 0600);
$until = function ($holds) { while (!$holds()) usleep(1000); };
$c = FFI::cdef('
    typedef unsigned long size_t; typedef long ssize_t; typedef unsigned int socklen_t;
    struct timespec { long s, ns; };
    struct iovec { void *at; size_t len; };
    struct msghdr { void *name; socklen_t name_len; struct iovec *parts; size_t count;
        void *control; size_t control_len; int flags; };
    struct pollfd { int fd; short events, revents; };
    struct epoll_event { unsigned events; unsigned data[2]; };
    struct flock { short type, whence; long start, len; int pid; };
    int socketpair(int, int, int, int *);
    int pipe(int *);
    ssize_t read(int, void *, size_t);
    ssize_t __read_chk(int, void *, size_t, size_t);
    ssize_t readv(int, const struct iovec *, int);
    ssize_t recv(int, void *, size_t, int);
    ssize_t __recv_chk(int, void *, size_t, size_t, int);
    ssize_t recvfrom(int, void *, size_t, int, void *, void *);
    ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, void *, void *);
    ssize_t recvmsg(int, struct msghdr *, int);
    ssize_t write(int, const char *, size_t);
    ssize_t writev(int, const struct iovec *, int);
    ssize_t send(int, const char *, size_t, int);
    ssize_t sendto(int, const char *, size_t, int, void *, socklen_t);
    ssize_t sendmsg(int, const struct msghdr *, int);
    int poll(struct pollfd *, unsigned long, int);
    int __poll_chk(struct pollfd *, unsigned long, int, size_t);
    int ppoll(struct pollfd *, unsigned long, const struct timespec *, const void *);
    int __ppoll_chk(struct pollfd *, unsigned long, const struct timespec *, const void *, size_t);
    int select(int, void *, void *, void *, void *);
    int pselect(int, void *, void *, void *, const struct timespec *, const void *);
    int epoll_create1(int);
    int epoll_ctl(int, int, int, struct epoll_event *);
    int epoll_wait(int, struct epoll_event *, int, int);
    int epoll_pwait(int, struct epoll_event *, int, int, const void *);
    int epoll_pwait2(int, struct epoll_event *, int, const struct timespec *, const void *);
    int system(const char *);
    int waitid(int, unsigned, void *, int);
    int wait4(int, int *, int, void *);
    int fcntl(int, int, struct flock *);
    int lockf(int, int, long);
    int open(const char *, int, int);
    int close(int);
    int close_range(unsigned, unsigned, int);
');
";

/// Serves the code in all of its rows to requests 1 and 2, and compares what they say.
fn dance<'a>(rows: impl IntoIterator<Item = (String, String, [&'a str; 2])>) {
    let rows: Vec<_> = rows.into_iter().collect();
    let names: Vec<_> = (0..rows.len()).map(|i| format!("row{i}.php")).collect();
    let codes: Vec<_> = rows.iter().map(|(_, code, _)| format!("{BEGIN}{code}")).collect();
    let files: Vec<_> = names.iter().zip(&codes).map(|(n, c)| (n.as_str(), c.as_str())).collect();
    let mail = "sh -c 'cat >/dev/null; read x < %root%/mail.fifo'";
    for seed in ["0", "5"] {
        let settings = [("seed", seed), ("ini.ffi.enable", "1"), ("ini.sendmail_path", mail)];
        let mut site = site(&files, &settings);
        for (i, (name, _, expected)) in rows.iter().enumerate() {
            let asks = [1, 2].map(|n| get(&format!("/row{i}.php?n={n}&row={i}")));
            let answers = texts(&site.ask_all(&asks));
            assert_eq!(answers, expected, "{name}, seed {seed}\n{}", site.log());
        }
        assert_eq!(site.log(), "");
    }
}

fn owned<'a>(rows: &[(&str, &str, [&'a str; 2])]) -> Vec<(String, String, [&'a str; 2])> {
    rows.iter().map(|(name, code, says)| ((*name).into(), (*code).into(), *says)).collect()
}

#[test]
fn pipes_and_programs() {
    dance(owned(&[
        (
            "named pipe, read first",
            "if ($n == 1) { echo fgets(fopen($fifo, 'r')); }
             else { fwrite(fopen($fifo, 'w'), 'hello'); echo 'sent'; }",
            ["hello", "sent"],
        ),
        (
            "named pipe, written first",
            "if ($n == 2) { echo fgets(fopen($fifo, 'r')); }
             else { fwrite(fopen($fifo, 'w'), 'hello'); echo 'sent'; }",
            ["sent", "hello"],
        ),
        (
            "full pipe",
            "if ($n == 1) { echo fwrite(fopen($fifo, 'w'), str_repeat('x', 1 << 20)); }
             else { $f = fopen($fifo, 'r'); usleep(2000); echo strlen(stream_get_contents($f)); }",
            ["1048576", "1048576"],
        ),
        (
            "closed with others, while it is read",
            "if ($n == 1) {
                 $p = FFI::new('int[2]'); $c->pipe($p); file_put_contents($own, $p[0]);
                 echo $c->read($p[0], FFI::new('char[4]'), 4);
             } else {
                 $until(fn() => is_file($own)); $fd = (int) file_get_contents($own);
                 echo $c->close_range($fd, $fd, 0);
             }",
            ["-1", "0"],
        ),
        (
            "closed with all that are above it, while it is read",
            "if ($n == 1) {
                 $p = FFI::new('int[2]');
                 do { $c->pipe($p); } while ($p[0] < 200);
                 file_put_contents($own, $p[0]);
                 echo $c->read($p[0], FFI::new('char[4]'), 4);
             } else {
                 $until(fn() => is_file($own)); $fd = (int) file_get_contents($own);
                 echo $c->close_range($fd, 0xffffffff, 0);
             }",
            ["-1", "0"],
        ),
        (
            "number of a file that is a pipe now",
            "if ($n == 1) {
                 $f = fopen(\"$own.txt\", 'w+'); fwrite($f, 'text'); rewind($f); echo fread($f, 9);
                 fclose($f); echo ' ', fgets(fopen($fifo, 'r'));
             } else { fwrite(fopen($fifo, 'w'), 'hello'); echo 'sent'; }",
            ["text hello", "sent"],
        ),
        (
            "program's output",
            "if ($n == 1) { echo fgets(popen(\"cat $fifo\", 'r')); }
             else { echo file_put_contents($fifo, 'hello'); }",
            ["hello", "5"],
        ),
        (
            "exec",
            "if ($n == 1) { echo exec(\"cat $fifo\"); } else { echo file_put_contents($fifo, 'hi'); }",
            ["hi", "2"],
        ),
        (
            "pclose",
            "if ($n == 1) { $p = popen(\"read x < $fifo; exit 3\", 'w'); echo pclose($p); }
             else { echo file_put_contents($fifo, \"x\\n\"); }",
            ["3", "2"],
        ),
        (
            "mail",
            "$fifo = __DIR__ . '/mail.fifo'; @posix_mkfifo($fifo, 0600);
             if ($n == 1) { var_export(mail('a@test', 'b', 'c')); }
             else { echo file_put_contents($fifo, \"x\\n\"); }",
            ["true", "2"],
        ),
        (
            "proc_close",
            "if ($n == 1) { $p = proc_open(\"read x < $fifo; exit 4\", [], $pipes);
                 echo proc_close($p); }
             else { echo file_put_contents($fifo, \"x\\n\"); }",
            ["4", "2"],
        ),
        (
            "system of libc",
            "if ($n == 1) { echo $c->system(\"read x < $fifo; exit 5\") >> 8; }
             else { echo file_put_contents($fifo, \"x\\n\"); }",
            ["5", "2"],
        ),
        (
            "signal to a program by system of libc",
            "if ($n == 1) { echo $c->system(\"read x < $fifo; kill -TERM \\$\\$; exit 5\"); }
             else { echo file_put_contents($fifo, \"x\\n\"); }",
            ["15", "2"],
        ),
        (
            "pcntl_waitpid",
            "if ($n == 1) { $p = proc_open(\"read x < $fifo; exit 6\", [], $pipes);
                 pcntl_waitpid(proc_get_status($p)['pid'], $s); echo pcntl_wexitstatus($s); }
             else { echo file_put_contents($fifo, \"x\\n\"); }",
            ["6", "2"],
        ),
        (
            "pcntl_wait",
            "if ($n == 1) { $p = proc_open(\"read x < $fifo; exit 7\", [], $pipes);
                 pcntl_wait($s, 0, $usage); echo pcntl_wexitstatus($s); }
             else { echo file_put_contents($fifo, \"x\\n\"); }",
            ["7", "2"],
        ),
        (
            "wait4",
            "if ($n == 1) { $p = proc_open(\"read x < $fifo; exit 8\", [], $pipes);
                 $s = FFI::new('int'); $c->wait4(-1, FFI::addr($s), 0, null); echo $s->cdata >> 8; }
             else { echo file_put_contents($fifo, \"x\\n\"); }",
            ["8", "2"],
        ),
        (
            "waitid",
            "if ($n == 1) { $p = proc_open(\"read x < $fifo; exit 9\", [], $pipes);
                 $i = FFI::new('int[32]');
                 echo $c->waitid(1, proc_get_status($p)['pid'], $i, 4), ' ', $i[6]; }
             else { echo file_put_contents($fifo, \"x\\n\"); }",
            ["0 9", "2"],
        ),
        (
            "pcntl_sigwaitinfo",
            "if ($n == 1) { pcntl_sigprocmask(SIG_BLOCK, [SIGUSR2]); touch($own);
                 echo pcntl_sigwaitinfo([SIGUSR2]) === SIGUSR2 ? 'heard' : 'not'; }
             else { $until(fn() => file_exists($own)); posix_kill(getmypid(), SIGUSR2);
                 echo 'sent'; }",
            ["heard", "sent"],
        ),
        (
            "pcntl_sigtimedwait",
            "if ($n == 1) { pcntl_sigprocmask(SIG_BLOCK, [SIGUSR2]); touch($own);
                 echo pcntl_sigtimedwait([SIGUSR2], $i, 60) === SIGUSR2 ? 'heard' : 'not'; }
             else { $until(fn() => file_exists($own)); posix_kill(getmypid(), SIGUSR2);
                 echo 'sent'; }",
            ["heard", "sent"],
        ),
    ]));
}

#[test]
fn messages_and_sockets() {
    dance(owned(&[
        (
            "msg_receive",
            "$q = msg_get_queue(ftok(__FILE__, 'a'));
             if ($n == 1) { msg_receive($q, 0, $type, 100, $m); echo $m; msg_remove_queue($q); }
             else { msg_send($q, 1, 'hello'); echo 'sent'; }",
            ["hello", "sent"],
        ),
        (
            "msg_send to a full queue",
            "$q = msg_get_queue(ftok(__FILE__, 'b'));
             if ($n == 1) { for ($i = 0; $i < 40; $i++) msg_send($q, 1, str_repeat('x', 1000), false);
                 echo 'sent'; }
             else { for ($i = 0; $i < 40; $i++) msg_receive($q, 0, $type, 2000, $m, false);
                 echo strlen($m); msg_remove_queue($q); }",
            ["sent", "1000"],
        ),
        (
            "sem_acquire",
            "$s = sem_get(ftok(__FILE__, 'c'));
             if ($n == 1) { sem_acquire($s); touch($own); $until(fn() => file_exists(\"$own.asked\"));
                 usleep(1000); sem_release($s); echo 'released'; }
             else { $until(fn() => file_exists($own)); touch(\"$own.asked\"); sem_acquire($s);
                 echo 'acquired'; sem_release($s); sem_remove($s); }",
            ["released", "acquired"],
        ),
        (
            "connect to one who has not accepted",
            "if ($n == 1) {
                 $s = socket_create(AF_UNIX, SOCK_STREAM, 0); socket_bind($s, \"$own.sock\");
                 socket_listen($s, 0); $one = socket_create(AF_UNIX, SOCK_STREAM, 0);
                 socket_connect($one, \"$own.sock\"); touch($own);
                 $until(fn() => file_exists(\"$own.asks\"));
                 $a = socket_accept($s); $b = socket_accept($s); echo socket_read($b, 9);
             } else {
                 $until(fn() => file_exists($own)); touch(\"$own.asks\");
                 $two = socket_create(AF_UNIX, SOCK_STREAM, 0);
                 var_export(socket_connect($two, \"$own.sock\")); socket_write($two, 'hello');
             }",
            ["hello", "true"],
        ),
        (
            "stream_socket_accept, and a full socket",
            "if ($n == 1) {
                 $s = stream_socket_server(\"unix://$own.sock\"); $a = stream_socket_accept($s, 60);
                 echo strlen(stream_get_contents($a));
             } else {
                 $until(fn() => file_exists(\"$own.sock\"));
                 $a = stream_socket_client(\"unix://$own.sock\");
                 echo fwrite($a, str_repeat('x', 1 << 20));
             }",
            ["1048576", "1048576"],
        ),
        (
            "TLS",
            "if ($n == 1) {
                 $key = openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_EC,
                     'curve_name' => 'prime256v1']);
                 $asked = openssl_csr_new(['commonName' => 'test'], $key);
                 openssl_x509_export(openssl_csr_sign($asked, null, $key, 1), $certificate);
                 openssl_pkey_export($key, $secret);
                 file_put_contents(\"$own.pem\", $certificate . $secret);
                 $s = stream_socket_server('tls://127.0.0.1:0', $e, $m, 12,
                     stream_context_create(['ssl' => ['local_cert' => \"$own.pem\"]]));
                 file_put_contents(\"$own.new\", stream_socket_get_name($s, false));
                 rename(\"$own.new\", $own);
                 $a = stream_socket_accept($s, 60); fwrite($a, fgets($a));
                 echo 'served';
             } else {
                 $until(fn() => file_exists($own));
                 $a = stream_socket_client('tls://' . file_get_contents($own), $e, $m, 60,
                     STREAM_CLIENT_CONNECT, stream_context_create(['ssl' =>
                         ['verify_peer' => false, 'verify_peer_name' => false]]));
                 fwrite($a, \"hello\\n\"); echo fgets($a);
             }",
            ["served", "hello\n"],
        ),
    ]));
}

/// How five bytes are read from `$fd` to `$b`, or waited for.
const READS: &[(&str, &str)] = &[
    ("read", "$c->read($fd, $b, 5);"),
    ("__read_chk", "$c->__read_chk($fd, $b, 5, 16);"),
    ("readv", "$c->readv($fd, FFI::addr($part), 1);"),
    ("recv", "$c->recv($fd, $b, 5, 0);"),
    ("recv of all", "$c->recv($fd, $b, 5, 0x100);"),
    ("__recv_chk", "$c->__recv_chk($fd, $b, 5, 16, 0);"),
    ("recvfrom", "$c->recvfrom($fd, $b, 5, 0, null, null);"),
    ("__recvfrom_chk", "$c->__recvfrom_chk($fd, $b, 5, 16, 0, null, null);"),
    ("recvmsg", "$c->recvmsg($fd, FFI::addr($message), 0);"),
    ("poll", "$c->poll(FFI::addr($ask), 1, -1); $c->recv($fd, $b, 5, 0x40);"),
    ("__poll_chk", "$c->__poll_chk(FFI::addr($ask), 1, -1, 8); $c->recv($fd, $b, 5, 0x40);"),
    ("ppoll", "$c->ppoll(FFI::addr($ask), 1, null, null); $c->recv($fd, $b, 5, 0x40);"),
    (
        "__ppoll_chk",
        "$c->__ppoll_chk(FFI::addr($ask), 1, null, null, 8); $c->recv($fd, $b, 5, 0x40);",
    ),
    ("select", "$c->select($fd + 1, $set, null, null, null); $c->recv($fd, $b, 5, 0x40);"),
    ("pselect", "$c->pselect($fd + 1, $set, null, null, null, null); $c->recv($fd, $b, 5, 0x40);"),
    ("epoll_wait", "$c->epoll_wait($epoll, $event, 1, -1); $c->recv($fd, $b, 5, 0x40);"),
    ("epoll_pwait", "$c->epoll_pwait($epoll, $event, 1, -1, null); $c->recv($fd, $b, 5, 0x40);"),
    (
        "epoll_pwait2",
        "$c->epoll_pwait2($epoll, $event, 1, null, null); $c->recv($fd, $b, 5, 0x40);",
    ),
];

/// What request 1 has made, both find: constants, statics and globals are the worker's.
const PAIR: &str = "if ($n == 1) { $pair = FFI::new('int[2]'); $make($pair);
         $GLOBALS[\"pair$own\"] = $pair; }
     else { $until(fn() => isset($GLOBALS[\"pair$own\"])); $pair = $GLOBALS[\"pair$own\"]; }
     ";

#[test]
fn functions_of_libc_that_read() {
    let code = |make: &str, read: &str| {
        format!(
            "$make = function ($pair) use ($c) {{ {make} }};
             {PAIR}
             if ($n == 1) {{
                 $fd = $pair[0]; $b = FFI::new('char[16]');
                 $part = $c->new('struct iovec'); $part->at = FFI::addr($b); $part->len = 5;
                 $message = $c->new('struct msghdr'); $message->parts = FFI::addr($part);
                 $message->count = 1;
                 $ask = $c->new('struct pollfd'); $ask->fd = $fd; $ask->events = 1;
                 $set = FFI::new('unsigned long[16]'); $set[intdiv($fd, 64)] = 1 << $fd % 64;
                 $epoll = $c->epoll_create1(0); $event = $c->new('struct epoll_event[1]');
                 $event[0]->events = 1; $c->epoll_ctl($epoll, 1, $fd, FFI::addr($event[0]));
                 {read}
                 echo FFI::string($b, 5); $c->close($epoll);
             }} else {{
                 if (strpos('{read}', '0x100')) {{ $c->write($pair[1], 'he', 2); usleep(2000);
                     $c->write($pair[1], 'llo', 3); }}
                 else {{ $c->write($pair[1], 'hello', 5); }}
                 echo 'sent';
             }}"
        )
    };
    let says = ["hello", "sent"];
    let sockets = READS.iter().map(|(name, read)| {
        ((*name).to_owned(), code("$c->socketpair(1, 1, 0, $pair);", read), says)
    });
    let pipes = READS[..3]
        .iter()
        .map(|(name, read)| (format!("{name} of a pipe"), code("$c->pipe($pair);", read), says));
    dance(sockets.chain(pipes));
}

/// Drivers look whether the server is there right after they have sent something, and are told
/// without a system call. A script that calls libc itself sees what is there.
#[test]
fn what_a_script_looks_for_right_after_it_has_sent_something_is_there() {
    let look = "
        $pair = $c->new('int[2]'); $c->socketpair(1, 1, 0, $pair); $b = FFI::new('char[16]');
        $c->write($pair[1], 'hello', 5);
        $c->send($pair[0], 'x', 1, 0);
        echo $c->recv($pair[0], $b, 16, 0x42), ' ', FFI::string($b, 5);";
    dance(owned(&[("peek", look, ["5 hello", "5 hello"])]));
}

/// How a million of bytes is written to `$fd`.
const WRITES: &[(&str, &str)] = &[
    ("write", "echo $c->write($fd, $text, 1 << 20);"),
    ("writev", "echo $c->writev($fd, $parts, 2);"),
    ("send", "echo $c->send($fd, $text, 1 << 20, 0);"),
    ("sendto", "echo $c->sendto($fd, $text, 1 << 20, 0, null, 0);"),
    ("sendmsg", "echo $c->sendmsg($fd, FFI::addr($message), 0);"),
];

#[test]
fn functions_of_libc_that_write() {
    let code = |make: &str, write: &str| {
        format!(
            "$make = function ($pair) use ($c) {{ {make} }};
             {PAIR}
             if ($n == 1) {{
                 $fd = $pair[1]; $text = str_repeat('x', 1 << 20);
                 $b = FFI::new('char[1048576]'); $parts = $c->new('struct iovec[2]');
                 foreach ([0, 1] as $i) {{ $parts[$i]->at = FFI::addr($b[$i << 19]);
                     $parts[$i]->len = 1 << 19; }}
                 $message = $c->new('struct msghdr'); $message->parts = FFI::addr($parts[0]);
                 $message->count = 2;
                 {write}
             }} else {{
                 usleep(2000); $b = FFI::new('char[65536]');
                 for ($got = 0; $got < 1 << 20; $got += $c->read($pair[0], $b, 65536));
                 echo $got;
             }}"
        )
    };
    let says = ["1048576", "1048576"];
    let sockets = WRITES.iter().map(|(name, write)| {
        ((*name).to_owned(), code("$c->socketpair(1, 1, 0, $pair);", write), says)
    });
    let pipes = WRITES[..2]
        .iter()
        .map(|(name, write)| (format!("{name} to a pipe"), code("$c->pipe($pair);", write), says));
    dance(sockets.chain(pipes));
}

/// Ways to let only one request at a time do something.
const LOCKS: &[(&str, &str, &str)] = &[
    ("flock", "$f = fopen(\"$own.lock\", 'c'); flock($f, LOCK_EX);", "flock($f, LOCK_UN);"),
    (
        "flock until it is closed",
        "$f = fopen(\"$own.lock\", 'c'); flock($f, LOCK_EX);",
        "fclose($f);",
    ),
    (
        "fcntl",
        "$fd = $c->open(\"$own.lock\", 0102, 0600); $l = $c->new('struct flock'); $l->type = 1;
         $c->fcntl($fd, 7, FFI::addr($l));",
        "$l->type = 2; $c->fcntl($fd, 6, FFI::addr($l)); $c->close($fd);",
    ),
    (
        "fcntl until it is closed",
        "$fd = $c->open(\"$own.lock\", 0102, 0600); $l = $c->new('struct flock'); $l->type = 1;
         $c->fcntl($fd, 7, FFI::addr($l));",
        "$c->close($fd);",
    ),
    (
        "lockf",
        "$fd = $c->open(\"$own.lock\", 0102, 0600); $c->lockf($fd, 1, 0);",
        "$c->lockf($fd, 0, 0); $c->close($fd);",
    ),
    ("semaphore", "$s = sem_get(ftok(__FILE__, 'l')); sem_acquire($s);", "sem_release($s);"),
];

#[test]
fn locks_exclude_requests_of_one_worker() {
    const COUNT: usize = 12;
    let names: Vec<_> = (0..LOCKS.len()).map(|i| format!("row{i}.php")).collect();
    let codes = LOCKS.iter().map(|(_, lock, unlock)| {
        format!(
            "{BEGIN} for ($i = 0; $i < 5; $i++) {{
                 {lock}
                 $count = (int) @file_get_contents($own); usleep(10);
                 file_put_contents($own, $count + 1);
                 {unlock}
             }}
             echo 'counted';"
        )
    });
    let codes: Vec<_> = codes.collect();
    let files: Vec<_> = names.iter().zip(&codes).map(|(n, c)| (n.as_str(), c.as_str())).collect();
    for seed in ["0", "6"] {
        let mut site = site(&files, &[("seed", seed), ("ini.ffi.enable", "1")]);
        for (i, (name, ..)) in LOCKS.iter().enumerate() {
            let ask = get(&format!("/row{i}.php?n=1&row={i}"));
            let answers = texts(&site.ask_all(&vec![ask; COUNT]));
            assert_eq!(answers, ["counted"; COUNT], "{name}, seed {seed}\n{}", site.log());
            let count = std::fs::read_to_string(site.file(&format!("row{i}"))).unwrap_or_default();
            assert_eq!(count, (5 * COUNT).to_string(), "{name}, seed {seed}");
        }
        assert_eq!(site.log(), "");
    }
}

#[test]
fn a_lock_goes_to_the_longest_waiter() {
    let code = "<?php $f = fopen(__DIR__ . '/lock', 'c'); flock($f, LOCK_EX); usleep(1000);
        file_put_contents(__DIR__ . '/order', $_GET['n'] . ' ', FILE_APPEND); flock($f, LOCK_UN);";
    let mut site = site(&[("lock.php", code)], &[]);
    let asks: Vec<_> = (10..30).map(|n| get(&format!("/lock.php?n={n}"))).collect();
    site.ask_all(&asks);
    let order: String = (10..30).map(|n| format!("{n} ")).collect();
    assert_eq!(std::fs::read_to_string(site.file("order")).unwrap(), order, "{}", site.log());
}

#[test]
fn a_lock_that_cannot_be_released_is_given_up() {
    let mut site = site(
        &[
            (
                "holds.php",
                "<?php $f = fopen(__DIR__ . '/lock', 'c'); flock($f, LOCK_EX);
                 while (!file_exists(__DIR__ . '/answered')) usleep(1000);
                 flock($f, LOCK_UN); echo 'held';",
            ),
            (
                "autoload.php",
                "<?php spl_autoload_register(function ($class) {
                     $f = fopen(__DIR__ . '/lock', 'c');
                     echo flock($f, LOCK_EX) ? 'locked' : 'not locked';
                     eval(\"class $class {}\"); });
                 new Wanted; touch(__DIR__ . '/answered');",
            ),
        ],
        &[],
    );
    let answers = texts(&site.ask_all(&[get("/holds.php"), get("/autoload.php?a=b")]));
    assert_eq!(answers, ["held", "not locked"], "{}", site.log());
    let line = site.wait_for_log("given up");
    assert!(line.contains("flock()") && line.contains("/autoload.php?a=b"), "{line}");
    // Told when the next request comes.
    assert_eq!(site.get("/holds.php").text(), "held");
    // Anything else that lasts a millisecond where nobody else can run is counted too.
    assert_ne!(site.producer.segment().board(0).held, 0);
}

#[test]
fn one_database_of_sqlite_is_written_by_many_requests() {
    const COUNT: usize = 8;
    let code = "<?php
        $db = new PDO('sqlite:' . __DIR__ . '/data', null, null, [PDO::ATTR_TIMEOUT => 60]);
        $db->exec('CREATE TABLE IF NOT EXISTS t (n INTEGER)');
        for ($i = 0; $i < 10; $i++) {
            $db->exec('BEGIN IMMEDIATE'); usleep(100);
            $db->exec('INSERT INTO t VALUES (1)'); usleep(100);
            $db->exec('COMMIT');
        }
        echo 'written';";
    let count = "<?php $db = new PDO('sqlite:' . __DIR__ . '/data');
        echo $db->query('SELECT count(*) FROM t')->fetchColumn();";
    for seed in ["0", "8"] {
        let mut site = site(&[("write.php", code), ("count.php", count)], &[("seed", seed)]);
        let answers = texts(&site.ask_all(&vec![get("/write.php"); COUNT]));
        assert_eq!(answers, ["written"; COUNT], "seed {seed}\n{}", site.log());
        assert_eq!(site.get("/count.php").text(), (10 * COUNT).to_string(), "{}", site.log());
    }
}

/// Functions of libc that may wait for others, or for time.
const WAITING: &str = "__fgets_chk __fread_chk __getdelim __poll_chk __ppoll_chk __read_chk \
    __recv_chk __recvfrom_chk __res_ninit __syslog_chk accept accept4 clock_nanosleep connect \
    copy_file_range epoll_pwait epoll_pwait2 epoll_wait fcntl fcntl64 fdatasync fgetc fgets flock \
    fread fsync getaddrinfo getaddrinfo_a getc getdelim getgrgid_r getgrnam getgrnam_r \
    gethostbyaddr gethostbyaddr_r gethostbyname gethostbyname2 gethostbyname2_r gethostbyname_r \
    getline getnameinfo getprotobyname getprotobynumber getpwnam getpwnam_r getpwuid getpwuid_r \
    getservbyname getservbyname_r getservbyport initgroups lockf lockf64 mq_receive mq_send \
    mq_timedreceive mq_timedsend msgrcv msgsnd nanosleep open open64 openat openat64 pause pclose \
    poll popen ppoll preadv preadv2 pselect pthread_cond_timedwait pthread_cond_wait pthread_join \
    pthread_mutex_lock pthread_mutex_timedlock pthread_rwlock_rdlock pthread_rwlock_wrlock pwritev \
    read readv recv recvfrom recvmmsg recvmsg res_nquery res_nsearch res_query res_search select \
    sem_timedwait sem_wait semop semtimedop send sendfile sendfile64 sendmmsg sendmsg sendto \
    sigsuspend sigtimedwait sigwait sigwaitinfo sleep splice syscall syslog system tcdrain usleep \
    wait wait3 wait4 waitid waitpid write writev";

/// Those that extensions and their libraries call and that hold a worker, and why they may.
const HOLDING: &[(&str, &str)] = &[
    ("__res_ninit", "reads a file"),
    ("__syslog_chk", "the system's log takes lines at once"),
    ("copy_file_range fdatasync fsync sendfile sendfile64 splice", "files"),
    ("__fgets_chk __fread_chk __getdelim fgetc fgets fread getc getdelim getline", "files"),
    ("openat openat64", "of directories, not of named pipes"),
    ("getgrgid_r getgrnam getgrnam_r getpwnam getpwnam_r getpwuid getpwuid_r", "files"),
    ("getprotobyname getprotobynumber getservbyname getservbyname_r getservbyport", "files"),
    ("pthread_cond_timedwait pthread_cond_wait pthread_join", "threads of the library, at work"),
    ("sem_timedwait sem_wait", "threads of the library, at work"),
    ("pause", "Rust's library: a thread that calls exit() while another one does"),
    ("pthread_rwlock_rdlock pthread_rwlock_wrlock", "held for a moment"),
    ("recvmmsg sendmmsg", "QUIC of OpenSSL and libcurl: sockets that do not block"),
    ("sigwait", "libpq: for a signal that has come"),
    ("syscall", "futexes and random numbers"),
    ("syslog", "the system's log takes lines at once"),
];

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// PHP, the extensions that the set-up brings, and all libraries of them. What else a machine has
/// is only listed.
fn installed() -> BTreeSet<String> {
    let files = std::fs::read_dir(extension_directory()).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let (known, others): (Vec<PathBuf>, Vec<PathBuf>) =
        files.filter(|file| file.extension().is_some_and(|it| it == "so")).partition(|file| {
            let name = file.file_stem().and_then(OsStr::to_str).unwrap_or_default();
            ["opcache", "zmq"].contains(&name) || EXTENSIONS.contains(&name)
        });
    println!("not judged, since the set-up does not bring them: {others:?}");
    let mut all: BTreeSet<_> =
        known.iter().filter_map(|path| path.to_str().map(str::to_owned)).collect();
    all.insert(env!("CARGO_BIN_EXE_tokamak-php").to_owned());
    for path in all.clone() {
        for line in output("ldd", &[&path]).lines() {
            let library = line.split("=> ").nth(1).and_then(|rest| rest.split(' ').next());
            all.extend(library.filter(|l| l.starts_with('/')).map(str::to_owned));
        }
    }
    all.retain(|path| {
        let name = path.rsplit('/').next().unwrap_or_default();
        !["libc.so.6", "tokamak-php"].contains(&name)
    });
    all
}

/// The names that a library wants of others.
fn wanted_by(path: &str) -> BTreeSet<String> {
    let symbols = output("readelf", &["-W", "--dyn-syms", path]);
    let undefined = symbols.lines().filter(|line| line.contains(" UND "));
    let name = |line: &str| line.split_whitespace().nth(7).map(str::to_owned);
    undefined
        .filter_map(name)
        .map(|name| name.split('@').next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn calls_in_which_installed_libraries_wait_are_known() {
    let table = include_str!("../../c/top/interpose.c");
    let name = |row: &str| row.split(',').nth(1).map(|name| name.trim().to_owned());
    let interposed: BTreeSet<_> =
        table.lines().filter_map(|line| line.strip_prefix("INTERPOSE(")).filter_map(name).collect();
    let waiting: BTreeSet<_> = WAITING.split_whitespace().collect();
    let holding: BTreeSet<_> = HOLDING.iter().flat_map(|(names, _)| names.split(' ')).collect();
    let mut surprises = Vec::new();
    for path in installed() {
        let wanted = wanted_by(&path);
        let held = wanted.iter().map(String::as_str).filter(|name| waiting.contains(name));
        let unknown = held.filter(|name| !interposed.contains(*name) && !holding.contains(name));
        surprises.extend(unknown.map(|name| format!("{path}: {name}")));
    }
    assert!(surprises.is_empty(), "neither in interpose.c nor in HOLDING: {surprises:#?}");
    let both: Vec<_> = holding.iter().filter(|name| interposed.contains(**name)).collect();
    assert!(both.is_empty(), "in HOLDING, and in interpose.c: {both:?}");
}

/// With the kernel's error, and not with a wait.
#[test]
fn what_is_no_time_is_refused() {
    let code = "<?php
        try {
            time_nanosleep(0, 1_000_000_000);
        } catch (ValueError $e) {
            echo get_class($e), ' ';
        }
        socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $sockets);
        $none = null;
        var_dump(@socket_select($sockets, $none, $none, -1));";
    let mut site = site(&[("times.php", code)], &[]);
    assert_eq!(site.get("/times.php").text(), "ValueError bool(false)\n", "{}", site.log());
}
