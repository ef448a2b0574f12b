//! Texts that strangers chose (the name of a PHP function, a file, a URL), made safe to show: on a
//! terminal they give no orders to it, and in a page they are no tags.

use std::borrow::Cow;

/// The text with `?` in place of each character by which a terminal is given orders, a line is
/// ended, or the letters after it are put into another order. Apart from those, all of Unicode
/// stays.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    if text.contains(is_order) { text.replace(is_order, "?").into() } else { text.into() }
}

/// C0, DEL and C1 are control characters: U+009B alone begins what `ESC [` does. The others are the
/// ends of lines and paragraphs, and what changes the direction of writing.
fn is_order(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// The text for HTML, between tags and in attributes with double quotes.
pub fn for_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_order_reaches_a_terminal() {
        for order in ["\x1b[2J", "\u{9b}2J", "\u{9d}0;x\u{9c}", "a\rb", "a\nb", "\u{7f}", "\0"] {
            let shown = for_terminal(order);
            assert!(!shown.contains(char::is_control) && shown.contains('?'), "{shown:?}");
        }
        for turn in ['\u{202e}', '\u{2066}', '\u{200f}', '\u{2028}'] {
            assert_eq!(for_terminal(&format!("a{turn}b")), "a?b");
        }
    }

    #[test]
    fn what_is_no_order_stays() {
        for name in ["App\\Käse::größe", "名前", "{closure:a b.php:9}", ""] {
            assert!(matches!(for_terminal(name), Cow::Borrowed(same) if same == name));
        }
    }

    #[test]
    fn nothing_in_a_page_is_a_tag_or_ends_an_attribute() {
        assert_eq!(for_html("<b a=\"&\">"), "&lt;b a=&quot;&amp;&quot;&gt;");
    }
}
