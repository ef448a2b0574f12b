//! Several programs behind the server, such as php-fpm and a database: their phases cannot be told
//! apart, since the phases are those of one backend.

use std::collections::BTreeMap;

use crate::follow::Purpose;
use crate::line::{Call, Target};
use crate::phase::{Kind, Phase, kind};

/// A program that writes to sockets less often for a request is no backend: a supervisor does so.
const RARE: f64 = 0.5;

/// The programs behind the server that write to sockets for requests. If they are several, all
/// their calls become one phase, so that no row is of another program than it says.
pub fn merge<'a>(
    calls: &[Call],
    purposes: &mut [Option<Purpose>],
    requests: usize,
    program: impl Fn(u32) -> &'a str,
) -> Vec<&'a str> {
    let mut answers: BTreeMap<&str, usize> = BTreeMap::new();
    for (call, purpose) in calls.iter().zip(purposes.iter()) {
        let is_backend = purpose.is_some_and(|purpose| is_backend(purpose.phase));
        let has_socket = call.descriptors.iter().any(|it| matches!(it.target, Target::Socket(_)));
        if is_backend && has_socket && kind(&call.name) == Kind::Write {
            *answers.entry(program(call.thread)).or_default() += 1;
        }
    }
    answers.retain(|_, count| *count as f64 >= RARE * requests as f64);
    if answers.len() > 1 {
        for purpose in purposes.iter_mut().flatten().filter(|purpose| is_backend(purpose.phase)) {
            purpose.phase = Phase::BackendRun;
        }
    }
    answers.into_keys().collect()
}

fn is_backend(phase: Phase) -> bool {
    (Phase::BackendAccept..=Phase::BackendClose).contains(&phase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_of_several_programs_become_one() {
        let mut calls = [1, 2, 1].map(|thread| crate::line::call(thread, "write", "", "0", 1, 1));
        let socket = crate::line::Descriptor { number: 5, target: Target::Socket(7) };
        calls.iter_mut().for_each(|call| call.descriptors.push(socket.clone()));
        let at = |phase| Some(Purpose { request: 0, phase });
        let purposes = [at(Phase::BackendRead), at(Phase::BackendClose), at(Phase::Respond)];
        let mut one = purposes;
        assert_eq!(merge(&calls, &mut one, 1, |_| "php-fpm"), ["php-fpm"]);
        assert_eq!(one, purposes);
        let mut two = purposes;
        let program = |thread| if thread == 1 { "php-fpm" } else { "mariadbd" };
        assert_eq!(merge(&calls, &mut two, 1, program), ["mariadbd", "php-fpm"]);
        assert_eq!(two, [at(Phase::BackendRun), at(Phase::BackendRun), at(Phase::Respond)]);
    }
}
