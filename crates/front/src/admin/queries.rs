//! Query strings in the report of the supervisor. They have tokens and what visitors typed, so a
//! listener without a token does not show them to the other users of the machine, among them the
//! scripts of all sites.

use serde_json::Value;

/// A report, with or without the word `ok` before it, in which each `uri` ends before its query.
/// Anything else than a report stays as it is.
pub fn hidden(report: &str) -> String {
    let start = report.find('{').unwrap_or(report.len());
    let (word, json) = report.split_at(start);
    let Ok(mut document) = serde_json::from_str(json) else { return report.to_owned() };
    hide(&mut document);
    format!("{word}{document}")
}

fn hide(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(hide),
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(uri) if name == "uri" => {
                        if let Some(query) = uri.find('?') {
                            uri.truncate(query);
                        }
                    }
                    value => hide(value),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::hidden;

    #[test]
    fn every_target_ends_before_its_query() {
        let report = r#"{"pools":[{"in_flight":[{"uri":"/b?c=d?e"}],"uri":"/a?token=1"}],"x":"?"}"#;
        let shown = r#"{"pools":[{"in_flight":[{"uri":"/b"}],"uri":"/a"}],"x":"?"}"#;
        assert_eq!(hidden(report), shown);
        assert_eq!(hidden(&format!("ok\n{report}")), format!("ok\n{shown}"));
        for other in ["error {broken", "error busy", "ok", ""] {
            assert_eq!(hidden(other), other);
        }
    }
}
