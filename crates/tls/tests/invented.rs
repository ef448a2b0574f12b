//! Invented and damaged bytes: an error, never a panic.

mod exercise;

use proptest::prelude::*;

proptest! {
    #[test]
    fn bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        exercise::run(&bytes);
    }

    #[test]
    fn damaged_files_do_no_harm(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        let made = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
        let mut file = (made.cert.pem() + &made.signing_key.serialize_pem()).into_bytes();
        exercise::run(&file);
        let at = at.index(file.len());
        file[at] = value;
        exercise::run(&file);
    }
}
