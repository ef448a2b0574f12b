//! Which script the parameters of a request mean, and what scripts see of it: php-fpm's rules.
//!
//! Web servers describe the same request in different ways: some send the script's file, some the
//! whole URL as a file, some a proxy's address with the file behind it. What is changed here is
//! kept as `ORIG_…`. All of it works on bytes.

use super::environment::{Environment, Span};

/// Settings of PHP and of the pool that the search depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// `cgi.fix_pathinfo`: a script may have a path behind its name.
    pub fix_pathinfo: bool,
    /// `cgi.discard_path`: without the former, the script is not taken from `PATH_TRANSLATED`.
    pub discard_path: bool,
    /// `doc_root`; empty: not set.
    pub doc_root: Vec<u8>,
    /// `security.limit_extensions`: endings of files that may be run; empty: any.
    pub extensions: Vec<Vec<u8>>,
}

/// What is to be done with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Verdict {
    /// The script is run, if it can be opened.
    Run = 0,
    /// There is no script: 404.
    Unknown = 1,
    /// The script's ending is not among those that may be run: 403.
    Denied = 2,
    /// No method was sent, so it is no request of a web server: an empty response.
    Nothing = 3,
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing that could be reached.
    Nothing,
    /// A file.
    File,
    /// Something else.
    Other,
}

/// The outcome of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolvedScript {
    /// What is to be done.
    pub verdict: Verdict,
    /// The script's file.
    pub script: Option<Span>,
    /// The script's path as URL, from which `PHP_SELF` is made.
    pub uri: Option<Span>,
}

/// Finds the script and completes the parameters.
pub fn resolve(
    env: &mut Environment,
    rules: &Rules,
    look: impl Fn(&[u8]) -> Kind,
) -> ResolvedScript {
    let translated = env.get(b"PATH_TRANSLATED");
    let mut search = Search {
        script: env.get(b"SCRIPT_FILENAME").or(translated),
        name: env.get(b"SCRIPT_NAME"),
        info: env.get(b"PATH_INFO"),
        is_proxied: false,
        uri: None,
    };
    if search.script.is_some() {
        search.mend_iis(env);
        search.take_off_proxy(env, b"proxy:fcgi://");
        search.take_off_proxy(env, b"proxy:balancer://");
        if rules.fix_pathinfo {
            search.fix(env, rules, look);
        } else {
            search.uri = search.info.or(search.name);
            if !rules.discard_path && translated.is_some() {
                search.script = translated;
            }
        }
    }
    search.script = search.script.filter(|script| is_plain(env.text(*script)));
    let requested = search.script;
    if let (Some(_), Some(uri), [b'/', ..]) = (requested, search.uri, &rules.doc_root[..]) {
        let root = rules.doc_root.strip_suffix(b"/").unwrap_or(&rules.doc_root);
        let root = env.keep(&[root, if env.text(uri).starts_with(b"/") { b"" } else { b"/" }]);
        search.script =
            Some(env.join(root, root.len(), Some(uri))).filter(|at| is_plain(env.text(*at)));
    }
    let may_run = |file: Span| {
        let ends = |ending: &Vec<u8>| file.len() > ending.len() && env.text(file).ends_with(ending);
        rules.extensions.is_empty() || rules.extensions.iter().any(ends)
    };
    let verdict = match (search.script, requested) {
        _ if env.get(b"REQUEST_METHOD").is_none() => Verdict::Nothing,
        (Some(script), Some(requested)) if may_run(script) && may_run(requested) => Verdict::Run,
        (Some(_), Some(_)) => Verdict::Denied,
        _ => Verdict::Unknown,
    };
    ResolvedScript { verdict, script: search.script, uri: search.uri }
}

/// Web servers let `..` slip through, and no file's name has a NUL.
fn is_plain(path: &[u8]) -> bool {
    !path.contains(&0) && path.split(|byte| *byte == b'/').all(|part| part != b"..")
}

/// What is known so far.
struct Search {
    script: Option<Span>,
    name: Option<Span>,
    info: Option<Span>,
    /// Apache's mod_proxy was here.
    is_proxied: bool,
    uri: Option<Span>,
}

