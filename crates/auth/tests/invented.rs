//! Invented bytes, and damaged ones.

mod exercise;

use proptest::prelude::*;

const FILE: &str = "a:$apr1$abcdefgh$bw9gEObk10asetVLiysIZ0\n# b\n\nc:{SHA}kGByAB793z4R5tK1eC9Hd/4Dhzk=\n\
    d:$2y$05$r2uYtzZYLB9.fPf7vIW1QuY.uUva3eOoNmAc2R/JZSA.t21zpzJ16\n\
    e:$5$saltsalt$cKRA0A5uaKu0/NNi2WMrB.mMOAVMowckrDNQ4fKUJ06\n\
    f:$argon2i$v=19$m=64,t=2,p=1$eUZTOHJlN3FjRG1SRFA3MQ$9fabm42woNLx05A5/bz1hjTkQiFHRsFA3vi2naIHMuw\n";

#[test]
fn a_whole_file_is_read() {
    assert_eq!(tokamak_auth::Users::read(FILE.as_bytes()).unwrap().len(), 5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes(bytes: Vec<u8>) {
        exercise::run(&bytes);
    }

    #[test]
    fn a_field(encoded in "[A-Za-z0-9+/=: -]{0,60}") {
        exercise::run(format!("Basic {encoded}").as_bytes());
    }

    #[test]
    fn damaged_files(at in 0..FILE.len(), byte: u8, cut in 0..FILE.len()) {
        let mut file = FILE.as_bytes().to_vec();
        file[at] = byte;
        exercise::run(&file);
        exercise::run(&file[..cut]);
    }
}
