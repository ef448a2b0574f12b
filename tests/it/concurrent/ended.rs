//! A request of async mode that ends its worker.

use std::fs;
use std::time::Duration;

use crate::harness::{Kind, Setup, eventually, get};

#[test]
fn one_that_ends_its_worker_is_not_repeated_and_those_beside_it_are() {
    let server = Setup::new(Kind::Async).site("sites/ended").workers(1).start();
    let begun = |name: &str| {
        let text = fs::read_to_string(server.state_file(name)).unwrap_or_default();
        text.lines().count()
    };
    let names: Vec<_> = (0..8).map(|n| format!("waits{n}")).collect();
    let mut clients: Vec<_> = names.iter().map(|_| server.connect()).collect();
    for (name, client) in names.iter().zip(&mut clients) {
        client.send(get(&format!("/?name={name}")).bytes());
    }
    let all_have_begun = |count| names.iter().all(|name| begun(name) == count).then_some(());
    let limit = Duration::from_secs(60);
    for deaths in 1..=3 {
        assert!(eventually(limit, || all_have_begun(deaths)).is_some(), "{}", server.log());
        server.get("/?name=ends").expect(502);
        assert_eq!(begun("ends"), deaths, "{}", server.log());
    }
    fs::write(server.state_file("go"), "").unwrap();
    for (name, client) in names.iter().zip(&mut clients) {
        assert_eq!(client.response().expect(200).text(), *name);
    }
}
