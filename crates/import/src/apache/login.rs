//! `AuthType Basic`: who is asked for a password, and by which file of users.

use crate::directive::Directive;
use crate::model::{Login, Rule, Scope, Site};
use crate::users;

use super::Reader;

/// What sections say of their passwords. Each part is inherited by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    kind: Option<String>,
    realm: Option<String>,
    file: Option<String>,
}

impl Settings {
    /// These, with what the directives of an inner section say.
    pub(super) fn with(&self, directives: &[Directive]) -> Settings {
        let last = |name: &str, outer: &Option<String>| {
            let own = directives.iter().rfind(|it| it.name == name);
            own.map(|it| it.arg(0).to_owned()).or_else(|| outer.clone())
        };
        Settings {
            kind: last("authtype", &self.kind),
            realm: last("authname", &self.realm),
            file: last("authuserfile", &self.file),
        }
    }
}

/// A password that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PasswordRule {
    pub require: Directive,
    pub realm: String,
    pub file: String,
    /// The only users of the file who are let in.
    pub users: Option<Vec<String>>,
    /// Networks whose clients need none.
    pub free: Vec<String>,
    /// The only networks whose clients are let in.
    pub only: Vec<String>,
}

impl PasswordRule {
    /// What a `Require` asks for; `None` if that is not translated.
    pub(super) fn new(require: &Directive, settings: &Settings) -> Option<PasswordRule> {
        let Settings { kind: Some(kind), realm: Some(realm), file: Some(file) } = settings else {
            return None;
        };
        let names = require.args.get(1..).unwrap_or_default();
        let is_variable = |text: &String| text.contains(['$', '%']);
        if !kind.eq_ignore_ascii_case("basic") || is_variable(file) || names.iter().any(is_variable)
        {
            return None;
        }
        let is_everybody = require.arg(0) == "valid-user";
        Some(PasswordRule {
            require: require.clone(),
            realm: realm.clone(),
            file: file.clone(),
            users: (!is_everybody).then(|| names.to_vec()),
            free: Vec::new(),
            only: Vec::new(),
        })
    }

    /// One of two lines of a section is enough.
    pub(super) fn or(self, other: PasswordRule) -> PasswordRule {
        let users = self.users.zip(other.users).map(|(own, others)| [own, others].concat());
        PasswordRule { users, ..other }
    }
}

/// Settings of passwords of a section that asks for none itself: they change what is asked for by
/// a section around it.
pub(super) struct Changed {
    scope: Scope,
    file: Option<String>,
}

/// Whether a provider other than that of files is named in any section.
pub(super) fn has_other_provider(directives: &[Directive]) -> bool {
    let is_other = |it: &Directive| {
        let is_file = it.args.iter().all(|name| name.eq_ignore_ascii_case("file"));
        (it.name == "authbasicprovider" && !is_file) || has_other_provider(it.inner())
    };
    directives.iter().any(is_other)
}

impl Reader<'_> {
    /// The rules for a password, or the refusal in their place.
    pub(super) fn asked(&mut self, asked: PasswordRule, rule: Rule, site: &mut Site) {
        let (place, line) = (&asked.require.place, asked.require.line());
        let users = self.users_file(&asked.file);
        let problem = match users::names(self.disk, &users) {
            Err(problem) => Some(problem),
            Ok(names) => asked.users.as_ref().and_then(|own| {
                let other = names.iter().find(|name| !own.contains(name))?;
                Some(format!("a rule lets all users of a file in, and {users} has {other}, too"))
            }),
        };
        if let Some(problem) = problem {
            let reason = format!("{problem}; everybody is refused instead");
            self.notes.refused(place, &line, reason);
            site.guard(rule.refuse_all(403));
            return;
        }
        if asked.users.is_some() {
            let reason = "a rule lets all users of a file in, also those who are added later";
            self.notes.differs(place, &line, reason);
        }
        if !asked.only.is_empty() {
            site.guard(rule.clone().refuse(asked.only, vec!["all".to_owned()], 403));
        }
        let realm = users::realm(&asked.realm).filter(|realm| !realm.contains("%{"));
        site.guard(rule.login(Login { users, realm, free: asked.free }));
    }

    fn users_file(&self, name: &str) -> String {
        self.server_root.join(name).to_string_lossy().into_owned()
    }

    /// Notes the settings of a section that does not say who is let in.
    pub(super) fn unasked(&mut self, directives: &[Directive], scope: &Scope) {
        let has = |names: &[&str]| directives.iter().any(|it| names.contains(&&*it.name));
        let is_changed = has(&["authtype", "authuserfile"]);
        if !is_changed || has(&["require", "requireany", "requireall"]) {
            return;
        }
        let own = directives.iter().rfind(|it| it.name == "authuserfile");
        let is_basic = |it: &Directive| it.arg(0).eq_ignore_ascii_case("basic");
        let is_known = directives.iter().filter(|it| it.name == "authtype").all(is_basic);
        let file = own.filter(|_| is_known).map(|own| self.users_file(own.arg(0)));
        self.changed.push(Changed { scope: scope.clone(), file });
    }

    /// Refuses where a section changes what password is asked for around it, and where something
    /// else than files may be asked.
    pub(super) fn write_logins(&mut self, site: &mut Site) {
        let changed = std::mem::take(&mut self.changed);
        let mounts = site.mounts.iter_mut().flat_map(|mount| &mut mount.rules);
        for rule in site.rules.iter_mut().chain(mounts) {
            let Some(login) = rule.asks() else { continue };
            let changes = |it: &Changed| {
                it.file.as_ref() != Some(&login.users) && it.scope.may_overlap(&rule.scope)
            };
            let problem = if self.has_other_provider {
                "an `AuthBasicProvider` may ask something else than the file"
            } else if changed.iter().any(changes) {
                "another section changes who is asked"
            } else {
                continue;
            };
            let reason = format!("{problem}; everybody is refused instead");
            self.notes.refused(&rule.place, &login.users, reason);
            *rule = rule.clone().refuse_all(403);
        }
    }
}
