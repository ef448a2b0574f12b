//! The rules of a site.

use super::{Reader, header_fields};
use crate::model::{
    Condition, Conditions, Expression, HeaderChanges, Login, Rule, Satisfy, Serve, Template,
};
use crate::option;
use crate::origin::Origin;
use crate::raw::Repeated;
use crate::value::{Auto, Count, Size, Text};

/// The table, for messages.
const TABLE: &str = "site.rule";

/// Rules of a site that may ask for passwords: requests note them as bits.
const MOST_LOGINS: usize = 32;

/// What browsers say a password is for, unless the rule says it.
const REALM: &str = "Restricted";

/// Header fields that frame a message or belong to the connection: only the server knows them.
const OF_THE_SERVER: [&str; 8] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Reader<'_> {
    pub(super) fn rules(&mut self, tables: &[Repeated<option::Rule>]) -> Vec<Rule> {
        let asks = |table: &&Repeated<option::Rule>| table.values.auth_users.value.is_some();
        if let Some(table) = tables.iter().filter(asks).nth(MOST_LOGINS) {
            let problem = format!(
                "a site has at most {MOST_LOGINS} rules with it; give one rule several paths"
            );
            self.complain("auth_users", table.values.auth_users.origin, problem);
        }
        tables.iter().map(|table| self.rule(table)).collect()
    }

    fn rule(&mut self, table: &Repeated<option::Rule>) -> Rule {
        let values = &table.values;
        let rule = Rule {
            paths: self.rule_paths("path", &values.path.value, values.path.origin),
            pattern: self.pattern(values),
            and_patterns: self.and_patterns(values),
            extensions: self.rule_extensions(values),
            content_types: self.media_types(values),
            except: self.rule_paths("except", &values.except.value, values.except.origin),
            conditions: self.conditions(values),
            unless_file: values.unless_file.value,
            if_file: values.if_file.value,
            folders_are_files: values.folders_are_files.value,
            redirect: self.redirect(values),
            rewrite: self.rewrite(values),
            status: self.rule_status(values),
            allow: values.allow.value.clone(),
            deny: values.deny.value.clone(),
            internal: values.internal.value,
            login: self.login(values),
            scripts: self.allowed_scripts(values),
            serve: values.serve.value,
            index_listing: values.index_listing.value,
            limits: self.rule_limits(values),
            body: values.body.value.map(|Size(bytes)| bytes),
            is_logged: values.log.value,
            of_answer: values.of_answer.value,
            is_last: values.last.value,
            headers: self.header_changes(values),
        };
        self.fit(table, &rule);
        rule
    }

    fn complain(&mut self, name: &str, origin: Origin, problem: impl Into<String>) {
        self.report(TABLE, name, origin, problem.into());
    }

    /// Checks what a rule says in several places.
    fn fit(&mut self, table: &Repeated<option::Rule>, rule: &Rule) {
        let option::Rule { unless_file, content_type, status, always, .. } = &table.values;
        let is_guard = rule.refuses() || rule.login.is_some();
        let effects = [rule.redirect.is_some(), rule.rewrite.is_some(), is_guard];
        if effects.iter().filter(|is_there| **is_there).count() > 1 {
            let problem = "a rule has one of `redirect`, `rewrite`, and `allow` with `deny` and \
                `auth_users`; write a second [[site.rule]]";
            self.complain("redirect", table.origin, problem);
        }
        let restricts = !rule.scripts.is_empty()
            || rule.serve != Serve::All
            || rule.index_listing.is_some()
            || rule.login.is_some();
        let values = &table.values;
        let is_given = values.redirect.value.is_some() || values.rewrite.value.is_some();
        let limits = !rule.limits.is_empty() || rule.body.is_some() || !rule.is_logged;
        let is_of_request = is_given || rule.refuses() || restricts || limits;
        if !is_of_request && rule.headers.is_empty() && !(rule.of_answer && rule.is_last) {
            let problem = "does nothing; set `redirect`, `rewrite`, `deny`, `allow`, `auth_users`, \
                `scripts`, `serve`, `index_listing`, `rate`, `connections`, `body`, `log` or \
                headers";
            self.report("site", "rule", table.origin, problem.into());
        }
        if unless_file.value && !is_given {
            let problem = "is only for `redirect` and `rewrite`; remove it";
            self.complain("unless_file", unless_file.origin, problem);
        }
        if rule.if_file && (rule.unless_file || !is_given) {
            let problem = "is only for `redirect` and `rewrite`, without `unless_file`; remove it";
            self.complain("if_file", values.if_file.origin, problem);
        }
        if !rule.folders_are_files && !rule.if_file && !rule.unless_file {
            let problem = "is only for `unless_file` and `if_file`; remove it";
            self.complain("folders_are_files", values.folders_are_files.origin, problem);
        }
        if matches!(status.value, Auto::Is(_)) && !rule.refuses() && values.redirect.value.is_none()
        {
            let problem = "is only for `redirect`, and for `deny` and `allow`; remove it";
            self.complain("status", status.origin, problem);
        }
        if !rule.content_types.is_empty() && (is_of_request || rule.headers.is_empty()) {
            let problem = "is known only when there is a response; it chooses whose headers are \
                changed, and nothing else may stand in the same rule";
            self.complain("content_type", content_type.origin, problem);
        }
        if rule.of_answer && is_of_request {
            let problem = "what answers is known only when the request has been judged; it chooses \
                whose headers are changed, and nothing else may stand in the same rule";
            self.complain("of_answer", values.of_answer.origin, problem);
        }
        let chooses = rule.conditions.is_some();
        let does_more = (restricts && rule.login.is_none())
            || !rule.scripts.is_empty()
            || rule.serve != Serve::All
            || rule.index_listing.is_some()
            || limits
            || !rule.headers.is_empty();
        if chooses && (does_more || !(is_given || is_guard)) {
            let problem = "`method`, `query` and `header` are only for `redirect`, `rewrite`, \
                `allow` with `deny`, and `auth_users`; write a second [[site.rule]] for the rest";
            self.report("site", "rule", table.origin, problem.into());
        }
        let is_kept = rule.headers.cache_control.is_some() || rule.headers.expires.is_some();
        if rule.headers.keeps_own && !is_kept {
            let problem = "is only for `cache_control` and `expires`; remove it";
            self.complain("keep_own", values.keep_own.origin, problem);
        }
        if rule.internal && (rule.login.is_some() || !rule.refuses()) {
            let problem = "is only for `deny` and `allow`, without `auth_users`; remove it";
            self.complain("internal", values.internal.origin, problem);
        }
        if rule.is_last && !rule.of_answer {
            let problem = "is only for rules with `of_answer`; remove it";
            self.complain("last", values.last.origin, problem);
        }
        if always.value && rule.headers.is_empty() {
            self.complain("always", always.origin, "no header is set or added; remove it");
        }
        let groups = rule.pattern.as_ref().map_or(0, |pattern| pattern.groups() - 1);
        for (name, template, origin) in [
            ("redirect", &rule.redirect, values.redirect.origin),
            ("rewrite", &rule.rewrite, values.rewrite.origin),
        ] {
            let highest = template.as_ref().map_or(0, Template::highest_group);
            if highest > groups {
                let problem = match groups {
                    0 => format!("`${highest}` has no group; write one in `pattern`, as in (.*)"),
                    _ => format!("`${highest}` has no group; the pattern has {groups}"),
                };
                self.complain(name, origin, problem);
            }
        }
    }

    /// Paths without a slash at their ends.
    fn rule_paths(&mut self, name: &str, given: &[Text], origin: Origin) -> Vec<String> {
        let mut paths = Vec::new();
        for Text(text) in given {
            let path = text.strip_suffix('*').unwrap_or(text);
            let is_plain = path.starts_with('/')
                && !path.contains("//")
                && !path.contains('*')
                && path.split('/').all(|part| part != "." && part != "..");
            if !is_plain {
                let problem = format!(
                    "`{text}` must begin with `/`, have no empty part, no `.` and no `..`, and a \
                        `*` only at the end"
                );
                self.complain(name, origin, problem);
            }
            paths.push(match path.len() < text.len() {
                true => text.clone(),
                false => path.trim_end_matches('/').to_owned(),
            });
        }
        paths
    }

    /// A rule that refuses regards `/Secret` and `/secret` as the same.
    fn pattern(&mut self, values: &option::Rule) -> Option<Expression> {
        let Text(text) = values.pattern.value.as_ref()?;
        let ignores_case = values.redirect.value.is_none() && values.rewrite.value.is_none();
        self.compiled("pattern", text, values.pattern.origin, Expression::new(text, ignores_case))
    }

    /// What was made of the regular expression `text` of the option `name`.
    fn compiled<T>(
        &mut self,
        name: &str,
        text: &str,
        origin: Origin,
        made: Result<T, String>,
    ) -> Option<T> {
        made.inspect_err(|error| {
            let problem = format!("`{text}` is no regular expression: {error}");
            self.complain(name, origin, problem.replace('\n', " "));
        })
        .ok()
    }

    fn and_patterns(&mut self, values: &option::Rule) -> Vec<Condition> {
        let option::Rule { and_pattern, redirect, rewrite, .. } = values;
        let ignores_case = redirect.value.is_none() && rewrite.value.is_none();
        let conditions = and_pattern.value.iter().filter_map(|Text(text)| {
            let made = Condition::of_path(text, ignores_case);
            self.compiled("and_pattern", text, and_pattern.origin, made)
        });
        conditions.collect()
    }

    fn conditions(&mut self, values: &option::Rule) -> Option<Box<Conditions>> {
        let option::Rule { method, query, header, .. } = values;
        let mut read = |name: &str, text: &str, origin: Origin| {
            self.compiled(name, text, origin, Condition::new(text))
        };
        let mut one = |name, value: &Option<Text>, origin| {
            value.as_ref().and_then(|Text(text)| read(name, text, origin))
        };
        let conditions = Conditions {
            method: one("method", &method.value, method.origin),
            query: one("query", &query.value, query.origin),
            headers: {
                let fields = header.value.iter();
                let known = fields.filter_map(|(name, text)| {
                    Some((name.to_ascii_lowercase(), read("header", text, header.origin)?))
                });
                known.collect()
            },
        };
        for name in header.value.keys().filter(|name| !header_fields::is_name(name)) {
            let problem = format!("`{name}` is no name of a header: letters, digits and `-`");
            self.complain("header", header.origin, problem);
        }
        (!conditions.is_empty()).then(|| Box::new(conditions))
    }

    fn rule_extensions(&mut self, values: &option::Rule) -> Vec<String> {
        let option::Rule { extension, .. } = values;
        for Text(text) in &extension.value {
            if text.len() < 2 || !text.starts_with('.') || text.contains(['/', '*']) {
                let problem =
                    format!("`{text}` is no extension; write it with its dot, as in \".png\"");
                self.complain("extension", extension.origin, problem);
            }
        }
        extension.value.iter().map(|Text(text)| text.to_ascii_lowercase()).collect()
    }

    fn media_types(&mut self, values: &option::Rule) -> Vec<String> {
        let option::Rule { content_type, .. } = values;
        for Text(text) in &content_type.value {
            let is_type = text.split_once('/').is_some_and(|(kind, rest)| {
                !kind.is_empty()
                    && !rest.is_empty()
                    && !kind.contains('*')
                    && (rest == "*" || !rest.contains(['*', '/', ';', ' ']))
            });
            if !is_type {
                let problem = format!(
                    "`{text}` is no media type; write it as in \"text/html\" or \"image/*\", \
                        without parameters"
                );
                self.complain("content_type", content_type.origin, problem);
            }
        }
        content_type.value.iter().map(|Text(text)| text.to_ascii_lowercase()).collect()
    }

    fn redirect(&mut self, values: &option::Rule) -> Option<Template> {
        let option::Rule { redirect, .. } = values;
        let Text(text) = redirect.value.as_ref()?;
        let rest = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        // A group may not become a part of the host's name.
        let is_url =
            rest.is_some_and(|rest| rest.find('/').is_some_and(|at| !rest[..at].contains('$')));
        let is_path = text.starts_with('/') && !text.starts_with("//");
        let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !(is_url || is_path) || !is_visible {
            let problem = format!(
                "`{text}` must begin with `/`, or with `http://` or `https://`, a host and `/`, \
                    and be percent-encoded"
            );
            self.complain("redirect", redirect.origin, problem);
        }
        self.template("redirect", text, redirect.origin)
    }

    fn rewrite(&mut self, values: &option::Rule) -> Option<Template> {
        let option::Rule { rewrite, .. } = values;
        let Text(text) = rewrite.value.as_ref()?;
        let query = text.split_once('?').map_or("", |(_, query)| query);
        let is_encoded = query.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !text.starts_with('/') || !is_encoded {
            let problem = format!(
                "`{text}` must be a path that begins with `/`, and what follows a `?` must be \
                    percent-encoded"
            );
            self.complain("rewrite", rewrite.origin, problem);
        }
        self.template("rewrite", text, rewrite.origin)
    }

    fn template(&mut self, name: &str, text: &str, origin: Origin) -> Option<Template> {
        Template::new(text).map_err(|problem| self.complain(name, origin, problem)).ok()
    }

    fn rule_status(&mut self, values: &option::Rule) -> u16 {
        let redirects = values.redirect.value.is_some();
        let default = if redirects { 301 } else { 403 };
        let status = match values.status.value {
            Auto::Word => default,
            Auto::Is(Count(status)) => u16::try_from(status).unwrap_or(default),
        };
        let (known, problem): (&[u16], _) = match redirects {
            true => (&[301, 302, 303, 307, 308], "a redirect has 301, 302, 303, 307 or 308"),
            false => (&[403, 404, 410], "a refusal has 403, 404 or 410"),
        };
        if !known.contains(&status) {
            self.complain("status", values.status.origin, format!("`{status}`: {problem}"));
        }
        status
    }

    fn login(&mut self, values: &option::Rule) -> Option<Login> {
        let option::Rule { auth_users, auth_realm, satisfy, allow, deny, .. } = values;
        let has_addresses = !(allow.value.is_empty() && deny.value.is_empty());
        let is_any = satisfy.value == Satisfy::Any;
        if is_any && !(has_addresses && auth_users.value.is_some()) {
            let problem = "is for rules with `auth_users`, and `allow` or `deny`; set both, or \
                remove it";
            self.complain("satisfy", satisfy.origin, problem);
        }
        if is_any && matches!(values.status.value, Auto::Is(_)) {
            let problem = "who is not let in by address is asked for a password; remove it";
            self.complain("status", values.status.origin, problem);
        }
        let realm = auth_realm.value.as_ref().map(|Text(realm)| realm.as_str());
        if realm.is_some() && auth_users.value.is_none() {
            let problem = "is only for `auth_users`; set that, or remove it";
            self.complain("auth_realm", auth_realm.origin, problem);
        }
        let realm = realm.unwrap_or(REALM).to_owned();
        let users = self.optional_path(auth_users)?;
        Some(Login { users, realm, satisfy: satisfy.value })
    }

    fn allowed_scripts(&mut self, values: &option::Rule) -> Vec<String> {
        let option::Rule { scripts, .. } = values;
        let rooted = |Text(text): &Text| match text.starts_with('/') {
            true => Text(text.clone()),
            false => Text(format!("/{text}")),
        };
        let rooted: Vec<Text> = scripts.value.iter().map(rooted).collect();
        self.rule_paths("scripts", &rooted, scripts.origin)
    }

    fn header_changes(&mut self, values: &option::Rule) -> HeaderChanges {
        let option::Rule { set_headers: set, add_headers: add, remove_headers: remove, .. } =
            values;
        for (option, names, origin) in [
            ("set_headers", set.value.keys().collect::<Vec<_>>(), set.origin),
            ("add_headers", add.value.keys().collect(), add.origin),
            ("remove_headers", remove.value.iter().map(|text| &text.0).collect(), remove.origin),
        ] {
            for name in names {
                let problem = if !header_fields::is_name(name) {
                    "is no name of a header: letters, digits and `-`"
                } else if OF_THE_SERVER.contains(&&*name.to_ascii_lowercase()) {
                    "is set by the server alone; remove it"
                } else {
                    continue;
                };
                self.complain(option, origin, format!("`{name}` {problem}"));
            }
        }
        let fields = [("set_headers", set), ("add_headers", add)];
        for (option, fields) in fields {
            for (name, value) in &fields.value {
                if !header_fields::is_value(value) {
                    let problem = format!("the value of `{name}` must be one line of ASCII");
                    self.complain(option, fields.origin, problem);
                }
            }
        }
        let cache_control = values.cache_control.value.as_ref().map(|text| text.0.clone());
        if cache_control.as_ref().is_some_and(|value| !header_fields::is_value(value)) {
            let problem = "the value must be one line of ASCII";
            self.complain("cache_control", values.cache_control.origin, problem);
        }
        HeaderChanges {
            set: set.value.clone(),
            add: add.value.clone(),
            remove: remove.value.iter().map(|text| text.0.clone()).collect(),
            cache_control,
            expires: values.expires.value,
            always: values.always.value,
            keeps_own: values.keep_own.value,
        }
    }
}
