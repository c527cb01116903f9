//! Round ticks, places of marks, text that is escaped, and figures of nothing.

use proptest::prelude::*;

use super::*;
use crate::svg::{escaped, shortened, width};

fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
    let span = axis.span(values.iter().copied());
    span.ticks.into_iter().map(|(_, label)| label).collect()
}

fn is_well_formed(svg: &str) -> bool {
    let [opened, closed] = ["<text ", "</text>"].map(|tag| svg.matches(tag).count());
    let is_whole = svg.starts_with("<svg ") && svg.ends_with("</svg>\n");
    is_whole && opened == closed && !svg.contains("NaN")
}

#[test]
fn ticks_are_round() {
    let linear = Axis::linear("");
    assert_eq!(
        labels(&linear, &[0.0, 1.0]),
        ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    );
    assert_eq!(labels(&linear, &[3.0, 17.0]), ["0", "5", "10", "15", "20"]);
    assert_eq!(
        labels(&linear, &[0.0, 4e6]),
        ["0", "1e6", "2e6", "3e6", "4e6"]
    );
    assert_eq!(labels(&linear, &[-1.0, 1.0])[2], "0.0");
    assert_eq!(
        labels(&linear.clone().from_zero(), &[9.0]),
        ["0", "2", "4", "6", "8", "10"]
    );
    let log = Axis::log("");
    assert_eq!(
        labels(&log, &[1.0, 80.0]),
        ["1", "2", "5", "10", "20", "50", "100"]
    );
    assert_eq!(
        labels(&log, &[0.02, 900.0]),
        ["0.01", "0.1", "1", "10", "100", "1000"]
    );
    assert_eq!(labels(&log, &[0.0, -1.0]), labels(&linear, &[0.0, -1.0]));
    assert_eq!(labels(&Axis::named("", ["a", "b"]), &[]), ["a", "b"]);
}

proptest! {
    #[test]
    fn ticks_enclose_the_values(low in -1e9f64..1e9, length in 0.0f64..1e6, is_log in any::<bool>()) {
        let axis = if is_log { Axis::log("") } else { Axis::linear("") };
        let values = [low, low + length];
        let span = axis.span(values.into_iter());
        prop_assert!((2..=26).contains(&span.ticks.len()), "{:?}", span);
        for value in values.into_iter().filter(|&value| !span.is_log || value > 0.0) {
            let share = span.share(value).unwrap();
            prop_assert!((-1e-6..=1.0 + 1e-6).contains(&share), "{} in {:?}", value, span);
        }
    }
}

#[test]
fn each_series_has_its_marks_and_one_entry_a_name() {
    let points = [(1.0, 1.0), (2.0, 100.0), (f64::NAN, 3.0)].map(Point::from);
    let panel = Panel::new(Axis::linear("ranks"), Axis::log("t < u"))
        .with(Series::line("ours", points.clone()))
        .with(Series::line("ours", points.clone()).dashed())
        .with(Series::points("paper", points))
        .with(Series::line("", [Point::from((1.0, 10.0))]));
    let svg = Figure::new("a & b", "what it \"shows\"").panel(panel).svg();
    assert!(is_well_formed(&svg), "{svg}");
    assert_eq!(svg.matches("<polyline").count(), 3);
    assert_eq!(svg.matches(">ours</text>").count(), 1);
    // Two points a series, one of the last, and the legend's.
    assert_eq!(svg.matches("<circle").count(), 2 + 2 + 2 + 1 + 1);
    for part in [
        "t &lt; u (log)",
        "<title>a &amp; b</title>",
        "&quot;shows&quot;</desc>",
    ] {
        assert!(svg.contains(part), "{part} in {svg}");
    }
}

