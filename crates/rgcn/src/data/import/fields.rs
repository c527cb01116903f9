//! The fields of a line between tabs or commas.

use std::borrow::Cow;

/// The fields of a line, without the blanks around them. Between commas a field may stand in
/// quotes, a quote inside it twice (RFC 4180); it ends on its line.
///
/// An item is the reason where quotes do not fit, and the last one then.
pub(crate) fn fields(line: &str, separator: char) -> Fields<'_> {
    Fields {
        rest: Some(line),
        separator,
    }
}

/// The separator of a table by its first line: a tab where it has one, else a comma.
pub(crate) fn separator(first_line: &str) -> char {
    if first_line.contains('\t') { '\t' } else { ',' }
}

/// Iterator of [`fields`].
pub(crate) struct Fields<'l> {
    rest: Option<&'l str>,
    separator: char,
}

impl<'l> Iterator for Fields<'l> {
    type Item = Result<Cow<'l, str>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest?;
        if self.separator == ','
            && let Some(text) = rest.trim_start().strip_prefix('"')
        {
            return Some(self.quoted(text));
        }
        let (field, rest) = match rest.split_once(self.separator) {
            Some((field, rest)) => (field, Some(rest)),
            None => (rest, None),
        };
        self.rest = rest;
        Some(Ok(Cow::Borrowed(field.trim())))
    }
}

impl<'l> Fields<'l> {
    /// The field whose first quote stands before `text`.
    fn quoted(&mut self, text: &'l str) -> Result<Cow<'l, str>, String> {
        self.rest = None;
        let mut end = 0;
        loop {
            let Some(found) = text[end..].find('"') else {
                return Err("a quoted field has no end on its line".to_owned());
            };
            end += found;
            if !text[end + 1..].starts_with('"') {
                break;
            }
            end += 2;
        }
        let behind = text[end + 1..].trim_start();
        self.rest = behind.strip_prefix(',');
        if self.rest.is_none() && !behind.is_empty() {
            return Err("expected a comma behind a quoted field".to_owned());
        }
        let field = &text[..end];
        Ok(match field.contains('"') {
            true => Cow::Owned(field.replace("\"\"", "\"")),
            false => Cow::Borrowed(field),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(line: &str, separator: char) -> Result<Vec<String>, String> {
        let fields = fields(line, separator);
        fields.map(|field| field.map(Cow::into_owned)).collect()
    }

    #[test]
    fn commas_in_quotes_part_no_fields() {
        assert_eq!(
            all("a, b ,\"c, \"\"d\"\"\" ,", ',').unwrap(),
            ["a", "b", "c, \"d\"", ""]
        );
        assert_eq!(all("\"a\"\tb,c\t", '\t').unwrap(), ["\"a\"", "b,c", ""]);
        assert_eq!(all("\"\",x", ',').unwrap(), ["", "x"]);
        assert!(all("\"a,b", ',').unwrap_err().contains("no end"));
        assert!(all("\"a\"b,c", ',').unwrap_err().contains("a comma"));
    }
}
