//! What is wrong with a JSON text, in words for its author.

use serde_json::error::Category;

/// What is wrong, without the place and without a value, which may be a password.
///
/// ```text
/// field `devices` is missing
/// unknown field `smell`; there are: voice, fax
/// found a text where a whole number belongs
/// ```
pub(crate) fn mistake(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Eof => "the JSON ends too early".to_owned(),
        Category::Syntax => "this is not JSON".to_owned(),
        Category::Data => of_data(&error.to_string()),
        Category::Io => error.to_string(),
    }
}

/// The same, with line and column of the text.
pub(crate) fn mistake_at(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    format!("line {line}, column {column}: {}", mistake(error))
}

/// serde's sentences are for programmers, and always the same few.
fn of_data(text: &str) -> String {
    let text = text.rsplit_once(" at line ").map_or(text, |(text, _)| text);
    if let Some((field, known)) = split(text, "unknown field ", ", expected ") {
        let known = known.trim_start_matches("one of ");
        return format!(
            "unknown field {field}; there are: {}",
            known.replace('`', "").replace(" or ", ", ")
        );
    }
    if let Some(field) = text.strip_prefix("missing field ") {
        return format!("field {field} is missing");
    }
    if let Some(field) = text.strip_prefix("duplicate field ") {
        return format!("field {field} is given twice");
    }
    let found = split(text, "invalid type: ", ", expected ");
    match found.or_else(|| split(text, "invalid value: ", ", expected ")) {
        Some((found, wanted)) => {
            format!("found {} where {} belongs", kind(found), wish(wanted))
        }
        None => text.to_owned(),
    }
}

/// What stands between `head` and the last `middle`, and what stands behind that.
fn split<'t>(text: &'t str, head: &str, middle: &str) -> Option<(&'t str, &'t str)> {
    text.strip_prefix(head)?.rsplit_once(middle)
}

/// The kind of a value, without the value.
fn kind(found: &str) -> &'static str {
    let is = |head: &str| found.starts_with(head);
    match () {
        () if is("string") => "a text",
        () if is("integer `-") => "a negative number",
        () if is("integer") => "another number",
        () if is("floating") => "a number with a fraction",
        () if is("boolean") => "true or false",
        () if is("null") => "null",
        () if is("sequence") => "an array",
        () if is("map") => "an object",
        () => "something else",
    }
}

fn wish(wanted: &str) -> &str {
    match wanted {
        "a string" | "string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "an array",
        number if is_whole(number) => "a whole number",
        "a map" => "an object",
        other if other.starts_with("struct") => "an object",
        other => other,
    }
}

fn is_whole(wanted: &str) -> bool {
    let sign = wanted.trim_end_matches(|c: char| c.is_ascii_digit());
    matches!(sign, "u" | "i") || wanted.ends_with("size")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Sample {
        count: u32,
        #[serde(default)]
        names: Vec<String>,
    }

    #[test]
    fn errors_are_plain_sentences_without_values() {
        for (text, told) in [
            ("", "the JSON ends too early"),
            ("{\"count\": 1", "the JSON ends too early"),
            ("{count: 1}", "this is not JSON"),
            ("{}", "field `count` is missing"),
            (
                "{\"count\": 1, \"smell\": 2}",
                "unknown field `smell`; there are: count, names",
            ),
            (
                "{\"count\": 1, \"count\": 2}",
                "field `count` is given twice",
            ),
            (
                "{\"count\": \"secret, expected\"}",
                "found a text where a whole number belongs",
            ),
            (
                "{\"count\": -1}",
                "found a negative number where a whole number belongs",
            ),
            (
                "{\"count\": 1, \"names\": 1}",
                "found another number where an array belongs",
            ),
            (
                "{\"count\": 1, \"names\": [null]}",
                "found null where a text belongs",
            ),
            ("3", "found another number where an object belongs"),
        ] {
            let error = serde_json::from_str::<Sample>(text).unwrap_err();
            assert_eq!(mistake(&error), told, "{text}");
        }
        let error = serde_json::from_str::<Sample>("{\n  \"count\": true}").unwrap_err();
        let told = "line 2, column 15: found true or false where a whole number belongs";
        assert_eq!(mistake_at(&error), told);
    }
}
