//! The document that figures are written into.

use std::fmt::{Arguments, Write as _};

/// Estimated width of a character at the font size of a figure.
const CHARACTER: f64 = 6.4;

/// Okabe and Ito's colours, which the colour-blind tell apart; grey from the ninth on.
const PALETTE: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#b8a500",
];
pub(crate) const GREY: &str = "#999999";

/// Colour of the `idx`-th series.
pub(crate) fn colour(idx: usize) -> &'static str {
    PALETTE.get(idx).copied().unwrap_or(GREY)
}

/// Number of colours that differ.
pub(crate) const N_COLOURS: usize = PALETTE.len();

/// Widest label of a dot.
const WIDEST_LABEL: f64 = 90.0;

/// An SVG document in progress.
pub(crate) struct Svg {
    text: String,
    /// Left, top, right and bottom of the labels so far.
    labels: Vec<[f64; 4]>,
}

impl Svg {
    /// A white page with its title and description.
    pub(crate) fn new(size: [f64; 2], title: &str, description: &str) -> Svg {
        let [width, height] = size.map(f64::ceil);
        let mut svg = Svg {
            text: String::new(),
            labels: Vec::new(),
        };
        svg.line(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"sans-serif\" \
             font-size=\"12\">"
        ));
        let (title, description) = (escaped(title), escaped(description));
        svg.line(format_args!("<title>{title}</title>"));
        svg.line(format_args!("<desc>{description}</desc>"));
        svg.line(format_args!(
            "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
        ));
        svg
    }

    /// One line of the document, as it is.
    pub(crate) fn line(&mut self, line: Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// Text with further attributes.
    pub(crate) fn text(&mut self, at: [f64; 2], attributes: &str, text: &str) {
        let ([x, y], text) = (at, escaped(text));
        self.line(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{text}</text>"
        ));
    }

    /// The label of a dot: on the right of it, on the left where it would end behind `right`; not
    /// drawn where it would cover an earlier one.
    pub(crate) fn label(&mut self, dot: [f64; 2], right: f64, text: &str) {
        let text = shortened(text, WIDEST_LABEL);
        let [x, y] = dot;
        let left = match x + 5.0 + width(&text) > right {
            true => x - 5.0 - width(&text),
            false => x + 5.0,
        };
        let own = [left, y - 6.0, left + width(&text), y + 6.0];
        let covers = |other: &[f64; 4]| {
            own[0] < other[2] && other[0] < own[2] && own[1] < other[3] && other[1] < own[3]
        };
        if text.is_empty() || self.labels.iter().any(covers) {
            return;
        }
        self.labels.push(own);
        self.text([left, y + 4.0], "fill=\"#444\"", &text);
    }

    /// A straight line with further attributes.
    pub(crate) fn segment(&mut self, from: [f64; 2], to: [f64; 2], attributes: &str) {
        let ([x1, y1], [x2, y2]) = (from, to);
        self.line(format_args!(
            "<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" {attributes}/>"
        ));
    }

    pub(crate) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// A tooltip, or nothing where the text is empty.
pub(crate) fn tooltip(text: &str) -> String {
    match text.is_empty() {
        true => String::new(),
        false => format!("<title>{}</title>", escaped(text)),
    }
}

/// Estimated width of a text in pixels.
pub(crate) fn width(text: &str) -> f64 {
    let is_wide = |c: char| c >= '\u{2e80}';
    let units = text.chars().map(|c| if is_wide(c) { 2.0 } else { 1.0 });
    CHARACTER * units.sum::<f64>()
}

/// The text, or its beginning and an ellipsis where it is wider than `most` pixels.
pub(crate) fn shortened(text: &str, most: f64) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut short = String::new();
    for character in text.chars() {
        if width(&short) + 3.0 * CHARACTER > most {
            break;
        }
        short.push(character);
    }
    short.push('\u{2026}');
    short
}

/// The text, or an ellipsis and its end where it is wider than `most` pixels: names of ops that
/// share a module differ in their ends.
pub(crate) fn ending(text: &str, most: f64) -> String {
    let reversed = |text: &str| text.chars().rev().collect::<String>();
    reversed(&shortened(&reversed(text), most))
}

/// Text inside of XML; control characters and the two code points that XML excludes become spaces.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push(' '),
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}
