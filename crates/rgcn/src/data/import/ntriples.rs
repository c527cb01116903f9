//! N-Triples, one line at a time: a bad line is told with its place and costs no line after it.
//!
//! Terms become keys that are equal where RDF says that the terms are: an IRI is its text without
//! brackets, a blank node `_:label`, a literal its value in quotes with `@language` (lower case) or
//! `^^datatype` behind it (xsd:string left out); escapes are resolved. IRIs are compared as text:
//! beyond what the grammar of N-Triples forbids, only a scheme is asked for.
//!
//! Source: RDF 1.1 N-Triples, W3C Recommendation of 25 February 2014.

use std::borrow::Cow;

use super::lines::shortened;

const XSD_STRING: &str = "http://www.w3.org/2001/XMLSchema#string";

/// A subject, predicate and object, as keys.
#[derive(Debug, PartialEq)]
pub(crate) struct Triple<'l> {
    pub(crate) subject: Cow<'l, str>,
    pub(crate) predicate: Cow<'l, str>,
    pub(crate) object: Cow<'l, str>,
    pub(crate) object_is_literal: bool,
}

/// Why a line is no triple, and the byte in it, counted from 1, where that shows.
#[derive(Debug, PartialEq)]
pub(crate) struct BadLine {
    pub(crate) column: usize,
    pub(crate) reason: String,
}

/// The triple of a line; `None` for blank lines and comments.
pub(crate) fn triple(line: &str) -> Result<Option<Triple<'_>>, BadLine> {
    let mut cursor = Cursor { line, at: 0 };
    cursor.skip_blanks();
    if matches!(cursor.peek(), None | Some(b'#')) {
        return Ok(None);
    }
    let subject = cursor.resource("a subject: an IRI in `<...>` or a blank node `_:...`")?;
    let predicate = match cursor.peek() {
        Some(b'<') => cursor.iri()?,
        _ => return Err(cursor.expected("a predicate: an IRI in `<...>`")),
    };
    cursor.skip_blanks();
    let object_is_literal = cursor.peek() == Some(b'"');
    let object = match object_is_literal {
        true => cursor.literal()?,
        false => {
            cursor.resource("an object: an IRI in `<...>`, a blank node `_:...` or a literal")?
        }
    };
    cursor.skip_blanks();
    if cursor.peek() != Some(b'.') {
        return Err(cursor.expected("`.` at the end of the triple"));
    }
    cursor.at += 1;
    cursor.skip_blanks();
    if !matches!(cursor.peek(), None | Some(b'#')) {
        return Err(cursor.expected("the end of the line after `.`"));
    }
    Ok(Some(Triple {
        subject,
        predicate,
        object,
        object_is_literal,
    }))
}

/// A literal's key: its value in quotes, then its language or its datatype, unless that is
/// xsd:string.
pub(crate) fn literal_key(value: &str, language: Option<&str>, datatype: Option<&str>) -> String {
    let mut key = format!("\"{value}\"");
    match (language, datatype) {
        (Some(language), _) => {
            key.push('@');
            key.push_str(&language.to_ascii_lowercase());
        }
        (None, Some(datatype)) if datatype != XSD_STRING => {
            key.push_str("^^");
            key.push_str(datatype);
        }
        _ => {}
    }
    key
}

struct Cursor<'l> {
    line: &'l str,
    at: usize,
}

impl<'l> Cursor<'l> {
    fn peek(&self) -> Option<u8> {
        self.line.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'l [u8] {
        &self.line.as_bytes()[self.at..]
    }

    fn skip_blanks(&mut self) {
        let blanks = self.rest().iter().take_while(|&&b| b == b' ' || b == b'\t');
        self.at += blanks.count();
    }

    fn bad(&self, at: usize, reason: impl Into<String>) -> BadLine {
        BadLine {
            column: at + 1,
            reason: reason.into(),
        }
    }

    fn expected(&self, what: &str) -> BadLine {
        let found = match self.rest() {
            [] => "the end of the line".to_owned(),
            rest => shortened(rest),
        };
        self.bad(self.at, format!("expected {what}, found {found}"))
    }

