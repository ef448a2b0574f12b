//! The directives of a section, for the paths that it is for.

use std::path::{Path, PathBuf};

use crate::directive::Directive;
use crate::model::{Headers, Rule, Scope, Site};
use crate::source::Place;
use crate::{pattern, validity};

use super::access::{Access, OF_ACCESS, access};
use super::login::{Settings, has_other_provider};
use super::name::{self, Names};
use super::reach::{self, LAST, Reach};
use super::rewrite::Rewriting;
use super::unseen::{self, Before};
use super::{Reader, listing, parse, remote, value};

/// The paths that directives are for.
#[derive(Clone, Debug)]
pub(super) struct Area {
    pub scope: Scope,
    /// The path of the folder, with a slash at its end, if the directives are those of one.
    pub folder: Option<String>,
}

impl Area {
    /// The whole site.
    pub(super) fn server() -> Area {
        Area { scope: Scope::default(), folder: None }
    }

    /// A folder.
    pub(super) fn folder(scope: Scope, path: &str) -> Area {
        Area { scope, folder: Some(path.to_owned()) }
    }

    /// Folders in whose paths an expression is found.
    fn found(expression: String) -> Area {
        Area { scope: Scope::pattern(expression), folder: None }
    }

    /// Names of files in it.
    fn files(&self, names: Names) -> Area {
        let expression = names.found;
        // A folder is no file, and this is the one with a dot whose files are sent.
        let is_of_dots = expression.starts_with("/\\.")
            && !expression.contains('|')
            && pattern::is_in(&expression, "/.well-known/x");
        let mut scope = Scope { pattern: Some(expression), ..self.scope.clone() };
        scope.and.extend(is_of_dots.then(|| "!^/\\.well-known/".to_owned()));
        scope.and.extend(names.but.iter().map(|own| format!("!{own}")));
        scope.and.extend(self.scope.pattern.clone());
        Area { scope, folder: None }
    }
}

/// Directives that tune Apache, or ask for what Tokamak does anyway.
const TUNING: &[&str] = &[
    "accessfilename",
    "addcharset",
    "adddefaultcharset",
    "addencoding",
    "addlanguage",
    "addoutputfilterbytype",
    "allowencodedslashes",
    "browsermatch",
    "brotlicompressionquality",
    "customlog",
    "defaultlanguage",
    "defaultruntimedir",
    "define",
    "deflatecompressionlevel",
    "directoryslash",
    "documentroot",
    "enablemmap",
    "enablesendfile",
    "errorlog",
    "errorlogformat",
    "expiresactive",
    "fileetag",
    "hostnamelookups",
    "keepalive",
    "keepalivetimeout",
    "languagepriority",
    "listen",
    "loadmodule",
    "logformat",
    "loglevel",
    "maxconnectionsperchild",
    "maxkeepaliverequests",
    "maxrequestworkers",
    "minspareservers",
    "minsparethreads",
    "mutex",
    "options",
    "pidfile",
    "protocols",
    "rewritebase",
    "rewriteengine",
    "rewriteoptions",
    "rewritelog",
    "rewriteloglevel",
    "serveradmin",
    "serveralias",
    "servername",
    "serverroot",
    "serversignature",
    "servertokens",
    "setenvif",
    "setenvifnocase",
    "setoutputfilter",
    "sslcertificatechainfile",
    "sslcertificatefile",
    "sslcertificatekeyfile",
    "sslciphersuite",
    "sslcompression",
    "sslengine",
    "sslhonorcipherorder",
    "ssloptions",
    "sslprotocol",
    "sslsessioncache",
    "sslsessioncachetimeout",
    "sslsessiontickets",
    "sslstaplingcache",
    "sslusestapling",
    "startservers",
    "threadlimit",
    "threadsperchild",
    "timeout",
    "traceenable",
    "typesconfig",
    "usecanonicalname",
    "alias",
    "allowoverride",
    "allowoverridelist",
    "proxy",
    "modmimeusepathinfo",
    "acceptpathinfo",
    "contentdigest",
    "user",
    "group",
];

/// Parts of names of directives that may guard something.
const GUARDS: &[&str] = &[
    "auth",
    "access",
    "deny",
    "sec",
    "verify",
    "require",
    "limit",
    "evasive",
    "proxypass",
    "scriptalias",
    "if",
    "directorymatch",
    "cgi",
    "sethandler",
    "geoip",
];

