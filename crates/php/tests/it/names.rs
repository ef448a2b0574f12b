//! Async mode: names of hosts, which a thread asks libc for.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::concurrent::{INCLUDE, texts};
use crate::concurrent_ends::waits;
use crate::harness::*;

/// `$n` is the request's number, `$c` is libc.
const BEGIN: &str = r"<?php
$n = (int) $_GET['n'];
$c = FFI::cdef('
    void *gethostbyname(const char *);
    void *gethostbyaddr(const void *, unsigned, int);
    int res_query(const char *, int, int, char *, int);
');
";

/// A resolver that answers when so many have asked, and not before. For what begins with "slow",
/// and for addresses that end with 99, it answers when it is told to. In libc's place.
const RESOLVER: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int asked;

static void meet(void)
{
    struct timespec pause = {0, 1000000};
    int all = (atomic_fetch_add(&asked, 1) / COUNT + 1) * COUNT;
    while (atomic_load(&asked) < all) syscall(SYS_nanosleep, &pause, 0);
}

static void wait_for_release(void)
{
    struct timespec pause = {0, 1000000};
    while (access(getenv("RELEASE"), F_OK) != 0) syscall(SYS_nanosleep, &pause, 0);
}

static void meet_for(const char *name)
{
    if (strncmp(name, "slow", 4) == 0) wait_for_release();
    else meet();
}

static void meet_for_address(unsigned a)
{
    if ((ntohl(a) & 255) == 99) wait_for_release();
    else meet();
}

/* 127.0.0.5 for name5 */
static unsigned address(const char *name) { return htonl(0x7f000000 + atoi(name + 4)); }

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    struct { struct addrinfo info; struct sockaddr_in address; } *a = calloc(1, sizeof(*a));
    if (!name || (strncmp(name, "name", 4) != 0 && strncmp(name, "slow", 4) != 0))
        return EAI_NONAME; /* extensions, at their start */
    meet_for(name);
    a->address.sin_family = a->info.ai_family = AF_INET;
    a->info.ai_socktype = SOCK_STREAM;
    a->address.sin_addr.s_addr = address(name);
    a->info.ai_addrlen = sizeof(a->address);
    a->info.ai_addr = (struct sockaddr *)&a->address;
    *found = &a->info;
    return 0;
}

int getnameinfo(const struct sockaddr *a, socklen_t len, char *host, socklen_t room, char *service,
                socklen_t service_room, int flags)
{
    meet_for_address(((struct sockaddr_in *)a)->sin_addr.s_addr);
    strcpy(host, "name?");
    host[4] = '0' + (ntohl(((struct sockaddr_in *)a)->sin_addr.s_addr) & 15);
    return 0;
}

static int fill(struct hostent *entry, char *text, unsigned a, struct hostent **found)
{
    char **list = (char **)text;
    memcpy(text + 64, &a, 4);
    strcpy(text + 80, "name?");
    text[84] = '0' + (ntohl(a) & 15);
    list[0] = text + 64; list[1] = NULL;
    *entry = (struct hostent){text + 80, list + 1, AF_INET, 4, list};
    *found = entry;
    return 0;
}

int gethostbyname2_r(const char *name, int family, struct hostent *entry, char *text, size_t room,
                     struct hostent **found, int *error)
{
    if (strncmp(name, "name", 4) != 0 && strncmp(name, "slow", 4) != 0) return ENOENT;
    meet_for(name);
    return fill(entry, text, address(name), found);
}

int gethostbyaddr_r(const void *a, socklen_t len, int family, struct hostent *entry, char *text,
                    size_t room, struct hostent **found, int *error)
{
    meet_for_address(*(unsigned *)a);
    return fill(entry, text, *(unsigned *)a, found);
}

int res_nsearch(res_state s, const char *name, int class, int type, unsigned char *at, int len)
{
    meet_for(name);
    memset(at, 'a', len);
    h_errno = s->res_h_errno = HOST_NOT_FOUND;
    return -1;
}

int res_query(const char *name, int class, int type, unsigned char *at, int len)
{
    meet_for(name);
    memset(at, 'a', len);
    return 7;
}
"#;

