//! Invented sites of Caddy, from lines as they stand in the Caddyfiles of many.

mod known;

use std::path::PathBuf;

use super::dice::Dice;
use super::{Desk, Peer};

/// Caddy.
pub(super) const PEER: Peer =
    Peer { language: "caddy", site, start, known: known::DIFFERENCES, openings: &[] };

/// The name and the password of [`super::super::USERS`].
const USER: &str = "max $2y$05$sAUVDeawl8IUyF6tAJT5FOdZlvYCNziyyum9Pwxla1r4SVpqfx/JG";

fn start(desk: &mut Desk, sites: &str) -> PathBuf {
    super::super::caddy::start(desk, sites)
}

fn site(dice: &mut Dice, desk: &Desk, number: usize) -> String {
    let mut lines = vec!["root * $TOP/site"];
    lines.extend(*dice.pick(&SERVES));
    for _ in 0..dice.below(6) {
        let line = *dice.pick(&LINES);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    // Names of matchers are for one line each.
    let lines = lines.iter().enumerate().map(|(at, line)| line.replace("@it", &format!("@it{at}")));
    let text: String = lines.map(|line| line.replace("$USER", USER) + "\n").collect();
    let text: String = text.lines().map(|line| format!("\t{line}\n")).collect();
    format!("http://{}:{} {{\n{text}}}\n", super::name(number), desk.theirs.port())
}

/// How PHP and files are served.
const SERVES: [&[&str]; 9] = [
    &["php_fastcgi unix/$SOCKET", "file_server"],
    &["php_fastcgi unix/$SOCKET", "file_server", "encode gzip"],
    &["php_fastcgi unix/$SOCKET {\n\tindex index.php\n}", "file_server browse"],
    &["php_fastcgi unix/$SOCKET {\n\ttry_files {path} {path}/index.php =404\n}", "file_server"],
    &["php_fastcgi unix/$SOCKET", "file_server {\n\thide .git *.txt\n}"],
    &["try_files {path} {path}/ /index.php?{query}", "php_fastcgi unix/$SOCKET", "file_server"],
    &["@missing not file\nrewrite @missing /index.php", "php_fastcgi unix/$SOCKET", "file_server"],
    &["file_server"],
    &["file_server browse", "try_files {path} {path}/ /docs/index.html"],
];

const LINES: [&str; 38] = [
    "respond /data/* 403",
    "respond /admin/* 404",
    "respond /gone 410",
    "error /data/* 404",
    "@it path *.txt *.css\nrespond @it 403",
    "@it path /uploads/*.php /img/*.php\nrespond @it 403",
    "@it path_regexp ^/(uploads|img)/.*\\.php$\nrespond @it 403",
    "@it {\n\tpath /docs/*\n\tnot remote_ip 127.0.0.1\n}\nrespond @it 403",
    "@it {\n\tpath /docs/*\n\tnot remote_ip 192.0.2.0/24\n}\nrespond @it 403",
    "@it path /.*\nrespond @it 404",
    "@it {\n\tmethod PUT DELETE\n}\nrespond @it 403",
    "@it query b=*\nrespond @it 403",
    "redir /old/* /docs/ permanent",
    "redir /news/x /docs/guide.html",
    "redir /gone https://other.test{uri} 308",
    "@it path_regexp blog ^/blog/(.*)$\nredir @it /news/{re.blog.1} 301",
    "rewrite /p/12 /other.php?id=12",
    "rewrite /news/* /index.php?news",
    "rewrite /old/page.html /docs/guide.html",
    "header X-Site yes",
    "header /css/* Cache-Control max-age=60",
    "@it path *.png *.css\nheader @it Cache-Control \"public, max-age=3600\"",
    "@it path_regexp \\.(png|css)$\nheader @it X-Static yes",
    "header -Server",
    "header {\n\tX-Frame-Options DENY\n\t-X-Own\n}",
    "basicauth /admin/* {\n\t$USER\n}",
    "basicauth /docs/guide.html {\n\t$USER\n}",
    "@it path /data/* /info.php\nbasicauth @it {\n\t$USER\n}",
    "handle /docs/* {\n\tfile_server\n}",
    "handle /data/* {\n\trespond 403\n}",
    "handle /empty/* {\n\tfile_server browse\n}",
    "handle_path /manual/* {\n\troot * $TOP/site/docs\n\tfile_server\n}",
    "handle_path /pics/* {\n\troot * $TOP/site/img\n\tfile_server\n\theader X-Pics yes\n}",
    "handle_errors {\n\trewrite * /page.html\n\tfile_server\n}",
    "request_body {\n\tmax_size 10MB\n}",
    "route /sub/* {\n\theader X-Sub yes\n}",
    "encode zstd gzip",
    "log {\n\toutput discard\n}",
];