impl Reader<'_> {
    /// The directives of an area, and the sections in it.
    pub(super) fn directives(&mut self, directives: &[Directive], area: &Area, site: &mut Site) {
        let place = directives.first().map_or(&site.place, |it| &it.place).clone();
        let settings = self.settings.with(directives);
        self.access(&place, access(directives, &settings), area, site);
        self.unasked(directives, &area.scope);
        let around = std::mem::replace(&mut self.settings, settings);
        let base = directives.iter().rfind(|it| it.name == "rewritebase");
        let mut rewriting = Rewriting::new(area, base.map(|base| base.arg(0)));
        for directive in directives {
            match (&*directive.name, &directive.block) {
                ("rewritecond", None) => rewriting.condition(directive),
                ("rewriterule", None) => {
                    let before = Before::of(site);
                    self.rewrite(directive, &mut rewriting, site);
                    if let Some(folder) = &area.folder {
                        self.leave_out(folder, &directive.place, &before, site);
                    }
                }
                ("directory" | "directorymatch", Some(_)) => {}
                (name, _) if OF_ACCESS.contains(&name) => {}
                (_, Some(inner)) => self.section(directive, inner, area, site),
                (_, None) => self.directive(directive, area, directives, site),
            }
        }
        self.settings = around;
        match listing::lists(directives) {
            Some(lists) if area.scope.is_all() => site.index_listing = lists,
            Some(lists) => site.rules.push(Rule::at(&place, area.scope.clone()).list(lists)),
            None => {}
        }
        // Its index files are not known here, and Apache lists no folder that has one.
        if !area.scope.is_all() && directives.iter().any(|it| it.name == "directoryindex") {
            site.rules.push(Rule::at(&place, area.scope.clone()).list(false));
        }
        if directives.iter().any(is_folder) {
            self.directories(directives, site);
        }
    }

    fn access(&mut self, place: &Place, access: Access, area: &Area, site: &mut Site) {
        let scope = area.scope.refusing();
        let rule = Rule::at(place, scope);
        let is_by_address = match &access {
            Access::Closed { but } => !but.is_empty(),
            Access::Login(asked) => !(asked.free.is_empty() && asked.only.is_empty()),
            access => matches!(access, Access::Denied(_)),
        };
        if is_by_address && self.hides_clients {
            let reason = "whose addresses they are is not translated; everybody is refused instead";
            self.notes.refused(place, "", reason);
            site.guard(rule.refuse_all(403));
            return;
        }
        site.guard(match access {
            Access::Unsaid | Access::Open => return,
            Access::Closed { but } => rule.refuse(but, vec!["all".to_owned()], 403),
            Access::Denied(networks) => rule.refuse(Vec::new(), networks, 403),
            Access::Login(asked) => return self.asked(asked, rule, site),
            Access::Unknown(line, reason) => {
                self.notes.refused(&line.place, &line.line(), reason);
                rule.refuse_all(403)
            }
        });
    }

    /// The sections of folders: of the root, of mounted folders, and below them.
    fn directories(&mut self, directives: &[Directive], site: &mut Site) {
        let mut mounts = std::mem::take(&mut site.mounts);
        for target in std::iter::once(&mut *site).chain(&mut mounts) {
            let Some(root) = target.root.clone() else { continue };
            self.folders_of(&root, directives, target);
        }
        site.mounts = mounts;
    }

    fn folders_of(&mut self, root: &str, directives: &[Directive], site: &mut Site) {
        let mut deciding = None;
        let overriding = Overriding::of(directives, root);
        self.find_rewriting(root, directives, &overriding, site);
        let mut inner = Vec::new();
        for (reach, section) in sections_of(directives, root) {
            let reach = match reach {
                // What rewrites see depends on the folder, of which there are several.
                Reach::Found(_) if has_rewrites(section.inner()) => Reach::Unknown,
                reach => reach,
            };
            let length = match &reach {
                Reach::Nothing => continue,
                Reach::Whole(length) => *length,
                Reach::Path(_) => LAST,
                Reach::Found(own) => {
                    if section.args.iter().any(|it| it.contains('$')) {
                        let reason = "it is for what lies below these folders, too";
                        self.notes.differs(&section.place, &section.line(), reason);
                    }
                    inner.push((Area::found(own.clone()), section));
                    continue;
                }
                Reach::Unknown => {
                    self.unknown(section, &Area::server(), site);
                    continue;
                }
            };
            if let Reach::Path(path) = &reach {
                inner.push((Area::folder(Scope::path(path), &format!("{path}/")), section));
            } else {
                self.unasked(section.inner(), &Scope::default());
                let own = own_access(section);
                // What an expression of folders opens is not known.
                if own != Access::Unsaid && (own != Access::Open || length != LAST) {
                    deciding = match deciding {
                        Some((before, _)) if before > length => deciding,
                        _ => Some((length, section)),
                    };
                }
                let own = section.inner().iter();
                let own: Vec<Directive> =
                    own.filter(|it| !OF_ACCESS.contains(&&*it.name)).cloned().collect();
                // Names of files in it have its settings.
                let settings = Settings::default().with(section.inner());
                let around = std::mem::replace(&mut self.settings, settings);
                self.directives(&own, &Area::folder(Scope::default(), "/"), site);
                self.settings = around;
            }
        }
        let around = directives.iter().filter(|it| is_folder(it)).filter_map(|section| {
            let Reach::Whole(length) = reach::of(section, root) else { return None };
            Some((root.get(..length).unwrap_or(root).to_owned(), section.inner()))
        });
        if let Some(lists) = listing::of_folders(around.collect()) {
            site.index_listing = lists;
        }
        let closed = deciding.map(|(_, section)| own_access(section));
        if let (Some(access), Some((_, section))) = (closed, deciding) {
            self.access(&section.place, access, &Area::server(), site);
        }
        for (area, section) in inner {
            self.directives(section.inner(), &area, site);
        }
        if overriding.is_any_below(root) {
            self.overrides(root, &|file| overriding.is_for(file), site);
        }
    }

    /// The `.htaccess` files below a root, of those that are read.
    pub(super) fn overrides(
        &mut self,
        root: &str,
        is_read: &dyn Fn(&Path) -> bool,
        site: &mut Site,
    ) {
        let Some(files) = self.disk.find(Path::new(root), ".htaccess") else {
            let reason = "too many folders to look for .htaccess files, so the site is refused";
            self.notes.refused(&site.place, root, reason);
            let place = site.place.clone();
            site.refuse(&place);
            return;
        };
        let files = files.into_iter().filter(|file| is_read(file));
        let above: Vec<PathBuf> = match site.path {
            Some(_) => Path::new(root).ancestors().skip(1).map(|it| it.join(".htaccess")).collect(),
            None => Vec::new(),
        };
        let above = above.into_iter().filter(|file| self.disk.is_file(file) && is_read(file));
        for file in above.collect::<Vec<_>>() {
            self.around(&file, site);
        }
        for file in files {
            let folder = file.parent().and_then(|folder| folder.strip_prefix(root).ok());
            let path = match folder.map(|folder| folder.to_string_lossy()) {
                Some(folder) if !folder.is_empty() => format!("/{folder}"),
                _ => String::new(),
            };
            let scope = if path.is_empty() { Scope::default() } else { Scope::path(&path) };
            let area = Area::folder(scope, &format!("{path}/"));
            match parse::load(&file, &self.prefix, self.disk) {
                Ok(directives) => {
                    self.has_other_provider |= has_other_provider(&directives);
                    self.directives(&directives, &area, site);
                }
                Err(error) => {
                    self.notes.refused(&error.place, "", "its folder is refused instead");
                    site.rules.push(Rule::at(&error.place, area.scope).refuse_all(403));
                }
            }
        }
    }

    /// An `.htaccess` above a folder that is mounted, without what is for paths of its own folder.
    fn around(&mut self, file: &Path, site: &mut Site) {
        match parse::load(file, &self.prefix, self.disk) {
            Ok(mut directives) => {
                self.rewrite_around(file, &directives, site);
                let of_paths =
                    |name: &str| name.starts_with("rewrite") || name.starts_with("redirect");
                directives.retain(|it| !of_paths(&it.name));
                self.directives(&directives, &Area::folder(Scope::default(), "/"), site);
            }
            Err(error) => {
                self.notes.refused(&error.place, "", "the folder below is refused instead");
                site.refuse(&error.place);
            }
        }
    }

    fn section(&mut self, section: &Directive, inner: &[Directive], area: &Area, site: &mut Site) {
        // `<Files ~ "expression">` is the older `<FilesMatch "expression">`.
        let (kind, name) = match (&*section.name, section.arg(0)) {
            ("files", "~") => ("filesmatch", section.arg(1)),
            ("location", "~") => ("locationmatch", section.arg(1)),
            (kind, name) => (kind, name),
        };
        let within = match kind {
            "files" => Some(area.files(name::of_shell(name))),
            "filesmatch" => name::of_expression(name).map(|names| area.files(names)),
            "location" if area.folder.is_none() && !name.contains(['*', '?']) => {
                let path = name.trim_end_matches('/');
                let scope = if path.is_empty() { Scope::default() } else { Scope::path(path) };
                Some(Area { scope, folder: None })
            }
            "locationmatch" if area.scope.is_all() => {
                let scope = pattern::translate(name, false).ok().map(Scope::pattern);
                scope.map(|scope| Area { scope, folder: None })
            }
            "proxy" | "ifmodule" => return,
            _ => None,
        };
        match within {
            Some(within) => self.directives(inner, &within, site),
            None => self.unknown(section, area, site),
        }
    }

    /// A section whose paths are not known.
    fn unknown(&mut self, section: &Directive, area: &Area, site: &mut Site) {
        let line = format!("<{}>", section.line());
        if guards(section.inner()) {
            let reason = "what it is for is not translated, and it may refuse; what is around it \
                is refused instead";
            self.notes.refused(&section.place, &line, reason);
            site.rules.push(Rule::at(&section.place, area.scope.clone()).refuse_all(403));
        } else {
            self.notes.left(&section.place, &line, "what it is for is not translated");
        }
    }

    /// One directive; `directives` are all of its section.
    fn directive(
        &mut self,
        directive: &Directive,
        area: &Area,
        directives: &[Directive],
        site: &mut Site,
    ) {
        let (place, line) = (&directive.place, directive.line());
        let is_all = area.scope.is_all();
        match &*directive.name {
            "sslverifyclient" if directive.arg(0).eq_ignore_ascii_case("none") => {}
            "sslprotocol" => {
                self.description.only_tls13 |= directive.args.last().is_some_and(|last| {
                    last == "TLSv1.3" && directive.args.len() <= 2 && directive.arg(0) != "all"
                });
            }
            "directoryindex" if is_all => {
                // Several lines of a folder are one.
                let all = directives
                    .iter()
                    .filter(|it| area.folder.is_some() && it.name == "directoryindex");
                let all: Vec<&Directive> = all.collect();
                let all = if all.is_empty() { vec![directive] } else { all };
                let names = all.iter().flat_map(|it| &it.args).filter(|name| *name != "disabled");
                site.index = Some(names.cloned().collect());
            }
            "fallbackresource" if is_all && directive.arg(0).starts_with('/') => {
                site.front_controller = Some(directive.arg(0).trim_start_matches('/').to_owned());
                // What `ProxyPassMatch` takes is php-fpm's, whether it is there or not.
                site.front_controller_for = match self.unseen.is_proxied("/a.php") {
                    true => vec!["hidden"],
                    false => vec!["php", "hidden"],
                };
            }
            "proxyerroroverride" if is_all && directive.args.len() == 1 => {
                site.intercept_errors = directive.arg(0).eq_ignore_ascii_case("on");
            }
            "errordocument" => self.error_page(directive, is_all, site),
            "header" => self.header(directive, area, site),
            "expiresactive" if directive.arg(0).eq_ignore_ascii_case("off") => match is_all {
                true => site.rules.retain(|rule| !rule.headers.keeps_own),
                false => self.unexpired.push(area.scope.clone()),
            },
            "expiresbytype" | "expiresdefault" => self.expires(directive, area, site),
            "redirect" | "redirectpermanent" | "redirecttemp" | "redirectmatch" => {
                self.redirect(directive, area, site);
            }
            "php_value" | "php_admin_value" | "php_flag" | "php_admin_flag" => {
                self.php(directive, area, site);
            }
            "limitrequestbody" => self.body_size(directive, area, site),
            "sethandler" => self.handler(directive, area, site),
            "forcetype" | "addhandler" | "addtype" | "removehandler" | "removetype" => {
                self.endings(directive, area, directives, site);
            }
            "proxypassmatch" if unseen::hands_scripts(directive) => {}
            "setenv" if is_all && directive.args.len() == 2 && !directive.arg(1).contains('%') => {
                let (name, value) = (directive.arg(0), directive.arg(1));
                site.env.insert(name.to_owned(), value.to_owned());
            }
            name if TUNING.contains(&name) => {}
            "indexignore" => self.notes.differs(place, &line, listing::IGNORED),
            name if listing::LOOKS.contains(&name) => {
                self.notes.left(place, &line, listing::LOOK);
            }
            name if name.starts_with("remoteip") => {
                if self.hides_clients {
                    self.notes.left(place, &line, remote::ADVICE);
                }
            }
            "proxypass" | "proxypassmatch" | "scriptalias" | "scriptaliasmatch" | "aliasmatch" => {
                self.elsewhere(directive, area, site);
            }
            parse::WITHOUT_MODULE => {
                let line = format!("<IfModule {}>", directive.args.join(" "));
                let reason = "each module is taken to be there, so what is for servers without it \
                    is left out";
                self.notes.left(place, &line, reason);
            }
            parse::UNMATCHED => {
                let reason = "no file has such a name; a relative one starts from --prefix";
                self.notes.left(place, &line, reason);
            }
            name if name == parse::MISSING || GUARDS.iter().any(|part| name.contains(part)) => {
                let reason = "it may refuse requests, and is not translated; all that it is for \
                    is refused instead";
                self.notes.refused(place, &line, reason);
                site.rules.push(Rule::at(place, area.scope.clone()).refuse_all(403));
            }
            _ => self.notes.left(place, &line, "not known, or not for these paths"),
        }
    }

    /// What leads to another server, to programs, or to files by an expression.
    fn elsewhere(&mut self, directive: &Directive, area: &Area, site: &mut Site) {
        let reason = match &*directive.name {
            "scriptalias" | "scriptaliasmatch" => {
                "programs run by fcgiwrap, see docs/cgi.md; without it these paths are refused"
            }
            "aliasmatch" => {
                "only a folder can lie elsewhere: write a [[site]] with `path`, or a rule with \
                `rewrite`; without it these paths are refused"
            }
            _ => "nothing but files and PHP is served, so these paths are refused",
        };
        self.notes.refused(&directive.place, &directive.line(), reason);
        let path = directive.arg(0);
        let scope = match directive.name.ends_with("aliasmatch") {
            true => pattern::translate(path, false).ok().map(|it| Scope::pattern(it).refusing()),
            false => (path.starts_with('/') && path.len() > 1)
                .then(|| Scope::path(format!("{}*", path.trim_end_matches('*')))),
        };
        let scope = scope.unwrap_or_else(|| area.scope.clone());
        site.rules.push(Rule::at(&directive.place, scope).refuse_all(404));
    }

    fn header(&mut self, directive: &Directive, area: &Area, site: &mut Site) {
        let mut args: Vec<&str> = directive.args.iter().map(String::as_str).collect();
        let always = args.first() == Some(&"always");
        if always || args.first() == Some(&"onsuccess") {
            args.remove(0);
        }
        let mut headers = Headers { always, ..Headers::default() };
        let action = args.first().map(|action| action.to_ascii_lowercase());
        let is_plain = |value: &str| !value.contains('%');
        match (action.as_deref(), &args[args.len().min(1)..]) {
            (Some("unset"), [name]) => headers.remove = vec![(*name).to_owned()],
            (Some("set"), [name, value]) if is_plain(value) => {
                headers.set.insert((*name).to_owned(), (*value).to_owned());
            }
            (Some("add" | "append" | "merge"), [name, value]) if is_plain(value) => {
                headers.add.insert((*name).to_owned(), (*value).to_owned());
            }
            _ => {
                let reason = "only fixed values without a condition are translated";
                self.notes.left(&directive.place, &directive.line(), reason);
                return;
            }
        }
        let fields = headers.set.iter().chain(&headers.add);
        let problem =
            fields.map(|(name, value)| validity::field(name, value)).find_map(Result::err);
        if let Some(problem) = problem {
            self.notes.left(&directive.place, &directive.line(), problem);
            return;
        }
        // Apache asks where the file lies that answers in the end.
        let of_answer = !area.scope.is_all();
        let rule = Rule::at(&directive.place, area.scope.clone());
        site.rules.push(Rule { headers, of_answer, ..rule });
    }

    /// Takes parts of the site out of the lifetimes of others. Where a part is named by its folder
    /// and by names of files, either is enough: a page without a lifetime is asked for again.
    pub(super) fn settle_expiry(&mut self, site: &mut Site) {
        for Scope { path, pattern, .. } in std::mem::take(&mut self.unexpired) {
            let folder = path.map(|path| {
                format!("^{}(?:/|$)", regex_lite::escape(path.trim_end_matches(['*', '/'])))
            });
            let Some(own) = pattern.or(folder) else { continue };
            let mounted = site.mounts.iter_mut().flat_map(|mount| &mut mount.rules);
            let all = site.rules.iter_mut().chain(mounted);
            for rule in all.filter(|rule| rule.headers.keeps_own) {
                // Apache asks where the file lies that answers in the end.
                rule.of_answer = true;
                rule.scope.and.push(format!("!{own}"));
            }
        }
    }

    fn expires(&mut self, directive: &Directive, area: &Area, site: &mut Site) {
        let is_of_type = directive.name == "expiresbytype";
        let time = directive.args[usize::from(is_of_type).min(directive.args.len())..].join(" ");
        let Some(seconds) = value::apache_time(&time) else {
            let reason = "only a duration from the request is translated";
            self.notes.left(&directive.place, &directive.line(), reason);
            return;
        };
        let mut rule = Rule::at(&directive.place, area.scope.clone());
        rule.of_answer = !area.scope.is_all();
        // Apache leaves alone what a script says itself of its page, or adds to it.
        rule.headers.keeps_own = true;
        rule.headers.cache_control = Some(format!("max-age={seconds}"));
        rule.headers.expires = Some(seconds).filter(|it| (1..=365 * 86_400).contains(it));
        if is_of_type {
            let kind = directive.arg(0).to_ascii_lowercase();
            let is_kind = kind.split_once('/').is_some_and(|(kind, rest)| {
                !kind.is_empty()
                    && !rest.is_empty()
                    && !(format!("{kind}{rest}")).contains(['*', ';', ' ', '/'])
            });
            if !is_kind {
                self.notes.left(&directive.place, &directive.line(), "no media type");
                return;
            }
            rule.content_types = vec![kind];
        }
        site.rules.push(rule);
    }

    fn redirect(&mut self, directive: &Directive, area: &Area, site: &mut Site) {
        let words: Vec<&str> = directive.args.iter().map(String::as_str).collect();
        let (status, from, to) = match (&*directive.name, &words[..]) {
            ("redirectpermanent", [from, to]) => (Some(301), *from, *to),
            (_, [from, to]) if from.starts_with(['/', '^']) => (Some(302), *from, *to),
            (_, [status, from]) => (value::redirect_status(status), *from, ""),
            (_, [status, from, to]) => (value::redirect_status(status), *from, *to),
            _ => (None, "", ""),
        };
        let Some(status) = status.filter(|_| area.scope.pattern.is_none()) else {
            let reason = "its status, or what it is for, is not translated";
            self.notes.left(&directive.place, &directive.line(), reason);
            return;
        };
        let is_match = directive.name == "redirectmatch";
        let expression = match is_match {
            true => pattern::translate(from, false),
            // The path and all below it, with what follows it.
            false if from == "/" => Ok("^(/.*)$".to_owned()),
            false => {
                let path = from.trim_end_matches('/');
                Ok(format!("^{}(/.*)?$", regex_lite::escape(path)))
            }
        };
        let place = &directive.place;
        if status >= 400 {
            let scope = match expression {
                Ok(expression) => Scope::pattern(pattern::refusing(&expression)),
                Err(_) => Scope::default(),
            };
            let status = if matches!(status, 404 | 410) { status } else { 403 };
            site.guard(Rule::at(place, scope).refuse_all(status));
            return;
        }
        let Ok(expression) = expression else {
            self.notes.left(place, &directive.line(), "its expression is not translated");
            return;
        };
        let to = match is_match {
            true => to.to_owned(),
            false => format!("{}$1", to.trim_end_matches('/').replace('$', "$$")),
        };
        if to == "$1" || to.contains("%{") {
            self.notes.left(place, &directive.line(), "its target is not translated");
            return;
        }
        // A URL needs a slash behind its host, which the group may not have.
        let to = match to.split_once("://") {
            Some((_, rest)) if rest.trim_end_matches("$1").contains('/') => to,
            Some((scheme, rest)) => {
                let host = rest.trim_end_matches("$1");
                let scope =
                    Scope::pattern(expression.replace("(/.*)", "/?(.*)").replace("?$", "$"));
                let rule = Rule::at(place, scope);
                site.guard(rule.redirect(format!("{scheme}://{host}/$1"), status));
                return;
            }
            None => to,
        };
        site.guard(Rule::at(place, Scope::pattern(expression)).redirect(to, status));
    }
}