#[test]
fn labels_stand_beside_dots_and_cover_no_other() {
    let dot = |x: f64, y: f64, text: &str| Point::from((x, y)).with_text(text);
    let dots = [
        dot(0.0, 0.0, "ann"),
        dot(0.01, 0.0, "hidden"),
        dot(0.0, 1.0, "b<b"),
        dot(1.0, 1.0, "at the border"),
    ];
    let panel = |series| Panel::new(Axis::linear(""), Axis::linear("")).with(series);
    let series = || Series::points("", dots.clone());
    let svg = |series| Figure::new("", "").panel(panel(series)).svg();
    let labelled = svg(series().labelled());
    assert!(is_well_formed(&labelled), "{labelled}");
    let n_texts = |text: &str| labelled.matches(&format!(">{text}</text>")).count();
    assert_eq!(
        [n_texts("ann"), n_texts("b&lt;b"), n_texts("hidden")],
        [1, 1, 0]
    );
    let (line, _) = labelled.split_once(">at the border</text>").unwrap();
    let (_, x) = line.rsplit_once(" x=\"").unwrap();
    let left: f64 = x.split('"').next().unwrap().parse().unwrap();
    let (_, dot) = labelled.rsplit_once("cx=\"").unwrap();
    let dot: f64 = dot.split('"').next().unwrap().parse().unwrap();
    assert!(left < dot, "on the left: {left}, {dot}");
    assert!(!svg(series()).contains(">ann</text>"));
}

#[test]
fn bars_lie_along_the_axis_without_names() {
    let bars = || Series::bars("", [Point::from((0.0, 4.0)), (1.0, 2.0).into()]);
    let upright = Panel::new(Axis::named("", ["a", "b"]), Axis::linear("")).with(bars());
    let svg = Figure::new("", "").panel(upright).svg();
    assert!(
        svg.contains("height=\"320.0\"") && svg.contains("height=\"160.0\""),
        "{svg}"
    );
    let flat = Series::bars(
        "",
        [Point::from((4.0, 0.0)).with_text("4 %"), (2.0, 1.0).into()],
    );
    let panel = Panel::new(Axis::linear(""), Axis::named("", ["a", "b"])).with(flat);
    let svg = Figure::new("", "").panel(panel).svg();
    assert!(
        svg.contains("width=\"560.0\"") && svg.contains("width=\"280.0\""),
        "{svg}"
    );
    assert!(svg.contains(">4 %</text>"));
}

#[test]
fn figures_of_nothing_are_drawn() {
    let axes = [Axis::linear(""), Axis::log(""), Axis::named("", [""; 0])];
    for x in &axes {
        for y in &axes {
            let panel = Panel::new(x.clone(), y.clone()).with(Series::line("a", []));
            assert!(is_well_formed(&Figure::new("", "").panel(panel).svg()));
        }
    }
    assert!(is_well_formed(&Figure::new("", "").svg()));
    assert!(is_well_formed(&Gantt::default().svg()));
}

#[test]
fn equal_units_keep_angles() {
    let square = [(0.0, 0.0), (10.0, 0.0), (0.0, 10.0)].map(Point::from);
    let panel = Panel::new(Axis::linear(""), Axis::linear(""));
    let panel = panel.with(Series::points("", square)).with_equal_units();
    let svg = Figure::new("", "").panel(panel).svg();
    let place = |circle: &str, key: &str| -> f64 {
        let rest = circle.split_once(&format!("{key}=\"")).unwrap().1;
        rest.split('"').next().unwrap().parse().unwrap()
    };
    let circles: Vec<&str> = svg.split("<circle").skip(1).collect();
    let across = place(circles[1], "cx") - place(circles[0], "cx");
    let up = place(circles[0], "cy") - place(circles[2], "cy");
    assert!(across > 0.0 && (across - up).abs() < 0.1, "{across} {up}");
}

