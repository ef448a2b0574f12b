//! The hub of a site.

use super::{Reader, number, tier};
use crate::model::{Mercure, TokenAlgorithm, TokenKey};
use crate::option;
use crate::origin::{Given, Origin};
use crate::value::{KeyText, Text};

const SECTION: &str = "site.mercure";

impl Reader<'_> {
    pub(super) fn mercure(
        &mut self,
        raw: &option::Mercure,
        is_mounted: bool,
    ) -> Option<Box<Mercure>> {
        let keys = [("publisher_key", &raw.publisher_key), ("subscriber_key", &raw.subscriber_key)];
        if !raw.enabled.value {
            let of_file = |given: &Given<_>| matches!(given.origin, Origin::File(_));
            for (name, given) in keys.into_iter().filter(|(_, given)| of_file(given)) {
                let problem = "is for the hub, which is off; set `enabled = true`";
                self.report(SECTION, name, given.origin, problem.into());
            }
            return None;
        }
        if is_mounted {
            let problem = "a mounted site has no hub of its own; set it in the site around it";
            self.report(SECTION, "enabled", raw.enabled.origin, problem.into());
        }
        let [publisher, subscriber] = [
            (keys[0], &raw.publisher_algorithm, "publisher_algorithm"),
            (keys[1], &raw.subscriber_algorithm, "subscriber_algorithm"),
        ]
        .map(|(key, algorithm, its_name)| self.token_key(key, algorithm, its_name));
        Some(Box::new(Mercure {
            publisher,
            subscriber,
            anonymous: raw.anonymous.value,
            origins: self.origins(&raw.origins),
            history: number(raw.history.value.0),
            history_size: number(raw.history_size.value.0),
            subscribers: number(raw.subscribers.value.0),
            topics: number(raw.topics.value.0),
            update_size: number(raw.update_size.value.0),
            nodes: tier(
                &raw.redis.value,
                &raw.redis_password.value,
                raw.redis_database.value,
                &raw.redis_prefix.value,
                raw.redis_timeout.value,
            ),
            heartbeat: raw.heartbeat.value,
        }))
    }

    fn token_key(
        &mut self,
        (name, given): (&str, &Given<Option<KeyText>>),
        algorithm: &Given<TokenAlgorithm>,
        algorithm_name: &str,
    ) -> Option<TokenKey> {
        let KeyText(key) = given.value.clone()?;
        let algorithm = algorithm.value;
        let text = key.reveal();
        let problem = match algorithm.shortest_secret() {
            Some(_) if text.contains("-----BEGIN") => Some(format!(
                "is a public key, which everybody may know, and {} needs a secret; set \
                    `{algorithm_name}` to that of the key",
                algorithm.name()
            )),
            Some(least) if text.len() < least => Some(format!(
                "is shorter than {least} characters, which {} needs; `openssl rand -hex {}` makes \
                    one",
                algorithm.name(),
                least / 2
            )),
            None if !text.contains("-----BEGIN PUBLIC KEY-----")
                && !text.contains("-----BEGIN RSA PUBLIC KEY-----") =>
            {
                Some(format!("must be a public key as PEM, by which {} verifies", algorithm.name()))
            }
            _ => None,
        };
        if let Some(problem) = problem {
            self.report(SECTION, name, given.origin, problem);
        }
        Some(TokenKey { key, algorithm })
    }

    fn origins(&mut self, given: &Given<Vec<Text>>) -> Vec<String> {
        let mut origins = Vec::new();
        for Text(origin) in &given.value {
            let host = ["http://", "https://"].iter().find_map(|it| origin.strip_prefix(it));
            let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
            let is_good = host.is_some_and(|host| !host.is_empty() && host.bytes().all(is_host));
            if !is_good && origin != "*" {
                let problem = format!(
                    "`{origin}` is no origin; write scheme and host, without a slash at the end, \
                        as in \"https://www.example.org\""
                );
                self.report(SECTION, "origins", given.origin, problem);
            }
            origins.push(origin.to_ascii_lowercase());
        }
        origins
    }
}