/// Where `.htaccess` files are read.
#[derive(Default)]
pub(super) struct Overriding {
    /// Folders with what was said of them and all below.
    folders: Vec<(String, bool)>,
    /// Whether it was said of folders that are not known.
    is_anywhere: bool,
}

impl Overriding {
    /// In all folders.
    pub(super) fn anywhere() -> Overriding {
        Overriding { is_anywhere: true, ..Overriding::default() }
    }

    /// By what the sections of folders say of a root.
    fn of(directives: &[Directive], root: &str) -> Overriding {
        let mut overriding = Overriding::default();
        for (reach, section) in sections_of(directives, root) {
            let is_on = overrides(section.inner());
            let folder = match &reach {
                Reach::Nothing => continue,
                Reach::Whole(length) => root.get(..*length).unwrap_or(root).to_owned(),
                Reach::Path(path) => format!("{root}{path}"),
                Reach::Found(_) | Reach::Unknown => {
                    overriding.is_anywhere |= is_on == Some(true);
                    continue;
                }
            };
            overriding.folders.extend(is_on.map(|is_on| (folder, is_on)));
        }
        overriding
    }

    pub(super) fn is_any_below(&self, root: &str) -> bool {
        let is_near = |folder: &str| below(folder, root).or(below(root, folder)).is_some();
        self.is_anywhere || self.folders.iter().any(|(folder, is_on)| *is_on && is_near(folder))
    }

