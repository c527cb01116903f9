//! Pages: text, tables, figures and data as one HTML file.
//!
//! A page needs no script, no other file and no network, and the same content gives the same bytes. Every text is escaped
//! here, so that names from files of users stay text. It has a light and a dark look, and prints.

use std::fmt::Write as _;

use crate::svg::escaped;
use crate::{Figure, Gantt, Network};

const STYLE: &str = ":root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#d0d7de;--soft:#57606a;--mark:#9a6700}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--line:#30363d;--soft:#9198a1;--mark:#d29922}\
figure svg{filter:invert(.93) hue-rotate(180deg)}}\
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:72rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem;line-height:1.25}h2{font-size:1.15rem;margin-top:2rem}code,pre{font:13px/1.4 ui-monospace,monospace}\
pre{overflow-x:auto;padding:.6rem;border:1px solid var(--line);border-radius:6px}\
.scroll{overflow-x:auto}table{border-collapse:collapse}th,td{padding:.25rem .9rem .25rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}th{color:var(--soft);font-weight:600}\
.soft{color:var(--soft)}.mark{color:var(--mark);font-weight:600}\
figure{margin:1rem 0;overflow-x:auto}figure svg{display:block;max-width:100%;min-width:34rem;height:auto;border-radius:6px}\
li,p{overflow-wrap:anywhere}td:first-child{min-width:13rem}summary{cursor:pointer}details div{max-width:22rem;white-space:normal;overflow-wrap:anywhere}\
@media print{:root{--ink:#000;--paper:#fff;--line:#bbb;--soft:#444;--mark:#000}body{margin:0;max-width:none;font-size:10pt}\
figure svg{filter:none;min-width:0}figure,tr{break-inside:avoid}.scroll,figure{overflow:visible}details:not([open]){display:none}}";

/// A page in progress: its parts stand in the order in which they were added.
///
/// ```
/// use shardgraph_plot::{Axis, Cell, Figure, Page, Panel, Point, Series, Table};
///
/// let loss = Series::line("", [(0.0, 0.7), (1.0, 0.4)].map(Point::from));
/// let panel = Panel::new(Axis::linear("epoch"), Axis::linear("loss").from_zero()).with(loss);
/// let mut table = Table::new(["epoch", "loss"]);
/// table.row([Cell::text("0 < 1"), Cell::number("0.7")]);
/// let mut page = Page::new("Training");
/// page.figure(&Figure::new("Loss", "Loss of each epoch.").panel(panel));
/// page.table(&table);
/// let html = page.html();
/// assert!(html.contains("<td>0 &lt; 1</td>") && !html.contains("http://example"));
/// ```
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
}

/// A table of a page.
#[derive(Clone, Debug, Default)]
pub struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    /// What unfolds under the text.
    more: String,
    look: Look,
}

#[derive(Clone, Copy, Debug)]
enum Look {
    Text,
    Number,
    Soft,
    Mark,
}

impl Cell {
    fn new(text: impl Into<String>, look: Look) -> Cell {
        Cell {
            text: text.into(),
            more: String::new(),
            look,
        }
    }

    /// Words, from the left.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::new(text, Look::Text)
    }

    /// A number, from the right.
    #[must_use]
    pub fn number(text: impl Into<String>) -> Cell {
        Cell::new(text, Look::Number)
    }

    /// Words that a reader may leave out.
    #[must_use]
    pub fn soft(text: impl Into<String>) -> Cell {
        Cell::new(text, Look::Soft)
    }

    /// A warning.
    #[must_use]
    pub fn mark(text: impl Into<String>) -> Cell {
        Cell::new(text, Look::Mark)
    }

    /// The cell with text that unfolds under it, without a script.
    #[must_use]
    pub fn unfolding(self, more: impl Into<String>) -> Cell {
        Cell {
            more: more.into(),
            ..self
        }
    }

    fn html(&self) -> String {
        let text = escaped(&self.text);
        let text = match self.more.is_empty() {
            true => text,
            false => {
                let more = escaped(&self.more);
                format!("<details><summary>{text}</summary><div>{more}</div></details>")
            }
        };
        match self.look {
            Look::Text => format!("<td>{text}</td>"),
            Look::Number => format!("<td class=\"n\">{text}</td>"),
            Look::Soft => format!("<td class=\"soft\">{text}</td>"),
            Look::Mark => format!("<td class=\"mark\">{text}</td>"),
        }
    }
}