impl Search {
    /// IIS sends the script's name as a part of `PATH_INFO`.
    fn mend_iis(&mut self, env: &mut Environment) {
        let (Some(name), Some(info)) = (self.name, self.info) else { return };
        if env.value(b"SERVER_SOFTWARE").starts_with(b"Microsoft-IIS")
            && env.text(info).starts_with(env.text(name))
        {
            env.set(b"ORIG_PATH_INFO", Some(info));
            self.info = Some(info.tail(info.len() - name.len())).filter(|rest| rest.len() > 0);
            env.set(b"PATH_INFO", self.info);
        }
    }

    /// `proxy:fcgi://host:9000/docroot/a.php?b=c` means `/docroot/a.php`.
    fn take_off_proxy(&mut self, env: &mut Environment, prefix: &[u8]) {
        let Some(file) = env.get(b"SCRIPT_FILENAME") else { return };
        let text = env.text(file);
        if !text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)) {
            return;
        }
        let mut path = file;
        if let Some(slash) = text[prefix.len()..].iter().position(|byte| *byte == b'/') {
            path = file.tail(file.len() - prefix.len() - slash);
            self.is_proxied = true;
        }
        let end = env.text(path).iter().position(|byte| *byte == b'?');
        let path = env.head(path, end.unwrap_or(path.len()));
        env.set(b"SCRIPT_FILENAME", Some(path));
        self.script = Some(path);
    }

    /// What `cgi.fix_pathinfo` is about: `/docroot/a.php/info` is a script and a path behind its
    /// name.
    fn fix(&mut self, env: &mut Environment, rules: &Rules, look: impl Fn(&[u8]) -> Kind) {
        if env.get(b"DOCUMENT_ROOT").is_none() && !rules.doc_root.is_empty() {
            let root = env.keep(&[&rules.doc_root]);
            env.set(b"DOCUMENT_ROOT", Some(root));
        }
        let sent = SentParams {
            script: env.get(b"SCRIPT_FILENAME"),
            translated: env.get(b"PATH_TRANSLATED"),
            name: self.name,
            info: self.info,
        };
        let redirect = env.get(b"REDIRECT_URL");
        // Apache's mod_fastcgi with an Action: the script's own parameters name the PHP program.
        if let (false, Some(url), Some(translated), Some(script)) =
            (self.is_proxied, redirect, sent.translated, self.script)
            && env.text(translated) != env.text(script)
        {
            self.script = Some(translated);
            self.name = Some(url);
        }
        let Some(script) = self.script else { return };
        let path = env.text(script);
        if !path.is_empty() && (path.ends_with(b"/") || look(path) == Kind::Nothing) {
            match script_within(path, look) {
                Some(len) => self.divide(env, &sent, script, len),
                None => {
                    env.keep_original(b"ORIG_SCRIPT_FILENAME", sent.script);
                    env.set(b"SCRIPT_FILENAME", None);
                    self.script = None;
                }
            }
            if self.uri.is_none() {
                self.take_name(env, &sent);
            }
        } else {
            if !is_same(env, sent.script, script) {
                env.keep_original(b"ORIG_SCRIPT_FILENAME", sent.script);
                env.set(b"SCRIPT_FILENAME", Some(script));
            }
            if !self.is_proxied && redirect.is_some() {
                env.move_away(b"PATH_INFO", b"ORIG_PATH_INFO", sent.info);
                env.move_away(b"PATH_TRANSLATED", b"ORIG_PATH_TRANSLATED", sent.translated);
            }
            self.take_name(env, &sent);
        }
    }

    /// The script is the first `len` bytes of the path, what follows is the path behind its name.
    fn divide(&mut self, env: &mut Environment, sent: &SentParams, path: Span, len: usize) {
        let behind = path.len() - len;
        let info = if self.is_proxied {
            // PATH_INFO does not exist then, or is not to be believed.
            Some(path.tail(behind)).filter(|info| !is_same(env, sent.info, *info))
        } else {
            // Only a part of what was sent: that it is long enough was once forgotten
            // (CVE-2019-11043).
            self.info.filter(|info| info.len() > behind).map(|info| info.tail(behind))
        };
        if let Some(info) = info {
            self.name_script(env, sent, info);
            self.info = Some(info);
            env.set(b"PATH_INFO", self.info);
        }
        let script = env.head(path, len);
        if !is_same(env, sent.script, script) {
            env.keep_original(b"ORIG_SCRIPT_FILENAME", sent.script);
            env.set(b"SCRIPT_FILENAME", Some(script));
        }
        self.script = Some(script);
        self.translate(env, sent, script);
    }

    /// The script's name without the path behind it.
    fn name_script(&mut self, env: &mut Environment, sent: &SentParams, info: Span) {
        if let Some(whole) = sent.info {
            env.set(b"ORIG_PATH_INFO", Some(whole));
            let name =
                if self.is_proxied { whole } else { env.head(whole, whole.len() - info.len()) };
            if is_same(env, sent.name, name) {
                self.uri = sent.name;
            } else {
                env.keep_original(b"ORIG_SCRIPT_NAME", sent.name);
                env.set(b"SCRIPT_NAME", Some(name));
                self.uri = Some(name);
            }
        } else if let (true, Some(name)) = (self.is_proxied, self.name) {
            // Apache's ProxyPass: what is behind the script's file is behind its name, too, there
            // decoded.
            let (text, info) = (env.text(name), env.text(info));
            let decoded = decoded(info);
            let ends = |end: &[u8]| text.len() > end.len() && text.ends_with(end);
            let Some(cut) = [info, &decoded].into_iter().find(|end| ends(end)).map(<[u8]>::len)
            else {
                return;
            };
            env.keep_original(b"ORIG_SCRIPT_NAME", sent.name);
            self.name = Some(env.head(name, name.len() - cut));
            self.uri = self.name;
            env.set(b"SCRIPT_NAME", self.name);
        }
    }

    /// `PATH_TRANSLATED` is the path behind the script's name as a file below the document root.
    fn translate(&mut self, env: &mut Environment, sent: &SentParams, script: Span) {
        let (root, len) = match (env.get(b"DOCUMENT_ROOT"), self.name) {
            (Some(root), _) => (root, root.len() - usize::from(env.text(root).ends_with(b"/"))),
            (None, Some(name)) if contains(env.text(script), env.text(name)) => {
                (script, script.len() - name.len())
            }
            _ => return,
        };
        let translated = env.join(root, len, self.info);
        env.keep_original(b"ORIG_PATH_TRANSLATED", sent.translated);
        env.set(b"PATH_TRANSLATED", Some(translated));
    }

    /// The script's name is what was sent, or what replaced it.
    fn take_name(&mut self, env: &mut Environment, sent: &SentParams) {
        if self.name != sent.name {
            env.keep_original(b"ORIG_SCRIPT_NAME", sent.name);
            env.set(b"SCRIPT_NAME", self.name);
        }
        self.uri = self.name;
    }
}

/// The parameters as they were sent.
struct SentParams {
    script: Option<Span>,
    translated: Option<Span>,
    name: Option<Span>,
    info: Option<Span>,
}

impl Environment {
    fn keep_original(&mut self, name: &[u8], value: Option<Span>) {
        if value.is_some() {
            self.set(name, value);
        }
    }

    fn move_away(&mut self, from: &[u8], to: &[u8], value: Option<Span>) {
        if value.is_some() {
            self.set(to, value);
            self.set(from, None);
        }
    }
}

fn is_same(env: &Environment, a: Option<Span>, b: Span) -> bool {
    a.is_some_and(|a| env.text(a) == env.text(b))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

/// The length of the longest part of the path that ends before a slash and is a file.
fn script_within(path: &[u8], look: impl Fn(&[u8]) -> Kind) -> Option<usize> {
    let mut end = path.len();
    loop {
        let before = &path[..end];
        let last = |byte: u8| before.iter().rposition(|seen| *seen == byte);
        end = last(b'/').or_else(|| last(b'\\'))?;
        if look(&path[..end]) == Kind::File {
            return Some(end);
        }
    }
}

/// With `%41` as `A`.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(byte) = text.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
