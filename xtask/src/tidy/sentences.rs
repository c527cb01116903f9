//! Lengths of sentences in the pages that users read first: README.md and docs/use.
//!
//! A sentence ends with a full stop, a question mark or the paragraph; a list item is a paragraph. Code counts as one word,
//! tables, headings and blocks of code not at all.

use super::Finding;
use super::code::line_of;
use crate::project::Project;

/// The most words that the sentence in the middle may have.
const MEDIAN: usize = 16;
/// The most words of nine sentences in ten.
const NINTH_DECILE: usize = 28;
/// The most words of any.
const LONGEST: usize = 40;

/// Pages whose sentences are short.
pub(crate) fn findings(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut lengths = Vec::new();
    let pages = project.with_extension("md");
    for (path, text) in
        pages.filter(|(path, _)| *path == "README.md" || path.starts_with("docs/use/"))
    {
        for (at, words) in sentences(text) {
            lengths.push(words);
            if words > LONGEST {
                findings.push(format!(
                    "{path}:{}: a sentence of {words} words; at most {LONGEST}",
                    line_of(text, at)
                ));
            }
        }
    }
    lengths.sort_unstable();
    for (share, most) in [(0.5, MEDIAN), (0.9, NINTH_DECILE)] {
        let length = quantile(&lengths, share);
        if length > most {
            findings.push(format!(
                "README.md:1: {} % of the sentences here and in docs/use have {length} words or less; at most {most}",
                share * 100.0
            ));
        }
    }
    findings
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a small count"
)]
fn quantile(sorted: &[usize], share: f64) -> usize {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at).copied().unwrap_or_default()
}

/// Every sentence: where its paragraph begins, and its words.
fn sentences(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (at, paragraph) in paragraphs(text) {
        let mut words = 0;
        for word in without_code(&paragraph).split_whitespace() {
            words += usize::from(word.contains(char::is_alphanumeric));
            let bare = word.trim_end_matches(['*', ')', '"']);
            if bare.ends_with(['.', '?', '!']) && words > 0 {
                found.push((at, words));
                words = 0;
            }
        }
        if words > 0 {
            found.push((at, words));
        }
    }
    found
}

/// Paragraphs and list items, each as one line, with where it begins.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let (mut at, mut is_fenced, mut is_open) = (0, false, false);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            is_fenced = !is_fenced;
        }
        let is_prose =
            !is_fenced && !trimmed.starts_with(['#', '|', '`', '<']) && !trimmed.is_empty();
        let is_prose =
            is_prose || (!is_fenced && trimmed.starts_with('`') && !trimmed.starts_with("```"));
        let is_item = trimmed.starts_with("- ") || numbered(trimmed);
        if is_prose && is_open && !is_item {
            if let Some((_, paragraph)) = all.last_mut() {
                paragraph.push(' ');
                paragraph.push_str(trimmed);
            }
        } else if is_prose {
            let item = trimmed.split_once(' ').filter(|_| is_item);
            all.push((at, item.map_or(trimmed, |(_, rest)| rest).to_owned()));
        }
        is_open = is_prose;
        at += line.len();
    }
    all
}

fn numbered(line: &str) -> bool {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    digits.len() < line.len() && digits.starts_with(". ")
}

/// The paragraph with `code` as one word and links as their text.
fn without_code(paragraph: &str) -> String {
    let mut kept = String::new();
    for (index, part) in paragraph.split('`').enumerate() {
        kept.push_str(if index % 2 == 0 { part } else { "code" });
    }
    let mut text = String::new();
    let mut rest = kept.as_str();
    while let Some((before, target)) = rest.split_once("](") {
        text.push_str(before);
        rest = target.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn sentences_end_where_a_reader_ends_them() {
        let text = "# A title that is no sentence at all\n\nOne two three. Four `a b c.d`,\nsix [seven eight](x y.z).\n\n\
            - An item of five words\n- Two words\n1. One\n\n| a | table |\n|---|---|\n\n```sh\nno words here\n```\n";
        let words: Vec<usize> = sentences(text).iter().map(|(_, words)| *words).collect();
        assert_eq!(words, [3, 5, 5, 2, 1]);
    }

    #[test]
    fn long_sentences_are_found() {
        let found = |path: &str, text: String| findings(&planted(&[(path, &text)])).len();
        let of = |words: usize| format!("{}end.\n", "word ".repeat(words - 1));
        assert_eq!(found("README.md", of(16)), 0);
        assert_eq!(found("docs/use/a.md", of(17)), 1, "the median");
        assert_eq!(
            found("docs/use/a.md", of(41)),
            3,
            "the median, the decile, the longest"
        );
        assert_eq!(found("docs/method/a.md", of(41)), 0);
        assert_eq!(
            found("README.md", format!("{}{}", of(5).repeat(9), of(29))),
            1
        );
    }
}