    /// Whether Apache reads this file: the innermost folder decides, and of the same ones the last.
    pub(super) fn is_for(&self, file: &Path) -> bool {
        let file = file.to_string_lossy();
        let around = self.folders.iter().filter(|(folder, _)| below(&file, folder).is_some());
        let deciding = around.max_by_key(|(folder, _)| folder.len());
        self.is_anywhere || deciding.is_some_and(|(_, is_on)| *is_on)
    }
}

/// What a folder's section says of `.htaccess` files.
fn overrides(directives: &[Directive]) -> Option<bool> {
    let said = directives.iter().filter(|it| it.name.starts_with("allowoverride"));
    said.map(|it| !it.arg(0).eq_ignore_ascii_case("none")).reduce(|one, other| one || other)
}

/// What the section of a folder says of access by itself.
fn own_access(section: &Directive) -> Access {
    access(section.inner(), &Settings::default().with(section.inner()))
}

pub(super) fn is_folder(directive: &Directive) -> bool {
    matches!(&*directive.name, "directory" | "directorymatch") && directive.block.is_some()
}

/// The sections of folders with what they are for: the outer ones first, and what is in the site
/// last.
fn sections_of<'a>(directives: &'a [Directive], root: &str) -> Vec<(Reach, &'a Directive)> {
    let sections = directives.iter().filter(|it| is_folder(it));
    let mut sections: Vec<_> = sections.map(|it| (reach::of(it, root), it)).collect();
    sections.sort_by_key(|(reach, _)| match reach {
        Reach::Whole(length) => *length,
        _ => LAST,
    });
    sections
}

