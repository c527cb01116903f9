//! SVG figures (lines, points, bars, Gantt charts, small graphs), and HTML pages that hold them.
//!
//! ```text
//! Figure            title, description for screen readers
//!  `- Panel         one frame with grid, ticks and legend
//!      |- Axis x    linear, logarithmic, or one place per name
//!      |- Axis y
//!      `- Series    a name, a colour, marks: line | points | bars
//!          `- Point x, y, tooltip
//! Gantt             lanes of spans, a level below each lane, links between lanes
//! Network           dots and lines, some of them marked
//! Page              text, tables, figures and data in one HTML file
//! ```
//!
//! ```
//! use shardgraph_plot::{Axis, Figure, Panel, Point, Series};
//!
//! let loss = Series::line("seed 1", [(0.0, 0.7), (1.0, 0.4)].map(Point::from));
//! let panel = Panel::new(Axis::linear("epoch"), Axis::linear("loss").from_zero()).with(loss);
//! let svg = Figure::new("Training", "Loss of each epoch.").panel(panel).svg();
//! assert!(svg.contains("<desc>Loss of each epoch.</desc>"));
//! ```

#![forbid(unsafe_code)]

mod axis;
mod figure;
mod gantt;
mod network;
mod page;
mod series;
mod svg;
#[cfg(test)]
mod tests;

pub use axis::Axis;
pub use figure::{Figure, Panel};
pub use gantt::{Gantt, Lane, Link, Span};
pub use network::Network;
pub use page::{Cell, Drawing, Page, Table};
pub use series::{Point, Series};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
