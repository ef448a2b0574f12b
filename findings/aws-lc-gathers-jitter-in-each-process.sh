#!/usr/bin/env bash
# AWS-LC takes tens of milliseconds for the first random number of each process, forked ones too.
#
# Software: the crates aws-lc-rs 1.19.0 and aws-lc-sys 0.47.0, the usual cryptography of rustls.
#
# Programs that fork, and short ones, expect a random number to cost a system call or two. AWS-LC
# wants a second source beside the system's, and takes the jitter of the processor. Whoever watches
# system calls sees nothing: it is all computing.
#
# Seen: the first call of rand::fill in a process takes 30 to 50 ms of the processor, the next one
# some microseconds. A child that is forked after the first call pays 24 ms again, although its
# parent was ready. In a build with AWS_LC_SYS_NO_JITTER_ENTROPY=1, where the system is the only
# source, the first call takes some thirty microseconds in both.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Elsewhere a .cargo/config.toml may set variables of the build.
cd "$folder"
mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "first"
version = "0.1.0"
edition = "2021"

[dependencies]
aws-lc-rs = { version = "=1.19.0", default-features = false, features = ["aws-lc-sys"] }
aws-lc-sys = "=0.47.0"
libc = "=0.2.180"
TOML
cat >src/main.rs <<'RUST'
// Prints the microseconds of the processor that three calls take: the first, the second, and the
// first of a child.
fn cost() -> u64 {
    let now = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
        time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
    };
    let begun = now();
    aws_lc_rs::rand::fill(&mut [0; 16]).unwrap();
    now() - begun
}

fn main() {
    println!("{} {}", cost(), cost());
    match unsafe { libc::fork() } {
        0 => println!("{}", cost()),
        child => assert!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } == child),
    }
}
RUST

# Builds it in a folder of this name, with these variables, and shows what it prints.
calls() {
    env "${@:2}" timeout 900 cargo build --quiet --target-dir "$1" >log 2>&1 ||
        { tail -n 20 log >&2; exit 2; }
    timeout 60 "$1/debug/first" | paste -s -d ' '
}
read -r first second child < <(calls usual)
echo "as usual: $first, then $second; a child: $child"
read -r plain_first plain_second plain_child < <(calls plain AWS_LC_SYS_NO_JITTER_ENTROPY=1)
echo "without jitter: $plain_first, then $plain_second; a child: $plain_child"
if [ "$first" -lt 5000 ] || [ "$child" -lt 5000 ] || [ "$second" -gt $((first / 50)) ] ||
    [ "$plain_first" -gt $((first / 10)) ] || [ "$plain_child" -gt $((child / 10)) ]; then
    echo 'this is not what was recorded' >&2
    exit 1
fi