/// Whether paths are rewritten within.
fn has_rewrites(directives: &[Directive]) -> bool {
    directives.iter().any(|it| it.name == "rewriterule" || has_rewrites(it.inner()))
}

/// The folder of a section, if it is for one that is known.
pub(super) fn folder_of(section: &Directive) -> Option<String> {
    let folder = section.arg(0);
    let is_plain = section.name == "directory"
        && section.args.len() == 1
        && folder.starts_with('/')
        && !folder.contains(['*', '?', '[', '$']);
    is_plain.then(|| super::plain(folder))
}

/// What of a path is below a folder, both as [`super::plain`] writes them.
pub(super) fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(folder.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Whether anything within may refuse.
fn guards(directives: &[Directive]) -> bool {
    let is_guard = |name: &str| {
        OF_ACCESS.contains(&name)
            || GUARDS.iter().any(|part| name.contains(part))
            || name.starts_with("rewrite")
            || name.starts_with("redirect")
            || name.contains("engine")
            || name.starts_with("php_")
    };
    // Files of folders that are not read may refuse, too; of a folder's own section it is known.
    let is_overriding = |it: &Directive| is_folder(it) && overrides(it.inner()) == Some(true);
    directives.iter().any(|it| is_guard(&it.name) || is_overriding(it) || guards(it.inner()))
}