const QUESTIONS: &[(&str, &str, &str)] = &[
    ("gethostbyname", "echo gethostbyname(\"name$n\");", "127.0.0.%"),
    ("gethostbynamel", "echo implode(',', gethostbynamel(\"name$n\"));", "127.0.0.%"),
    ("gethostbyaddr", "echo gethostbyaddr(\"127.0.0.$n\");", "name%"),
    ("dns_get_record", "var_export(dns_get_record(\"name$n\", DNS_A));", "array (\n)"),
    ("checkdnsrr", "var_export(checkdnsrr(\"name$n\", 'A'));", "false"),
    (
        "socket_addrinfo_lookup",
        "echo socket_addrinfo_explain(socket_addrinfo_lookup(\"name$n\")[0])['ai_addr']['sin_addr'];",
        "127.0.0.%",
    ),
    (
        "gethostbyname of libc",
        "$h = $c->gethostbyname(\"name$n\"); echo FFI::string(FFI::cast('char **', $h)[0]);",
        "name%",
    ),
    (
        "gethostbyaddr of libc",
        "$a = FFI::new('unsigned char[4]'); $a[3] = $n; $h = $c->gethostbyaddr($a, 4, 2);
         echo FFI::string(FFI::cast('char **', $h)[0]);",
        "name%",
    ),
    (
        "res_query of libc",
        "$b = FFI::new('char[64]'); echo $c->res_query(\"name$n\", 1, 1, $b, 64);",
        "7",
    ),
];

fn compile(source: &str, count: usize, folder: &Path) -> PathBuf {
    let (text, library) = (folder.join("resolver.c"), folder.join("resolver.so"));
    std::fs::write(&text, source).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-w", &format!("-DCOUNT={count}"), "-o"]);
    assert!(cc.arg(&library).arg(&text).status().unwrap().success());
    library
}

/// A site whose worker asks [`RESOLVER`].
fn site_with_resolver(count: usize, files: &[(&str, &str)]) -> Site {
    let folder = tempfile::tempdir().unwrap();
    let library = compile(RESOLVER, count, folder.path());
    let release = folder.path().join("release");
    let environment =
        [("LD_PRELOAD", library.to_str().unwrap()), ("RELEASE", release.to_str().unwrap())];
    let mut all = vec![("worker.php", INCLUDE)];
    all.extend_from_slice(files);
    let settings = [
        ("mode", "async"),
        ("script", "%root%/worker.php"),
        ("concurrency", "32"),
        ("ini.ffi.enable", "1"),
    ];
    let mut site = Site::start_in(&environment, &all, &settings, 1);
    site.lasting.push(folder);
    site
}

#[test]
fn names_are_asked_for_side_by_side() {
    const COUNT: usize = 5;
    if !can_be_sealed() {
        // The sanitizer wants to be the first of all libraries.
        return;
    }
    let names: Vec<_> = (0..QUESTIONS.len()).map(|i| format!("ask{i}.php")).collect();
    let codes: Vec<_> = QUESTIONS.iter().map(|(_, code, _)| format!("{BEGIN}{code}")).collect();
    let files: Vec<_> = names.iter().zip(&codes).map(|(n, c)| (n.as_str(), c.as_str())).collect();
    let mut site = site_with_resolver(COUNT, &files);
    for (i, (name, _, expected)) in QUESTIONS.iter().enumerate() {
        let asks: Vec<_> =
            (1..=COUNT).map(|n| get(&format!("/ask{i}.php?n={n}&row={i}"))).collect();
        let answers = texts(&site.ask_all(&asks));
        let expected: Vec<_> = (1..=COUNT).map(|n| expected.replace('%', &n.to_string())).collect();
        assert_eq!(answers, expected, "{name}\n{}", site.log());
    }
    assert_eq!(site.log(), "");
}

/// libldap has one lock for all of the process while it asks for a name.
#[test]
fn a_lock_inside_of_a_library_is_waited_for() {
    if !can_be_sealed() {
        return;
    }
    let bind = "<?php $l = ldap_connect('ldap://slow:1'); var_export(@ldap_bind($l));";
    let release = "<?php touch(getenv('RELEASE')); echo 'released';";
    let mut site = site_with_resolver(1, &[("bind.php", bind), ("release.php", release)]);
    let asks = ["/bind.php", "/bind.php", "/release.php"].map(get);
    assert_eq!(texts(&site.ask_all(&asks)), ["false", "false", "released"], "{}", site.log());
}

