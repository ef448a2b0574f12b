//! The directives of a section, for the paths that it is for.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Site};
use crate::pattern;
use crate::source::Place;

use super::access::{Access, OF_ACCESS, access};
use super::area::{Area, HIDDEN};
use super::folder::is_folder;
use super::login::Settings;
use super::overriding::overrides;
use super::rewriting::Rewriting;
use super::unseen;
use super::{Reader, field, listing, name, parse, remote};

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
    "cgipassauth",
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
    "balancermember",
    "proxy",
    "proxyaddheaders",
    "proxyiobuffersize",
    "proxypreservehost",
    "proxyreceivebuffersize",
    "proxyset",
    "proxystatus",
    "proxytimeout",
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
        let directives = &*self.denied(directives, area, site);
        let settings = self.settings.with(directives);
        let mut closed = area.clone();
        closed
            .scope
            .and
            .extend(opened(directives, directives, false).into_iter().map(|own| format!("!{own}")));
        self.access(&place, access(directives, &settings), &closed, site);
        self.unasked(directives, &area.scope);
        let around = std::mem::replace(&mut self.settings, settings);
        let base = directives.iter().rfind(|it| it.name == "rewritebase");
        let mut rewriting = Rewriting::new(area, base.map(|base| base.arg(0)));
        for (at, directive) in directives.iter().enumerate() {
            match (&*directive.name, &directive.block) {
                ("rewritecond", None) => rewriting.condition(directive),
                ("rewriterule", None) => {
                    let before = site.front_controller.clone();
                    self.rewrite(directive, &mut rewriting, site);
                    if let Some(folder) = &area.folder {
                        self.leave_out(folder, &directive.place, before.as_ref(), site);
                    }
                }
                ("directory" | "directorymatch", Some(_)) => {}
                (name, _) if OF_ACCESS.contains(&name) => {}
                (_, Some(inner)) => {
                    self.section(directive, inner, &directives[at + 1..], area, site);
                }
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
        if area.scope.is_all() && area.folder.is_none() {
            // Up to here nothing is of a folder.
            site.mounts.iter_mut().for_each(|mount| field::hand_down(&site.rules, mount));
        }
        if directives.iter().any(is_folder) {
            self.beside_services(site, |reader, site| reader.directories(directives, site));
        }
    }

    pub(super) fn access(&mut self, place: &Place, access: Access, area: &Area, site: &mut Site) {
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

    fn section(
        &mut self,
        section: &Directive,
        inner: &[Directive],
        later: &[Directive],
        area: &Area,
        site: &mut Site,
    ) {
        let (kind, name) = kind_of(section);
        let one = |area: Area| vec![area];
        let within = match kind {
            "files" => Some(one(area.files(name::of_shell(name)))),
            "filesmatch" => name::of_expression(name).map(|all| {
                if all.iter().any(|names| names.is_dotless) && guards(inner) {
                    let reason = "names without a dot are also refused behind the name of a \
                        script; where that is asked for, write a rule for the files instead";
                    self.notes.differs(&section.place, &section.line(), reason);
                }
                let closes =
                    !matches!(access(inner, &Settings::default()), Access::Unsaid | Access::Open);
                // Apache takes the first part of a path that is missing for the name.
                for before in all.iter().filter_map(|names| names.before.clone()) {
                    let mut scope = area.scope.clone();
                    // The folder itself is there.
                    let folder = scope.path.as_deref().unwrap_or_default().trim_end_matches('/');
                    let before = match folder.is_empty() || folder.ends_with('*') {
                        true => before,
                        false => format!("^{}.*(?:{before})", regex_lite::escape(folder)),
                    };
                    scope.and.extend(scope.pattern.replace(before));
                    let rule = Rule::at(&section.place, scope).rewrite(HIDDEN);
                    if closes {
                        site.guard(Rule { unless_file: true, ..rule });
                    }
                }
                all.into_iter().map(|names| area.files(names)).collect()
            }),
            "location" if area.folder.is_none() && !name.contains(['*', '?']) => {
                let path = name.trim_end_matches('/');
                let scope = if path.is_empty() { Scope::default() } else { Scope::path(path) };
                Some(one(Area { scope, folder: None }))
            }
            "locationmatch" if area.scope.is_all() => {
                let scope = pattern::translate(name, false).ok().map(Scope::pattern);
                scope.map(|scope| one(Area { scope, folder: None }))
            }
            "proxy" if area.scope.is_all() && area.folder.is_none() => {
                return self.of_services(section, site);
            }
            "proxy" | "ifmodule" => return,
            "if" if self.limited(section, area, site) => return,
            _ => None,
        };
        // What later sections open again stays open, as the last of them decides.
        let again: Vec<String> =
            opened(inner, later, true).iter().map(|own| format!("!{own}")).collect();
        match within {
            Some(within) => within.into_iter().for_each(|mut within| {
                let closes = again.is_empty() || !only_access(inner);
                within.scope.and.extend(again.iter().filter(|_| !closes).cloned());
                match kind.starts_with("files") {
                    true => self.beside_services(site, |reader, site| {
                        reader.directives(inner, &within, site);
                    }),
                    false => self.directives(inner, &within, site),
                }
            }),
            None => self.unknown(section, area, site),
        }
    }

    /// A section whose paths are not known.
    pub(super) fn unknown(&mut self, section: &Directive, area: &Area, site: &mut Site) {
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
        let is_off = directive.arg(0).eq_ignore_ascii_case("off");
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
            "proxyrequests" | "proxyvia" if is_off => {}
            "proxyrequests" => {
                self.notes.left(place, &line, "nothing is fetched from servers that clients name");
            }
            "proxypassreversecookiedomain" | "proxypassreversecookiepath" => {
                self.notes.left(place, &line, "cookies of a service are passed on as they are");
            }
            "expiresbytype" | "expiresdefault" => self.expires(directive, area, site),
            "redirect" | "redirectpermanent" | "redirecttemp" | "redirectmatch" => {
                self.beside_services(site, |reader, site| reader.redirect(directive, area, site));
            }
            "php_value" | "php_admin_value" | "php_flag" | "php_admin_flag" => {
                self.php(directive, area, site);
            }
            "limitrequestbody" => self.body_size(directive, area, site),
            // It comes before services.
            "sethandler" => self.handler(directive, area, site),
            "forcetype" | "addhandler" | "addtype" | "removehandler" | "removetype" => {
                self.beside_services(site, |reader, site| {
                    reader.endings(directive, area, directives, site);
                });
            }
            "proxypassmatch" if unseen::hands_scripts(directive) => {}
            "proxypass" | "proxypassmatch" if self.services.done.contains(place) => {}
            "requestheader" => self.told(directive, area, site),
            "proxypassreverse" => self.redirected_by_service(directive, area, site),
            "setenv" if is_all && directive.args.len() == 2 && !directive.arg(1).contains('%') => {
                let (name, value) = (directive.arg(0), directive.arg(1));
                site.env.insert(name.to_owned(), value.to_owned());
            }
            name if TUNING.contains(&name) || name.starts_with("sslproxy") => {}
            "setenvifexpr" => self.notes.left(place, &line, "no variable is set by an expression"),
            // A filter that is off refuses nothing.
            name if name.starts_with("sec") && directive.args.len() == 1 && is_off => {}
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
                let reason = "nothing but files and PHP is served, so these paths are refused";
                self.elsewhere(directive, area, reason, site);
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
    pub(super) fn elsewhere(
        &mut self,
        directive: &Directive,
        area: &Area,
        reason: &str,
        site: &mut Site,
    ) {
        let reason = match &*directive.name {
            "scriptalias" | "scriptaliasmatch" => {
                "programs run by fcgiwrap, see docs/cgi.md; without it these paths are refused"
            }
            "aliasmatch" => {
                "only a folder can lie elsewhere: write a [[site]] with `path`, or a rule with \
                `rewrite`; without it these paths are refused"
            }
            _ => reason,
        };
        self.notes.refused(&directive.place, &directive.line(), reason);
        let path = directive.arg(0);
        let scope = match directive.name.ends_with("match") {
            true => pattern::translate(path, false).ok().map(|it| Scope::pattern(it).refusing()),
            false => (path.starts_with('/') && path.len() > 1)
                .then(|| Scope::path(format!("{}*", path.trim_end_matches('*')))),
        };
        let scope = scope.unwrap_or_else(|| area.scope.clone());
        site.rules.push(Rule::at(&directive.place, scope).refuse_all(404));
    }
}

/// The kind of a section, and what it is for. `<Files ~ "expression">` is the older `<FilesMatch
/// "expression">`.
fn kind_of(section: &Directive) -> (&str, &str) {
    match (&*section.name, section.arg(0)) {
        ("files", "~") => ("filesmatch", section.arg(1)),
        ("location", "~") => ("locationmatch", section.arg(1)),
        (kind, name) => (kind, name),
    }
}

/// Whether a section says who is let in, and nothing else.
fn only_access(directives: &[Directive]) -> bool {
    directives.iter().all(|it| it.block.is_none() && OF_ACCESS.contains(&&*it.name))
}

/// The names of files that sections open again in what is closed around or before them, as
/// expressions.
fn opened(directives: &[Directive], sections: &[Directive], is_later: bool) -> Vec<String> {
    // Apache holds to both of its ways to say it.
    let says = |all: &[Directive], newer: bool| {
        let is_own = |name: &str| match newer {
            true => name.starts_with("require"),
            false => matches!(name, "order" | "allow" | "deny"),
        };
        all.iter().any(|it| is_own(&it.name))
    };
    let opens = |section: &&Directive| {
        let inner = section.inner();
        access(inner, &Settings::default()) == Access::Open
            && [true, false].iter().all(|newer| says(inner, *newer) || !says(directives, *newer))
    };
    let names = |section: &Directive| match kind_of(section) {
        ("files", name) if is_later => Some(name::in_plain_folders(&name::exactly(name))),
        ("filesmatch", expression) if is_later => {
            name::names_found(expression).map(|names| name::in_plain_folders(&names))
        }
        ("files", name) => Some(name::exactly(name)),
        ("filesmatch", expression) => name::exactly_found(expression),
        _ => None,
    };
    sections.iter().filter(opens).filter_map(names).collect()
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