#[test]
fn text_is_made_fit_for_xml_and_for_its_place() {
    assert_eq!(
        escaped("<a> & \"b\"\u{1}\u{ffff}"),
        "&lt;a&gt; &amp; &quot;b&quot;  "
    );
    let short = shortened("a name that is much too long", 60.0);
    assert!(
        short.ends_with('\u{2026}') && width(&short) <= 60.0,
        "{short}"
    );
    assert_eq!(shortened("short", 60.0), "short");
    assert_eq!(shortened("anything", 1.0), "\u{2026}");
}

#[test]
fn a_chart_has_a_box_for_each_span_that_takes_time() {
    let span = |start_ns, end_ns| Span {
        start_ns,
        end_ns,
        name: "op".into(),
        kind: "matmul".into(),
        tooltip: "1 < 2".into(),
        ..Span::default()
    };
    let lane = Lane {
        name: "device 0".into(),
        spans: vec![span(0, 1_500), span(1_500, 1_500), span(1_500, 2_000)],
        levels: vec![(0, 10), (2_000, 0)],
        ..Lane::default()
    };
    let link = Link {
        end_ns: 900,
        to: 1,
        ..Link::default()
    };
    let mut near = lane.clone();
    near.limit = near.levels.iter().map(|(_, value)| value + 1).max();
    near.spans[0].is_critical = true;
    let far = Lane {
        limit: Some(1 << 40),
        ..lane
    };
    let chart = Gantt {
        lanes: vec![near, far],
        links: vec![link],
        reference: Some(("one < device".into(), 3_000)),
        ..Gantt::default()
    };
    let svg = chart.svg();
    assert_eq!(svg.matches("class=\"limit\"").count(), 1);
    assert_eq!(svg.matches("class=\"reference\"").count(), 1);
    assert_eq!(svg.matches("stroke-width=\"1.2\"").count(), 1);
    assert!(svg.contains("one &lt; device"), "{svg}");
    assert!(is_well_formed(&svg), "{svg}");
    assert_eq!(svg.matches("class=\"op\"").count(), 4);
    assert_eq!(svg.matches("<line").count(), 1);
    assert!(svg.contains("0.5 us") && svg.contains("1 &lt; 2"), "{svg}");
    let marks = "dark border: critical path; line between rows: transfer; \
                 curve: memory; broken line: memory limit";
    assert!(svg.contains(marks), "{svg}");
}

#[test]
fn a_chart_explains_only_the_marks_that_it_has() {
    let span = Span {
        end_ns: 10,
        name: "encoder.layers.11.attention".into(),
        ..Span::default()
    };
    let second = Span {
        start_ns: 10,
        end_ns: 200,
        ..Span::default()
    };
    let lane = Lane {
        spans: vec![span, second],
        levels: vec![(0, 1)],
        ..Lane::default()
    };
    let chart = Gantt {
        lanes: vec![lane],
        ..Gantt::default()
    };
    let svg = chart.svg();
    assert!(svg.contains(">curve: memory<"), "{svg}");
    assert!(!svg.contains("critical") && !svg.contains("limit"), "{svg}");
    // The end of a name tells ops of one module apart.
    assert!(svg.contains(">\u{2026}ention<"), "{svg}");
}

#[test]
fn the_last_label_of_an_axis_is_whole() {
    let curve = Series::curve("", [(0.0, 0.0), (160_000.0, 1.0)].map(Point::from));
    let panel = Panel::new(Axis::linear("step"), Axis::linear("loss")).with(curve);
    let svg = Figure::new("", "").panel(panel.sized(300.0, 100.0)).svg();
    let number = |text: &str| text.parse::<f64>().unwrap();
    let (before, _) = svg.split_once(">200000<").unwrap();
    let (_, x) = before.rsplit_once(" x=\"").unwrap();
    let middle = number(x.split_once('"').unwrap().0);
    let (_, size) = svg.split_once("viewBox=\"0 0 ").unwrap();
    let right = number(size.split_once(' ').unwrap().0);
    assert!(middle + 0.6 * width("200000") <= right, "{middle} {right}");
}
