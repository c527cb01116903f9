//! A place in a text, shared by the TOML and the JSON reader.

use anyhow::{Error, Result, anyhow};

/// Where a reader stands in its text.
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Cursor { text, at: 0 }
    }

    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(crate) fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Steps over `token` if it comes next.
    pub(crate) fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    pub(crate) fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(self.error(&format!("`{token}`")))
        }
    }

    pub(crate) fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Reads what follows a backslash in a quoted string, as TOML and JSON agree on it.
    pub(crate) fn escape(&mut self) -> Result<char> {
        let c = match self.bump() {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('u') => return self.unicode(4),
            Some('U') => return self.unicode(8),
            _ => return Err(self.error("an escape: one of \" \\ / n t r b f u U")),
        };
        Ok(c)
    }

    fn unicode(&mut self, n_digits: usize) -> Result<char> {
        let high = self.hex(n_digits)?;
        // JSON writes characters past U+FFFF as two escapes (RFC 8259, section 7).
        if (0xd800..0xdc00).contains(&high) && self.eat("\\u") {
            let low = self.hex(4)?.wrapping_sub(0xdc00) & 0x3ff;
            return char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + low)
                .ok_or_else(|| self.error("a code point"));
        }
        char::from_u32(high).ok_or_else(|| self.error("a code point"))
    }

    fn hex(&mut self, n_digits: usize) -> Result<u32> {
        let digits = self.rest().get(..n_digits).unwrap_or_default();
        let value = u32::from_str_radix(digits, 16)
            .map_err(|_| self.error(&format!("{n_digits} hex digits")))?;
        self.at += n_digits;
        Ok(value)
    }

    /// An error that names the line, the column and what would have been right here.
    pub(crate) fn error(&self, expected: &str) -> Error {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        match self.peek() {
            Some(found) => {
                anyhow!("line {line}, column {column}: expected {expected}, found {found:?}")
            }
            None => anyhow!("line {line}, column {column}: expected {expected}, found the end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_line_and_column() {
        let mut cursor = Cursor::new("ab\ncd");
        cursor.take_while(|c| c != 'd');
        let message = cursor.error("`x`").to_string();
        assert_eq!(message, "line 2, column 2: expected `x`, found 'd'");
    }

    #[test]
    fn escapes_reach_past_the_basic_plane() {
        assert_eq!(Cursor::new("ud83d\\ude00").escape().unwrap(), '\u{1f600}');
        assert_eq!(Cursor::new("U0001f600").escape().unwrap(), '\u{1f600}');
        assert!(Cursor::new("ud83d").escape().is_err());
        assert!(Cursor::new("x").escape().is_err());
    }
}