/// What a request that meddles with the eventfd of a request that waits needs.
const EVENTS: &str = r#"<?php
function events()
{
    $all = [];
    foreach (scandir('/proc/self/fd') as $fd) {
        if (@readlink("/proc/self/fd/$fd") === 'anon_inode:[eventfd]') $all[] = (int) $fd;
    }
    return $all;
}
function until($holds) { while (!$holds()) usleep(1000); }
"#;

/// Request 1 waits for a thread; what request 2 does with its eventfd, `$fd`.
fn meddle(wait: &str, code: &str) -> Vec<String> {
    let file = format!(
        "<?php require_once __DIR__ . '/events.php';
         if ($_GET['n'] == 1) {{
             $GLOBALS['before'] = events();
             {wait}
             $GLOBALS['left'] = true;
         }} else {{
             [$fd] = array_values(array_diff(events(), $GLOBALS['before']));
             $c = FFI::cdef('long write(int, const char *, unsigned long);
                 int close_range(unsigned, unsigned, int); int socketpair(int, int, int, int *);
                 long recv(int, void *, unsigned long, int);');
             {code}
         }}"
    );
    let mut site = site_with_resolver(1, &[("events.php", EVENTS), ("ask.php", &file)]);
    let answers = texts(&site.ask_all(&[1, 2].map(|n| get(&format!("/ask.php?n={n}")))));
    assert_eq!(site.log(), "");
    answers
}

#[test]
fn an_answer_is_waited_for_again_if_the_wait_ends_too_soon() {
    if !can_be_sealed() {
        return;
    }
    let code = "$c->write($fd, \"\\1\\0\\0\\0\\0\\0\\0\\0\", 8); usleep(2000);
        touch(getenv('RELEASE')); echo 'released';";
    assert_eq!(meddle("echo gethostbyname('slow9');", code), ["127.0.0.9", "released"]);
}

#[test]
fn a_thread_whose_eventfd_was_closed_leaves_the_next_file_of_that_number_alone() {
    if !can_be_sealed() {
        return;
    }
    let code = "$c->close_range($fd, $fd, 0); $p = FFI::new('int[2]');
        do { $c->socketpair(1, 1, 0, $p); } while ($p[0] !== $fd && $p[1] !== $fd);
        until(fn() => isset($GLOBALS['left']));
        $threads = fn() => count(scandir('/proc/self/task'));
        $before = $threads();
        touch(getenv('RELEASE'));
        until(fn() => $threads() < $before);
        $other = $p[0] === $fd ? $p[1] : $p[0];
        echo $c->recv($other, FFI::new('char[8]'), 8, 0x40);";
    // Neither 8 bytes nor the end.
    assert_eq!(meddle("echo gethostbyname('slow9');", code), ["slow9", "-1"]);
}

/// The threads of a worker.
fn threads(site: &Site) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", site.pids[0])).unwrap().count()
}

/// The thread that has asked gets its answer after the request is over, and writes it down.
#[test]
fn a_cancelled_request_does_not_wait_for_a_name() {
    if !can_be_sealed() {
        return;
    }
    let begin = BEGIN.strip_prefix("<?php").unwrap();
    let sockets = ("stream", "fsockopen(\"name$n\", 1);", "");
    for (name, code, _) in QUESTIONS.iter().chain([&sockets]) {
        let code = waits(&format!("{begin}{}", code.replace("name$n", "slow$n")));
        let release = "<?php touch(getenv('RELEASE'));";
        let small = "<?php echo 'small';";
        let files = [("wait.php", code.as_str()), ("release.php", release), ("small.php", small)];
        let mut site = site_with_resolver(1, &files);
        let before = threads(&site);
        let (slot, _) = site.submit(&get("/wait.php?n=99"));
        said(&site, "begun");
        assert_eq!(site.get("/small.php").text(), "small", "{name}");
        until(name, || threads(&site) > before);
        site.producer.abort(slot);
        let seen = said(&site, "ended");
        assert_eq!(seen, "waited, The client has left, aborted", "{name}\n{}", site.log());
        until(name, || site.producer.has_ended(slot));
        assert_eq!(site.get("/release.php").text(), "", "{name}");
        until(name, || threads(&site) == before);
        assert_eq!(site.get("/small.php").text(), "small", "{name}");
        let log = site.log();
        assert!(log.lines().all(|line| line.contains("PHP Warning:")), "{name}: {log}");
    }
}