impl Table {
    /// An empty table under these heads.
    #[must_use]
    pub fn new<S: Into<String>>(heads: impl IntoIterator<Item = S>) -> Table {
        Table {
            heads: heads.into_iter().map(S::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// A drawing that a page takes: one of this crate, whose text is escaped already.
pub trait Drawing {
    /// The SVG document.
    fn drawing(&self) -> String;
}

impl Drawing for Figure {
    fn drawing(&self) -> String {
        self.svg()
    }
}

impl Drawing for Gantt {
    fn drawing(&self) -> String {
        self.svg()
    }
}

impl Drawing for Network {
    fn drawing(&self) -> String {
        self.svg()
    }
}

impl Page {
    /// An empty page with a title over it.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Page {
        let title = title.into();
        let body = format!("<h1>{}</h1>\n", escaped(&title));
        Page { title, body }
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) {
        self.element("h2", text);
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        self.element("p", text);
    }

    /// Adds a paragraph that warns.
    pub fn warning(&mut self, text: &str) {
        let text = escaped(text);
        self.push(&format!("<p class=\"mark\">{text}</p>"));
    }

    /// Adds lines of code or settings, as they are.
    pub fn code(&mut self, text: &str) {
        // Line by line: escaping makes spaces of control characters, and a line's end is one.
        let lines: Vec<String> = text.lines().map(escaped).collect();
        self.push(&format!("<pre>{}</pre>", lines.join("\n")));
    }

    /// Adds a list.
    pub fn list<S: AsRef<str>>(&mut self, items: impl IntoIterator<Item = S>) {
        let items = items.into_iter();
        let items: String = items
            .map(|item| format!("<li>{}</li>", escaped(item.as_ref())))
            .collect();
        self.push(&format!("<ul>{items}</ul>"));
    }

    /// Adds a table, which scrolls for itself where it is wider than the window.
    pub fn table(&mut self, table: &Table) {
        let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
        for (idx, head) in table.heads.iter().enumerate() {
            let mut column = table.rows.iter().filter_map(|row| row.get(idx));
            let class = match column.any(|cell| matches!(cell.look, Look::Number)) {
                true => " class=\"n\"",
                false => "",
            };
            // Writing to a String cannot fail.
            let _ = write!(html, "<th{class}>{}</th>", escaped(head));
        }
        html.push_str("</tr></thead><tbody>\n");
        for row in &table.rows {
            let cells: String = row.iter().map(Cell::html).collect();
            let _ = writeln!(html, "<tr>{cells}</tr>");
        }
        self.push(&(html + "</tbody></table></div>"));
    }

    /// Adds a drawing.
    pub fn figure(&mut self, drawing: &impl Drawing) {
        let svg = drawing.drawing();
        self.push(&format!("<figure>{}</figure>", svg.trim_end()));
    }

    /// Adds JSON as data for programs, under an id of letters.
    pub fn data(&mut self, id: &str, json: &str) {
        let id = escaped(id);
        // `</script>` must not end the data early, and JSON has another way to write `<`.
        let json = json.replace('<', "\\u003c");
        self.push(&format!(
            "<script type=\"application/json\" id=\"{id}\">{json}</script>"
        ));
    }

    /// Bytes of the page so far.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.head().len() + self.body.len()
    }

    /// The whole document.
    #[must_use]
    pub fn html(&self) -> String {
        format!("{}{}</body></html>\n", self.head(), self.body)
    }

    fn head(&self) -> String {
        let title = escaped(&self.title);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>{title}</title><style>{STYLE}</style></head><body>\n"
        )
    }

    fn element(&mut self, tag: &str, text: &str) {
        let text = escaped(text);
        self.push(&format!("<{tag}>{text}</{tag}>"));
    }

    fn push(&mut self, html: &str) {
        self.body.push_str(html);
        self.body.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Panel, Point, Series};

    fn page(text: &str) -> Page {
        let mut page = Page::new(text);
        page.heading(text);
        page.paragraph(text);
        page.warning(text);
        page.code(text);
        page.list([text]);
        let mut table = Table::new([text, "n"]);
        table.row([
            Cell::text(text).unfolding(text),
            Cell::number(text),
            Cell::soft(text),
            Cell::mark(text),
        ]);
        page.table(&table);
        let points = Series::points(text, [Point::from((1.0, 2.0)).with_text(text)]);
        let panel = Panel::new(Axis::linear(text), Axis::named(text, [text])).with(points);
        page.figure(&Figure::new(text, text).panel(panel.titled(text)));
        page.data("data", &format!("{:?}", [text]));
        page
    }

    #[test]
    fn no_text_becomes_markup() {
        let hostile = "</script></title></style><img src=x onerror=alert(1)>&\"'";
        let html = page(hostile).html();
        assert_eq!(html.matches("<img").count(), 0);
        assert_eq!(html.matches("</script>").count(), 1, "the end of the data");
        assert_eq!(html.matches("</style>").count(), 1);
        assert!(html.contains("&lt;img src=x"));
        assert_eq!(html, page(hostile).html());
    }

    #[test]
    fn nothing_is_asked_of_anywhere() {
        let html = page("plain").html();
        let without = html.replace("http://www.w3.org/2000/svg", "");
        for asks in ["http:", "https:", "src=", "href", "@import", "url("] {
            assert!(!without.contains(asks), "{asks}");
        }
        assert!(html.contains("default-src 'none'"));
        assert_eq!(
            page("plain").n_bytes() + "</body></html>\n".len(),
            html.len()
        );
    }

    #[test]
    fn code_keeps_its_lines() {
        let mut page = Page::new("t");
        page.code("a <b>\n  c\n");
        assert!(page.html().contains("<pre>a &lt;b&gt;\n  c</pre>"));
    }
}
