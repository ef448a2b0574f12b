use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, GeneralSubtree, IsCa, KeyPair, NameConstraints,
};
use tokamak_tls::Certificate;

use super::*;

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn read(state: &Path, host: &str) -> Certificate {
    let file = fs::read(pair_path(state, host)).unwrap();
    Pair::read(&file, &file).unwrap().certificate
}

#[test]
fn a_name_gets_a_certificate_that_lasts() {
    let temporary = tempfile::tempdir().unwrap();
    let state = temporary.path().join("state");
    let first = Authority::open(&state, now()).unwrap();
    assert!(first.is_new);
    for (host, names) in [
        ("shop.localhost", &["shop.localhost", "127.0.0.1", "::1"][..]),
        ("127.0.0.1", &["127.0.0.1", "::1"]),
        ("[::1]", &["::1", "127.0.0.1"]),
        ("*.a.localhost", &["*.a.localhost", "127.0.0.1", "::1"]),
    ] {
        assert_eq!(first.ensure(host, now()), Ok(true), "{host}");
        assert_eq!(first.ensure(host, now()), Ok(false), "{host}");
        assert_eq!(read(&state, host).names, names);
    }
    // Another server, later.
    let serial = |host| read(&state, host).serial;
    let before = serial("shop.localhost");
    let later = Authority::open(&state, now() + days(59)).unwrap();
    assert!(!later.is_new);
    assert_eq!(later.ensure("shop.localhost", now() + days(59)), Ok(false));
    assert_eq!(later.ensure("shop.localhost", now() + days(61)), Ok(true));
    assert_ne!(serial("shop.localhost"), before);
    // The clock was wrong, and is set back.
    assert_eq!(later.ensure("shop.localhost", now()), Ok(true));
    let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(pair_path(&state, "shop.localhost")), 0o600);
    assert_eq!(mode(state.join("local/root.key")), 0o600);
    assert_eq!(mode(state.join("local")), 0o700);
}

#[test]
fn a_root_that_ends_is_replaced_and_so_is_what_it_has_signed() {
    let temporary = tempfile::tempdir().unwrap();
    let state = temporary.path().join("state");
    let old = Authority::open(&state, now()).unwrap();
    old.ensure("localhost", now()).unwrap();
    let old_root = root(&state).unwrap().unwrap();
    let soon = now() + ROOT_LIFETIME - days(1);
    let new = Authority::open(&state, soon).unwrap();
    assert!(new.is_new);
    let new_root = root(&state).unwrap().unwrap();
    assert_ne!(old_root.name, new_root.name);
    fs::copy(pair_path(&state, "localhost"), state.join("old.pem")).unwrap();
    assert_eq!(new.ensure("localhost", soon), Ok(true));
    assert_eq!(read(&state, "localhost").issuer, format!("CN={}", new_root.name));
    // Its file with the certificate is made anew if somebody has removed it.
    fs::remove_file(root_path(&state)).unwrap();
    assert_eq!(root(&state), Ok(None));
    Authority::open(&state, soon).unwrap();
    assert_eq!(root(&state), Ok(Some(new_root)));
}

#[test]
fn servers_that_begin_at_once_have_one_authority() {
    let temporary = tempfile::tempdir().unwrap();
    let state = temporary.path().join("state");
    let subjects: Vec<String> = std::thread::scope(|scope| {
        let open = || Authority::open(&state, now()).unwrap().root.certificate.subject.clone();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(subjects.iter().all(|subject| *subject == subjects[0]), "{subjects:?}");
}

#[test]
fn damaged_files_are_reported_or_replaced() {
    let temporary = tempfile::tempdir().unwrap();
    let state = temporary.path().join("state");
    let authority = Authority::open(&state, now()).unwrap();
    authority.ensure("localhost", now()).unwrap();
    for damage in [&b""[..], b"-----BEGIN CERTIFICATE-----\nAAAA\n", b"\xff\x00"] {
        fs::write(pair_path(&state, "localhost"), damage).unwrap();
        assert_eq!(authority.ensure("localhost", now()), Ok(true));
        read(&state, "localhost");
        // A root that people trust is not replaced without asking.
        fs::write(state.join("local/root.key"), damage).unwrap();
        let problem = Authority::open(&state, now()).err().unwrap();
        assert!(problem.contains("root.key is damaged") && problem.contains("remove it"));
        assert!(!problem.contains("PRIVATE"), "{problem}");
    }
}

#[test]
fn a_certificate_of_another_user_is_read_with_suspicion() {
    let temporary = tempfile::tempdir().unwrap();
    let state = temporary.path().join("state");
    Authority::open(&state, now()).unwrap();
    let path = root_path(&state);
    let ours = fs::read_to_string(&path).unwrap();
    let known = root(&state).unwrap().unwrap();
    assert_eq!(known.pem.lines().collect::<Vec<_>>(), ours.lines().collect::<Vec<_>>());
    // Another authority, with our name or another one, for all names or for ours.
    let other = |name: &str, constraints: &[&str]| {
        let mut said = CertificateParams::new(Vec::new()).unwrap();
        said.distinguished_name.push(DnType::CommonName, name);
        said.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let names = constraints.iter().map(|name| GeneralSubtree::DnsName((*name).into()));
        said.name_constraints = (!constraints.is_empty()).then(|| NameConstraints {
            permitted_subtrees: names.collect(),
            excluded_subtrees: Vec::new(),
        });
        said.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    };
    let good = "Tokamak local authority 0123abcd";
    for (file, expected) in [
        (other("../../../etc/passwd", &[]), "its name is another one"),
        (other("Tokamak local authority 0123abc'", &[]), "its name is another one"),
        (other("Tokamak local authority 0123abcd/x", &[]), "its name is another one"),
        (other(good, &[]), "not for local names only"),
        (other(good, &["localhost", "example"]), "not for local names only"),
        (format!("{ours}{}", other(good, &[])), "more than one certificate"),
        ("rubbish".to_owned(), "no certificate is in it"),
    ] {
        fs::write(&path, &file).unwrap();
        let problem = root(&state).unwrap_err();
        assert!(problem.contains(expected) && problem.contains("root.pem"), "{problem}");
    }
    // What other programs might understand around it does not get through.
    let certificate = "TRUSTED CERTIFICATE-----";
    fs::write(&path, format!("{ours}-----BEGIN {certificate}\nAAAA\n-----END {certificate}\n"))
        .unwrap();
    assert_eq!(root(&state), Ok(Some(known)));
}
