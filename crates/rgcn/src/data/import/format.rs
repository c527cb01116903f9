//! The forms in which triples are published, by name, by extension and by the first line.

use serde::Serialize;
use shardgraph_error::words;

use super::fields::fields;
use super::lines::Line;
use super::{columns, ntriples};
use crate::Error;

/// A form of files of triples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TripleFormat {
    /// N-Triples: `<subject> <predicate> "object" .`, a triple a line.
    NTriples,
    /// Turtle, with prefixes, lists and nested blank nodes.
    Turtle,
    /// `subject, relation, object` as integers from 0, without a header.
    IntegerCsv,
    /// OpenKE's `train2id.txt`: a count, then `head tail relation` as integers from 0.
    OpenKe,
    /// `head<TAB>relation<TAB>tail` as text, as FB15k-237 and WN18RR have them, or columns under a
    /// header that names these three.
    TabSeparated,
    /// The same between commas; a field may stand in quotes.
    Csv,
}

impl TripleFormat {
    /// All forms.
    pub const ALL: [TripleFormat; 6] = [
        TripleFormat::NTriples,
        TripleFormat::Turtle,
        TripleFormat::IntegerCsv,
        TripleFormat::OpenKe,
        TripleFormat::TabSeparated,
        TripleFormat::Csv,
    ];

    /// The form by a file's name: `.nt`, `.ttl`, `.csv`, `.tsv` or `...2id.txt`, each also with
    /// `.gz` or `.zst` behind. A `.csv` file without a letter in its first line is read as
    /// [`TripleFormat::IntegerCsv`] all the same.
    #[must_use]
    pub fn from_name(name: &str) -> Option<TripleFormat> {
        let name = name.to_ascii_lowercase();
        let packed = [".gz", ".zst"];
        let bare = packed.iter().find_map(|suffix| name.strip_suffix(suffix));
        let bare = bare.unwrap_or(&name);
        let known = [
            (".nt", TripleFormat::NTriples),
            (".ttl", TripleFormat::Turtle),
            (".turtle", TripleFormat::Turtle),
            (".csv", TripleFormat::Csv),
            ("2id.txt", TripleFormat::OpenKe),
            (".tsv", TripleFormat::TabSeparated),
        ];
        let found = known.iter().find(|(suffix, _)| bare.ends_with(suffix));
        found.map(|&(_, format)| format)
    }

    /// The form of a `.csv` file by its first line: integers where it has no letter.
    pub(crate) fn of_csv(line: Line<'_>) -> TripleFormat {
        let is_of_number = |b: &u8| b.is_ascii_digit() || b", \t+-.".contains(b);
        match line.bytes.iter().all(is_of_number) {
            true => TripleFormat::IntegerCsv,
            false => TripleFormat::Csv,
        }
    }

    /// The form by the first line that is not blank.
    ///
    /// # Errors
    /// A line that is none of the forms.
    pub(crate) fn from_line(line: Line<'_>) -> Result<TripleFormat, Error> {
        let bytes = line.bytes.trim_ascii();
        let is_number = |field: &[u8]| {
            !field.trim_ascii().is_empty() && field.trim_ascii().iter().all(u8::is_ascii_digit)
        };
        let starts_with = |word: &[u8]| {
            bytes.len() > word.len() && bytes[..word.len()].eq_ignore_ascii_case(word)
        };
        let n_tabs = bytes.iter().filter(|&&byte| byte == b'\t').count();
        let text = line.text().unwrap_or_default();
        let is_header = |separator| columns::is_header(text, separator);
        let n_fields = fields(text, ',').filter(Result::is_ok).count();
        let numbers = |separator| {
            bytes
                .split(move |&b| b == separator)
                .filter(|f| is_number(f))
        };
        match bytes {
            [b'<' | b'_', ..] if is_triple(line) => Ok(TripleFormat::NTriples),
            [b'@', ..] => Ok(TripleFormat::Turtle),
            _ if starts_with(b"prefix ") => Ok(TripleFormat::Turtle),
            _ if starts_with(b"base ") => Ok(TripleFormat::Turtle),
            _ if is_number(bytes) => Ok(TripleFormat::OpenKe),
            _ if numbers(b',').count() == 3 => Ok(TripleFormat::IntegerCsv),
            _ if n_tabs == 2 || is_header('\t') => Ok(TripleFormat::TabSeparated),
            _ if n_fields == 3 || is_header(',') => Ok(TripleFormat::Csv),
            _ => {
                let names = TripleFormat::ALL.map(TripleFormat::name).join(", ");
                let reason = format!("this looks like none of the formats: name one of {names}");
                Err(line.error(Error::Graph, 1, reason))
            }
        }
    }
}

fn is_triple(line: Line<'_>) -> bool {
    let triple = line.text().map(ntriples::triple);
    matches!(triple, Ok(Ok(Some(_))))
}

words!(
    TripleFormat, Error, Error::config, "input_format";
    "n-triples" => NTriples,
    "turtle" => Turtle,
    "integer-csv" => IntegerCsv,
    "openke" => OpenKe,
    "tab-separated" => TabSeparated,
    "csv" => Csv,
);
