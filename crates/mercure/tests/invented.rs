//! Invented bytes as what publishers and subscribers send.

mod exercise;

use proptest::prelude::*;
use tokamak_mercure::{Algorithm, Key};

fn key() -> Key {
    let algorithm = Algorithm::named("HS256").expect("an algorithm");
    Key::new(algorithm, "0123456789abcdef0123456789abcdef").expect("a key")
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        exercise::run(&bytes, &key());
    }

    #[test]
    fn nearly_updates(
        selector in "[/ab{}?+#.;&,*%=x]{0,20}",
        topic in "[/ab?+#.;,*%=x]{0,20}",
        rest in "(&(data|id|type|retry|private|topic)=([ -~]|%0A|%0D|%C3%A4){0,12}){0,5}",
    ) {
        exercise::run(format!("{selector}\n&topic={topic}{rest}").as_bytes(), &key());
    }
}
