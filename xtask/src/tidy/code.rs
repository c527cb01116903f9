//! Rust source without its comments and literals, so that a check sees only code.

/// The source with every comment, string and character literal blanked; lines stay where they are.
pub(crate) fn without_literals(source: &str) -> String {
    let mut blanker = Blanker {
        chars: source.chars().collect(),
        at: 0,
        out: String::new(),
    };
    while blanker.at < blanker.chars.len() {
        blanker.step();
    }
    blanker.out
}

struct Blanker {
    chars: Vec<char>,
    at: usize,
    out: String,
}

impl Blanker {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn keep(&mut self) {
        self.out.push(self.peek(0));
        self.at += 1;
    }

    fn blank(&mut self, n_chars: usize) {
        for _ in 0..n_chars {
            if self.at < self.chars.len() {
                self.out.push(if self.peek(0) == '\n' { '\n' } else { ' ' });
                self.at += 1;
            }
        }
    }

    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.line_comment(),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('\'', _) => self.character_or_lifetime(),
            (c, _) if is_word(c) => self.word(),
            _ => self.keep(),
        }
    }

    fn line_comment(&mut self) {
        while self.at < self.chars.len() && self.peek(0) != '\n' {
            self.blank(1);
        }
    }

    /// Block comments nest.
    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.blank(1);
                    continue;
                }
            }
            self.blank(2);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.blank(1);
        while self.at < self.chars.len() && self.peek(0) != '"' {
            self.blank(if self.peek(0) == '\\' { 2 } else { 1 });
        }
        self.blank(1);
    }

    fn raw_string(&mut self) {
        let mut n_hashes = 0;
        while self.peek(n_hashes) == '#' {
            n_hashes += 1;
        }
        self.blank(n_hashes + 1);
        while self.at < self.chars.len() {
            let closes = self.peek(0) == '"' && (1..=n_hashes).all(|i| self.peek(i) == '#');
            if closes {
                return self.blank(n_hashes + 1);
            }
            self.blank(1);
        }
    }

    fn character_or_lifetime(&mut self) {
        if self.peek(1) == '\\' {
            self.blank(3);
            while self.at < self.chars.len() && self.peek(0) != '\'' {
                self.blank(1);
            }
            self.blank(1);
        } else if self.peek(2) == '\'' {
            self.blank(3);
        } else {
            self.keep();
        }
    }

    /// A name, a number or the prefix of a literal (`r"`, `br#"`, `c"`, `b'`).
    fn word(&mut self) {
        let start = self.at;
        while is_word(self.peek(0)) {
            self.keep();
        }
        let word: String = self.chars[start..self.at].iter().collect();
        let after_hashes = (0..).map(|i| self.peek(i)).find(|&c| c != '#');
        if matches!(word.as_str(), "r" | "br" | "cr") && after_hashes == Some('"') {
            self.raw_string();
        }
    }
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where `word` stands alone in `code`.
pub(crate) fn find_word(code: &str, word: &str) -> Vec<usize> {
    let hits = code.match_indices(word).map(|(at, _)| at);
    hits.filter(|&at| {
        let before = code[..at].chars().next_back().unwrap_or(' ');
        let after = code[at + word.len()..].chars().next().unwrap_or(' ');
        !is_word(before) && !is_word(after)
    })
    .collect()
}

/// The number of the line that holds byte `at`, counted from one.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_go_and_lines_stay() {
        let source = "let a = \"x\\\"y\"; // c\nlet b = r#\"z\"q\"#;\n/* d /* e */ f */ let c = 'g';\n\
            let h = '\\n'; let i = b'{'; fn j<'k>(l: &'k str) {} let m = '\\u{7b}'; r#type";
        let code = without_literals(source);
        assert_eq!(code.matches('\n').count(), source.matches('\n').count());
        let words: String = code.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words,
            "let a = ; let b = r ; let c = ; let h = ; let i = b ; fn j<'k>(l: &'k str) {} let m = ; r#type"
        );
    }

    #[test]
    fn open_ends_do_not_run_on() {
        for open in ["\"abc", "/* abc", "r#\"abc", "'\\", "'"] {
            assert!(!without_literals(open).contains('b'));
        }
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(find_word("unsafe unsafe_code (unsafe)", "unsafe"), [0, 20]);
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }
}
