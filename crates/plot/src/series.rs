//! Series: a name, a colour, and marks.

/// A value with an optional tooltip.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) text: String,
}

impl From<(f64, f64)> for Point {
    fn from(place: (f64, f64)) -> Point {
        Point {
            x: place.0,
            y: place.1,
            ..Point::default()
        }
    }
}

impl Point {
    /// The point with a text: under the pointer, or at the end of a bar.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Point {
        Point {
            text: text.into(),
            ..self
        }
    }
}

/// Marks of one name and colour.
#[derive(Clone, Debug)]
pub struct Series {
    pub(crate) name: String,
    pub(crate) colour: Colour,
    pub(crate) dashes: &'static str,
    pub(crate) opacity: f64,
    /// The texts of dots stand beside them.
    pub(crate) has_labels: bool,
    pub(crate) marks: Marks,
}

/// Which colour a series has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Colour {
    /// By the order of the names in the panel.
    Next,
    Palette(usize),
    Grey,
}

/// Width of a bar in units of its axis.
pub(crate) const BAR_WIDTH: f64 = 0.7;

#[derive(Clone, Debug)]
pub(crate) enum Marks {
    Line {
        points: Vec<Point>,
        has_dots: bool,
    },
    Points(Vec<Point>),
    /// Bars from 0, [`BAR_WIDTH`] units of the axis wide.
    Bars(Vec<Point>),
}

impl Series {
    fn new(name: impl Into<String>, marks: Marks) -> Series {
        Series {
            name: name.into(),
            colour: Colour::Next,
            dashes: "",
            opacity: 1.0,
            has_labels: false,
            marks,
        }
    }

    /// A line through points, each with a dot. Series without a name are not in the legend.
    #[must_use]
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = Point>) -> Series {
        let points = points.into_iter().collect();
        let has_dots = true;
        Series::new(name, Marks::Line { points, has_dots })
    }

    /// A line through many values, without dots.
    #[must_use]
    pub fn curve(name: impl Into<String>, points: impl IntoIterator<Item = Point>) -> Series {
        let points = points.into_iter().collect();
        let has_dots = false;
        Series::new(name, Marks::Line { points, has_dots })
    }

    /// Dots.
    #[must_use]
    pub fn points(name: impl Into<String>, points: impl IntoIterator<Item = Point>) -> Series {
        Series::new(name, Marks::Points(points.into_iter().collect()))
    }

    /// Bars from 0 at places of a named axis; horizontal ones where the vertical axis is named.
    ///
    /// The text of a bar stands at its end.
    #[must_use]
    pub fn bars(name: impl Into<String>, bars: impl IntoIterator<Item = Point>) -> Series {
        Series::new(name, Marks::Bars(bars.into_iter().collect()))
    }

    /// The colour of the `idx`-th series, so that several series share one.
    #[must_use]
    pub fn coloured(self, idx: usize) -> Series {
        Series {
            colour: Colour::Palette(idx),
            ..self
        }
    }

    /// Grey, for what stands in the background.
    #[must_use]
    pub fn grey(self) -> Series {
        Series {
            colour: Colour::Grey,
            ..self
        }
    }

    /// A dashed line.
    #[must_use]
    pub fn dashed(self) -> Series {
        Series {
            dashes: "6 4",
            ..self
        }
    }

    /// A dotted line.
    #[must_use]
    pub fn dotted(self) -> Series {
        Series {
            dashes: "2 3",
            ..self
        }
    }

    /// Marks through which others are seen, for many of them.
    #[must_use]
    pub fn faint(self) -> Series {
        Series {
            opacity: 0.6,
            ..self
        }
    }

    /// Dots with their texts beside them, as far as none covers another.
    #[must_use]
    pub fn labelled(self) -> Series {
        Series {
            has_labels: true,
            ..self
        }
    }

    /// The values that the axes have to show, along x and along y.
    pub(crate) fn values(&self, is_horizontal: bool) -> Vec<[f64; 2]> {
        match &self.marks {
            Marks::Line { points, .. } | Marks::Points(points) => {
                points.iter().map(|point| [point.x, point.y]).collect()
            }
            Marks::Bars(bars) => {
                let half = BAR_WIDTH / 2.0;
                let corners = |bar: &Point| match is_horizontal {
                    true => [[0.0, bar.y], [bar.x, bar.y]],
                    false => [[bar.x - half, 0.0], [bar.x + half, bar.y]],
                };
                bars.iter().flat_map(corners).collect()
            }
        }
    }
}