    fn resource(&mut self, what: &str) -> Result<Cow<'l, str>, BadLine> {
        let resource = match self.rest() {
            [b'<', ..] => self.iri()?,
            [b'_', b':', ..] => self.blank_node()?,
            _ => return Err(self.expected(what)),
        };
        self.skip_blanks();
        Ok(resource)
    }

    /// From `<` to `>`.
    fn iri(&mut self) -> Result<Cow<'l, str>, BadLine> {
        let start = self.at + 1;
        let Some(len) = self.rest()[1..].iter().position(|&b| b == b'>') else {
            return Err(self.bad(self.at, "an IRI without its `>`"));
        };
        let iri = &self.line[start..start + len];
        self.at = start + len + 1;
        let iri = match iri.contains('\\') {
            true => Cow::Owned(self.unescaped(iri, start, false)?),
            false => Cow::Borrowed(iri),
        };
        let is_forbidden = |c: char| c <= ' ' || "<>\"{}|^`\\".contains(c);
        if let Some(offset) = iri.find(is_forbidden) {
            let at = (start + offset).min(self.at);
            return Err(self.bad(at, "an IRI may hold no blank and none of <>\"{}|^`\\"));
        }
        let scheme = iri.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        match is_scheme {
            true => Ok(iri),
            false => Err(self.bad(
                start,
                "a relative IRI: expected one that begins with a scheme, such as `http:`",
            )),
        }
    }

    /// `_:` and its label, which may hold dots but not end in one.
    fn blank_node(&mut self) -> Result<Cow<'l, str>, BadLine> {
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"_-.:".contains(b) || *b >= 0x80;
        let label = &self.rest()[2..];
        let mut len = label.iter().take_while(|b| is_part(b)).count();
        while len > 0 && label[len - 1] == b'.' {
            len -= 1;
        }
        if len == 0 || b"-.".contains(&label[0]) {
            return Err(self.bad(
                self.at,
                "a blank node whose label is empty or begins with `-` or `.`",
            ));
        }
        let start = self.at;
        self.at += 2 + len;
        Ok(Cow::Borrowed(&self.line[start..self.at]))
    }

    /// From `"` to the end of the language or datatype.
    fn literal(&mut self) -> Result<Cow<'l, str>, BadLine> {
        let start = self.at;
        let value_start = start + 1;
        let value_end = self.closing_quote()?;
        let value = &self.line[value_start..value_end];
        self.at = value_end + 1;
        let (language, datatype) = match self.rest() {
            [b'@', ..] => (Some(self.language()?), None),
            [b'^', b'^', b'<', ..] => {
                self.at += 2;
                (None, Some(self.iri()?))
            }
            [b'^', ..] => return Err(self.expected("`^^<datatype>`")),
            _ => (None, None),
        };
        let is_lower = |tag: &str| !tag.bytes().any(|b| b.is_ascii_uppercase());
        let is_key = datatype.is_none() && language.is_none_or(is_lower);
        if is_key && !value.contains('\\') {
            // As it stands in the line, without copying: there is nothing to resolve.
            return Ok(Cow::Borrowed(&self.line[start..self.at]));
        }
        let value = match value.contains('\\') {
            true => Cow::Owned(self.unescaped(value, value_start, true)?),
            false => Cow::Borrowed(value),
        };
        let key = literal_key(&value, language, datatype.as_deref());
        Ok(Cow::Owned(key))
    }

    /// The end of the literal's value.
    fn closing_quote(&self) -> Result<usize, BadLine> {
        let bytes = self.line.as_bytes();
        let mut at = self.at + 1;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => return Ok(at),
                b'\\' => at += 2,
                b'\r' => return Err(self.bad(at, "a bare carriage return inside a literal")),
                _ => at += 1,
            }
        }
        Err(self.bad(self.at, "a literal without its closing quote"))
    }

    /// `@` and letters, then groups of letters and digits behind `-`.
    fn language(&mut self) -> Result<&'l str, BadLine> {
        let tag = &self.rest()[1..];
        let is_part = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'-';
        let len = tag.iter().take_while(is_part).count();
        let start = self.at + 1;
        let tag = &self.line[start..start + len];
        let mut parts = tag.split('-');
        let is_first = |part: &str| {
            !part.is_empty() && part.len() <= 8 && part.bytes().all(|b| b.is_ascii_alphabetic())
        };
        let is_right = parts.next().is_some_and(is_first)
            && parts.all(|part| !part.is_empty() && part.len() <= 8);
        if !is_right {
            let why = "a language tag: expected letters behind `@`, such as `@en` or `@de-CH`";
            return Err(self.bad(start - 1, why));
        }
        self.at = start + len;
        Ok(tag)
    }

    /// Text with its escapes resolved; an IRI has only those by number.
    fn unescaped(&self, text: &str, start: usize, in_literal: bool) -> Result<String, BadLine> {
        let mut resolved = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            resolved.push_str(&rest[..at]);
            let place = start + (text.len() - rest.len()) + at;
            let (character, len) = escape(&rest[at + 1..], in_literal).ok_or_else(|| {
                let escape = shortened(&rest.as_bytes()[at..rest.len().min(at + 10)]);
                self.bad(place, format!("an escape that does not exist: {escape}"))
            })?;
            resolved.push(character);
            rest = &rest[at + 1 + len..];
        }
        resolved.push_str(rest);
        Ok(resolved)
    }
}

/// The character of the escape behind a backslash, and how many bytes tell it.
fn escape(text: &str, in_literal: bool) -> Option<(char, usize)> {
    let n_digits = match text.as_bytes().first()? {
        b'u' => 4,
        b'U' => 8,
        &letter if in_literal => {
            let (_, character) = SHORT_ESCAPES.iter().find(|(name, _)| *name == letter)?;
            return Some((*character, 1));
        }
        _ => return None,
    };
    let digits = text.get(1..=n_digits)?;
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let number = u32::from_str_radix(digits, 16).ok()?;
    Some((char::from_u32(number)?, 1 + n_digits))
}

const SHORT_ESCAPES: [(u8, char); 8] = [
    (b't', '\t'),
    (b'b', '\u{8}'),
    (b'n', '\n'),
    (b'r', '\r'),
    (b'f', '\u{c}'),
    (b'"', '"'),
    (b'\'', '\''),
    (b'\\', '\\'),
];
