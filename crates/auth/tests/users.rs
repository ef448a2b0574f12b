//! Files of users, with hashes that other programs have made: htpasswd, openssl, PHP and the C
//! library.

use tokamak_auth::{UserFiles, Users};

/// Of `geheim`, but for those whose names say otherwise.
const FILE: &str = r"
# the staff
bcrypt:$2y$05$r2uYtzZYLB9.fPf7vIW1QuY.uUva3eOoNmAc2R/JZSA.t21zpzJ16
bcrypt-a:$2a$04$abcdefghijklmnopqrstuuPWRtT5yx7FBi4dcf6ROhboeNunUrLQ.
bcrypt-b:$2b$04$abcdefghijklmnopqrstuuPWRtT5yx7FBi4dcf6ROhboeNunUrLQ.
argon2id:$argon2id$v=19$m=64,t=2,p=1$WmhhS0NuR2Ntb2RoeDFRZw$ouix34kXT7HbtNRFi1o4hu0yO8cXFmiaxgDB4wM8Uog
argon2i:$argon2i$v=19$m=64,t=2,p=1$eUZTOHJlN3FjRG1SRFA3MQ$9fabm42woNLx05A5/bz1hjTkQiFHRsFA3vi2naIHMuw
apr1:$apr1$abcdefgh$bw9gEObk10asetVLiysIZ0
sha256:$5$saltsalt$cKRA0A5uaKu0/NNi2WMrB.mMOAVMowckrDNQ4fKUJ06
sha512:$6$saltsalt$sfZR6YSW/Dp0uCiyF9fDipa6ORr5LVLOwXNgtzRlXXhkC7xA3w4zy97VIC3vL14AUXGJp3yBjZVztkdiBzJnX1
sha256-rounds:$5$rounds=2000$abc$ogQXJ9S3tzVQpMjillVFgITeHxP6wtusF52wGeEnRS.
sha512-rounds:$6$rounds=2000$abc$1Hq0wDtWjDVKZrpkkz7xYrg8RiLbJNeHTOEOnFwsxh.O7.lLawCyJ.v4d6rlSs3jxjFEFfNDKQ9l.Iz/0h5TK.
sha1:{SHA}kGByAB793z4R5tK1eC9Hd/4Dhzk=:a comment
empty:$apr1$abcdefgh$L.PT565ESX4Tp2bqNs7Ie.
long:$apr1$abcdefgh$I/hcVC6rCTq9EYC7I3aYU0
long-sha:$6$saltsalt$yvF33Nx0rqB3uO088GCCrNTCA1gtLPN0U2Mzy18xfnIy6x731f1c1a3eJhx5B8C7bS90.at1F3yuAF1..kyRT0
letters:$apr1$abcdefgh$qsIM3VGOJnNJW6HZOO3/t1
";

#[test]
fn the_password_of_each_user() {
    let users = Users::read(FILE.as_bytes()).unwrap();
    let long = "a password that is longer than sixteen and thirty-two";
    for name in FILE.lines().filter_map(|line| Some(line.split_once(':')?.0)) {
        let user = users.find(name.as_bytes());
        let right = match name {
            "empty" => "",
            "long" | "long-sha" => long,
            "letters" => "päss:wörd",
            _ => "geheim",
        };
        assert!(user.is_some() && users.verify(user, right.as_bytes()), "{name}");
        for wrong in ["geheim ", "geheiM", "a", &"x".repeat(2000)] {
            assert!(!users.verify(user, wrong.as_bytes()), "{name}: {wrong}");
        }
    }
    assert_eq!(users.find(b"nobody"), None);
    assert!(!users.verify(None, b"geheim"));
    assert!(!Users::default().verify(None, b""));
}

#[test]
fn the_error_for_an_invalid_line_contains_no_secret() {
    for (line, problem) in [
        ("max:geheim", "line 3: the password of `max` is neither hashed with bcrypt"),
        ("max:Kx9dG3sW1f2Qk", "line 3: the password of `max` is neither"),
        ("max", "line 3: has no `:`"),
        (":{SHA}kGByAB793z4R5tK1eC9Hd/4Dhzk=", "line 3: has no name"),
        ("max:", "line 3: the password of `max` is neither"),
        ("sha1:{SHA}kGByAB793z4R5tK1eC9Hd/4Dhzk=\nsha1:{SHA}kGByAB793z4R5tK1eC9Hd/4Dhzk=", "twice"),
        ("max:{SHA}geheim", "`max` is no whole hash of {SHA}"),
        ("max:$apr1$geheim", "`max` is no whole hash of apr1"),
        ("max:$2y$05$geheim", "`max` is no whole hash of bcrypt"),
        (
            "max:$2y$17$r2uYtzZYLB9.fPf7vIW1QuY.uUva3eOoNmAc2R/JZSA.t21zpzJ16",
            "cost below 4 or above",
        ),
        (
            "max:$2y$xx$r2uYtzZYLB9.fPf7vIW1QuY.uUva3eOoNmAc2R/JZSA.t21zpzJ16",
            "no whole hash of bcrypt",
        ),
        ("max:$6$rounds=9999999$abc$geheim", "more than 1000000 rounds"),
        ("max:$6$abc$geheim", "no whole hash of SHA-crypt"),
        ("max:$argon2id$v=19$m=64,t=2,p=1$geheim", "no whole hash of Argon2"),
        (
            "max:$argon2id$v=19$m=999999,t=2,p=1$WmhhS0NuR2Ntb2RoeDFRZw$ouix34kXT7HbtNRFi1o4hu0yO8cXFmiaxgDB4wM8Uog",
            "needs more than 256 MiB",
        ),
    ] {
        let error = Users::read(format!("# one\n\n{line}\n").as_bytes()).unwrap_err().to_string();
        assert!(error.contains(problem), "{line}: {error}");
        assert!(!error.contains("geheim") && !error.contains("Kx9"), "{error}");
    }
}

#[test]
fn files_arrive_as_they_were_sent() {
    let files = [("/etc/a", &b"x:y"[..]), ("/etc/b", b"")];
    let files = UserFiles(files.map(|(path, file)| (path.into(), file.to_vec())).into());
    let encoded = files.encode();
    assert_eq!(UserFiles::decode(&encoded), Ok(files.clone()));
    assert!(
        (1..encoded.len()).all(|cut| {
            UserFiles::decode(&encoded[..cut]).is_err() || cut == encoded.len() - 14
        })
    );
    assert!(!format!("{files:?}").contains("x:y"));
}
