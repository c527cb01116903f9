//! A JSON reader and writer (RFC 8259), enough for `cargo metadata`, the answers of
//! `shardgraph --format json` and `summary.json`.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, ensure};

use crate::cursor::Cursor;

/// One JSON value. Numbers are f64, as in JavaScript.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Boolean(bool),
    Number(f64),
    String(String),
    Array(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    pub(crate) fn object<const N: usize>(pairs: [(&str, Json); N]) -> Json {
        let pairs = pairs
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value));
        Json::Object(pairs.collect())
    }

    pub(crate) fn text(text: &str) -> Json {
        Json::String(text.to_owned())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(pairs) => pairs.get(key),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_number(&self) -> Option<f64> {
        match self {
            Json::Number(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    fn write(&self, out: &mut String, depth: usize) {
        match self {
            Json::Array(items) if !items.is_empty() => {
                let rows = items.iter().map(|value| (None, value));
                write_nested(out, depth, ['[', ']'], rows);
            }
            Json::Object(pairs) if !pairs.is_empty() => {
                let rows = pairs.iter().map(|(key, value)| (Some(key.as_str()), value));
                write_nested(out, depth, ['{', '}'], rows);
            }
            Json::Null => out.push_str("null"),
            Json::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
            // JSON has no NaN and no infinity.
            Json::Number(value) if !value.is_finite() => out.push_str("null"),
            Json::Number(value) => out.push_str(&value.to_string()),
            Json::String(text) => write_string(out, text),
            Json::Array(_) => out.push_str("[]"),
            Json::Object(_) => out.push_str("{}"),
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out, 0);
        f.write_str(&out)
    }
}

fn write_nested<'j>(
    out: &mut String,
    depth: usize,
    [open, close]: [char; 2],
    rows: impl Iterator<Item = (Option<&'j str>, &'j Json)>,
) {
    out.push(open);
    for (row_idx, (key, value)) in rows.enumerate() {
        out.push_str(if row_idx == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(depth + 1));
        if let Some(key) = key {
            write_string(out, key);
            out.push_str(": ");
        }
        value.write(out, depth + 1);
    }
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
    out.push(close);
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Reads one JSON document.
pub(crate) fn parse(text: &str) -> Result<Json> {
    let mut cursor = Cursor::new(text);
    let document = value(&mut cursor)?;
    skip_blanks(&mut cursor);
    ensure!(cursor.peek().is_none(), cursor.error("the end"));
    Ok(document)
}

fn skip_blanks(cursor: &mut Cursor<'_>) {
    cursor.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
}

fn value(cursor: &mut Cursor<'_>) -> Result<Json> {
    skip_blanks(cursor);
    match cursor.peek() {
        Some('{') => object(cursor),
        Some('[') => array(cursor),
        Some('"') => Ok(Json::String(string(cursor)?)),
        Some('-' | '0'..='9') => number(cursor),
        _ if cursor.eat("null") => Ok(Json::Null),
        _ if cursor.eat("true") => Ok(Json::Boolean(true)),
        _ if cursor.eat("false") => Ok(Json::Boolean(false)),
        _ => Err(cursor.error("a JSON value")),
    }
}

fn number(cursor: &mut Cursor<'_>) -> Result<Json> {
    let error = cursor.error("a number");
    let word = cursor.take_while(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    word.parse().map(Json::Number).map_err(|_| error)
}

fn string(cursor: &mut Cursor<'_>) -> Result<String> {
    cursor.expect("\"")?;
    let mut text = String::new();
    loop {
        text.push_str(cursor.take_while(|c| c != '"' && c != '\\'));
        if cursor.eat("\"") {
            return Ok(text);
        }
        cursor.expect("\\")?;
        text.push(cursor.escape()?);
    }
}

fn array(cursor: &mut Cursor<'_>) -> Result<Json> {
    cursor.expect("[")?;
    let mut items = Vec::new();
    while !closes(cursor, "]", items.is_empty())? {
        items.push(value(cursor)?);
    }
    Ok(Json::Array(items))
}

fn object(cursor: &mut Cursor<'_>) -> Result<Json> {
    cursor.expect("{")?;
    let mut pairs = BTreeMap::new();
    while !closes(cursor, "}", pairs.is_empty())? {
        skip_blanks(cursor);
        let key = string(cursor)?;
        skip_blanks(cursor);
        cursor.expect(":")?;
        pairs.insert(key, value(cursor)?);
    }
    Ok(Json::Object(pairs))
}

/// True at the closing bracket; otherwise steps over the comma, which the first item does not have.
fn closes(cursor: &mut Cursor<'_>, bracket: &str, is_first: bool) -> Result<bool> {
    skip_blanks(cursor);
    if cursor.eat(bracket) {
        return Ok(true);
    }
    if !is_first {
        cursor.expect(",")?;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_the_same_document() {
        let text = r#"{"a": [1, -2.5e3, true, false, null, {}], "b": "x\"\\\n\u00e9", "c": []}"#;
        let document = parse(text).unwrap();
        assert_eq!(parse(&document.to_string()).unwrap(), document);
        assert_eq!(document.get("b").unwrap().as_str(), Some("x\"\\\n\u{e9}"));
        let items = document.get("a").unwrap().as_array().unwrap();
        assert_eq!(items[1].as_number(), Some(-2500.0));
    }

    #[test]
    fn bad_documents_are_errors() {
        for bad in [
            "",
            "{",
            "[1",
            "[1 2]",
            "{\"a\" 1}",
            "{a: 1}",
            "1 2",
            "\"x",
            "-",
            "nul",
            "[,1]",
        ] {
            assert!(parse(bad).is_err(), "{bad:?} was read");
        }
    }

    #[test]
    fn numbers_that_json_lacks_become_null() {
        assert_eq!(Json::Number(f64::NAN).to_string(), "null");
        assert_eq!(Json::Number(3.0).to_string(), "3");
    }
}
