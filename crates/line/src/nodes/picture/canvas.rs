//! Dots and small letters on a square of pixels.

/// Red, green and blue, 0 to 255.
pub(super) type Color = [u8; 3];

/// A square picture.
pub(super) struct Canvas {
    side: usize,
    pixels: Vec<Color>,
}

/// Columns and rows of a letter.
const LETTER: (usize, usize) = (3, 5);

impl Canvas {
    pub(super) fn white(side: usize) -> Canvas {
        Canvas {
            side,
            pixels: vec![[255; 3]; side * side],
        }
    }

    /// From above, rows of pixels from the left.
    pub(super) fn rows(&self) -> impl Iterator<Item = &[Color]> {
        self.pixels.chunks_exact(self.side)
    }

    /// A disc; pixels that it covers in part are mixed in part. What lies outside the picture is left out.
    pub(super) fn dot(&mut self, (x, y): (f64, f64), radius: f64, color: Color, opacity: f64) {
        let range = |center: f64| {
            let low = (center - radius - 1.0).max(0.0) as usize;
            low..((center + radius + 1.0).max(0.0) as usize).min(self.side)
        };
        let (columns, rows) = (range(x), range(y));
        for row in rows {
            for column in columns.clone() {
                let (dx, dy) = (column as f64 + 0.5 - x, row as f64 + 0.5 - y);
                let covered = (radius + 0.5 - dx.hypot(dy)).clamp(0.0, 1.0);
                self.mix(column, row, color, covered * opacity);
            }
        }
    }

    /// Letters `scale` pixels to a point, the first with its upper left corner at the place.
    pub(super) fn text(&mut self, (x, y): (usize, usize), scale: usize, text: &str) {
        for (at, letter) in text.chars().enumerate() {
            let left = x + at * (LETTER.0 + 1) * scale;
            for (row, bits) in points(letter).into_iter().enumerate() {
                for column in (0..LETTER.0).filter(|column| bits >> (2 - column) & 1 == 1) {
                    self.block((left + column * scale, y + row * scale), scale);
                }
            }
        }
    }

    /// A black square.
    fn block(&mut self, (x, y): (usize, usize), size: usize) {
        for row in y..(y + size).min(self.side) {
            for column in x..(x + size).min(self.side) {
                self.pixels[row * self.side + column] = [0; 3];
            }
        }
    }

    fn mix(&mut self, column: usize, row: usize, color: Color, share: f64) {
        let pixel = &mut self.pixels[row * self.side + column];
        for (old, new) in pixel.iter_mut().zip(color) {
            let mixed = f64::from(*old) * (1.0 - share) + f64::from(new) * share;
            *old = mixed.round() as u8;
        }
    }
}

/// A color of the form #rrggbb.
pub(super) fn color(text: &str) -> Color {
    let part = |at: usize| {
        let digits = text.get(at..at + 2).unwrap_or_default();
        u8::from_str_radix(digits, 16).unwrap_or(0)
    };
    [part(1), part(3), part(5)]
}

/// The rows of a letter, three bits each; capitals alone. A letter that is not here is a frame.
fn points(letter: char) -> [u8; LETTER.1] {
    /// From the blank to `_`, an octal digit a row.
    const POINTS: [&str; 64] = [
        "00000", "22202", "55000", "57575", "36236", "51245", "25253", "22000", "12221", "42224",
        "52725", "02720", "00024", "00700", "00002", "11244", "75557", "26227", "61247", "61216",
        "55711", "74616", "34757", "71122", "75757", "75716", "02020", "02024", "12421", "07070",
        "42124", "61202", "75747", "25755", "65656", "34443", "65556", "74647", "74644", "34553",
        "55755", "72227", "11152", "55655", "44447", "57755", "65555", "25552", "65644", "25563",
        "65655", "34216", "72222", "55557", "55552", "55775", "55255", "55222", "71247", "64446",
        "44211", "31113", "25000", "00007",
    ];
    let at = (letter.to_ascii_uppercase() as usize).checked_sub(usize::from(b' '));
    let rows = at.and_then(|at| POINTS.get(at)).unwrap_or(&"75557");
    let mut bits = [0; LETTER.1];
    for (bits, digit) in bits.iter_mut().zip(rows.bytes()) {
        *bits = digit - b'0';
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(canvas: &Canvas, column: usize, row: usize) -> Color {
        canvas.pixels[row * canvas.side + column]
    }

    #[test]
    fn dots_are_round_and_end_at_the_border() {
        let mut canvas = Canvas::white(40);
        canvas.dot((20.0, 10.0), 4.0, [0, 0, 200], 1.0);
        assert_eq!(at(&canvas, 20, 10), [0, 0, 200]);
        assert_eq!(at(&canvas, 20, 16), [255; 3]);
        assert_eq!(at(&canvas, 23, 13), [255; 3], "a corner of its square");
        let covered = canvas
            .pixels
            .iter()
            .map(|p| (255.0 - f64::from(p[0])) / 255.0);
        let area: f64 = covered.sum();
        assert!((area - 16.0 * std::f64::consts::PI).abs() < 1.5, "{area}");
        for corner in [(0.0, 0.0), (40.0, 40.0), (-9.0, 3.0), (1e6, -1e6)] {
            canvas.dot(corner, 4.0, [0; 3], 0.5);
        }
        assert_eq!(at(&canvas, 0, 0), [128; 3]);
    }

    #[test]
    fn letters_are_drawn_as_they_look() {
        let mut canvas = Canvas::white(20);
        canvas.text((1, 2), 1, "t-\u{e9}");
        let drawn: Vec<String> = (2..7)
            .map(|row| {
                let is_black = |column| at(&canvas, column, row) == [0; 3];
                (1..12)
                    .map(|c| if is_black(c) { '#' } else { '.' })
                    .collect()
            })
            .collect();
        let expected = [
            "###.....###",
            ".#......#.#",
            ".#..###.#.#",
            ".#......#.#",
            ".#......###",
        ];
        assert_eq!(drawn, expected);
        canvas.text((18, 18), 3, "WWW"); // over the border
    }

    #[test]
    fn colors_are_read() {
        assert_eq!(color("#e69f00"), [0xe6, 0x9f, 0]);
    }
}
