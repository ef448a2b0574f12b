//! `basic_auth`: its users stand in the Caddyfile, and become a file of their own.

use crate::directive::Directive;
use crate::model::{Login, Rule, Scope, Site};
use crate::users;

use super::Reader;
use super::matcher::{Clients, Matcher};

impl Reader<'_> {
    pub(super) fn password(
        &mut self,
        directive: &Directive,
        matcher: &Matcher,
        args: &[String],
        site: &mut Site,
    ) {
        let (users, realm, free) = match self.users(directive, matcher, args) {
            Ok(found) => found,
            Err(problem) => {
                let reason = format!("{problem}, so everybody is refused instead");
                return self.refuse(directive, matcher, 403, site, Some(&reason));
            }
        };
        let named = self.description.files.iter().find(|(_, text)| *text == users);
        let name = match named {
            Some((name, _)) => name.clone(),
            None => {
                // Tokamak never sends a file of such a name, wherever it lies.
                let name = format!(".htpasswd-{}", self.description.files.len() + 1);
                self.description.files.push((name.clone(), users));
                name
            }
        };
        let login = Login { users: name, realm, free };
        let rule = Rule::at(&directive.place, Scope::default()).login(login);
        site.rules.extend(matcher.guarding(&rule));
    }

    /// A file of the users, the realm, and the clients that need no password.
    fn users(
        &self,
        directive: &Directive,
        matcher: &Matcher,
        args: &[String],
    ) -> Result<(String, Option<String>, Vec<String>), String> {
        if !self.writes_files {
            return Err("passwords become a file of their own, and only `-o` writes one".into());
        }
        let free = match &matcher.clients {
            None => Vec::new(),
            Some(Clients::Not(networks)) => networks.clone(),
            Some(Clients::Only(_)) => return Err("a password of some clients is none".into()),
        };
        if matcher.is_widened() {
            return Err("a part of its matcher is not translated".into());
        }
        let (hash, realm) = match args {
            [] => ("bcrypt", None),
            [hash] => (&**hash, None),
            [hash, realm] => (&**hash, Some(realm)),
            _ => return Err("it has too many words".into()),
        };
        let users = directive.inner();
        if hash != "bcrypt" || users.is_empty() {
            return Err("only users with bcrypt are translated".into());
        }
        let realm = match realm {
            None => "restricted".to_owned(),
            Some(realm) if realm.contains(['{', '}']) => {
                return Err("placeholders are not translated".into());
            }
            Some(realm) => realm.clone(),
        };
        let mut text = String::new();
        for user in users {
            let name = &user.name;
            let is_name = !name.contains([':', '{', '#']) && name.trim() == name;
            match &user.args[..] {
                [hash] if is_name && user.block.is_none() && hash.starts_with("$2") => {
                    text.push_str(&format!("{name}:{hash}\n"));
                }
                // An older Caddy had it in Base64.
                _ => return Err("a user has a name and a hash of bcrypt".into()),
            }
        }
        users::read(text.as_bytes())?;
        Ok((text, users::realm(&realm), free))
    }
}
