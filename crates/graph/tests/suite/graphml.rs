//! GraphML as other programs write it, and what is refused with its line.

use shardgraph_graph::{
    ErrorKind, Format, Import, Policy, ReadOptions, WeightPolicy, WriteOptions, read_bytes,
    read_graph, write_graph,
};

fn read(text: &str) -> Import {
    read_bytes("g.graphml", text.as_bytes(), &ReadOptions::default()).unwrap()
}

/// The edges by their labels, sorted, with their weights.
fn edges(import: &Import) -> Vec<(String, String, f32)> {
    let edge = |(u, v, weight): (u32, u32, f32)| {
        let (u, v) = (import.labels.get(u), import.labels.get(v));
        if u < v {
            (u, v, weight)
        } else {
            (v, u, weight)
        }
    };
    let mut edges: Vec<_> = import.graph.weighted_edges().map(edge).collect();
    edges.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    edges
}

/// What `networkx.write_graphml` makes of a weighted graph with an attribute.
const NETWORKX: &str = "<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">
  <key id=\"d1\" for=\"edge\" attr.name=\"weight\" attr.type=\"double\" />
  <key id=\"d0\" for=\"node\" attr.name=\"club\" attr.type=\"string\" />
  <graph edgedefault=\"undirected\">
    <node id=\"Anna Lee\"><data key=\"d0\">Mr. Hi</data></node>
    <node id=\"Bob &amp; Co\" />
    <node id=\"alone\" />
    <edge source=\"Anna Lee\" target=\"Bob &amp; Co\"><data key=\"d1\">2.5</data></edge>
  </graph>
</graphml>
";

/// What igraph makes: ids of its own, and the names as an attribute.
const IGRAPH: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">
<!-- Created by igraph -->
  <key id=\"v_name\" for=\"node\" attr.name=\"name\" attr.type=\"string\"/>
  <graph id=\"G\" edgedefault=\"directed\">
    <node id=\"n0\"><data key=\"v_name\">a&#233;</data></node>
    <node id=\"n1\"><data key=\"v_name\"><![CDATA[b<c]]></data></node>
    <edge source=\"n0\" target=\"n1\"></edge>
    <edge source=\"n1\" target=\"n0\"/>
    <edge source=\"n1\" target=\"n1\"/>
  </graph>
</graphml>";

#[test]
fn files_of_other_programs_are_read() {
    let import = read(NETWORKX);
    let expected = ("Anna Lee".to_owned(), "Bob & Co".to_owned(), 2.5);
    assert_eq!(edges(&import), [expected]);
    assert_eq!(
        (import.graph.n_nodes(), import.labels.find("alone")),
        (3, Some(2))
    );

    let import = read(IGRAPH);
    assert_eq!(
        edges(&import),
        [("a\u{e9}".to_owned(), "b<c".to_owned(), 1.0)]
    );
    let report = &import.report;
    assert!(report.directed_merged && import.graph.weights().is_none());
    assert_eq!(
        (report.duplicates_merged, report.self_loops_dropped),
        (1, 1)
    );
    // Content says so where the name does not.
    let by_content = read_bytes("g.xml", IGRAPH.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!(by_content.report.format, Format::GraphMl);
}

#[test]
fn names_are_labels_only_where_all_nodes_have_another() {
    let named = |first: &str, second: &str| {
        let data = |name: &str| match name {
            "" => String::new(),
            name => format!("<data key='k'>{name}</data>"),
        };
        let (first, second) = (data(first), data(second));
        let import = read(&format!(
            "<graphml><key id='k' for='node' attr.name='label'/><graph>\
             <node id='7'>{first}</node><node id='9'>{second}</node>\
             <edge source='9' target='7'/></graph></graphml>"
        ));
        [0, 1].map(|v| import.labels.get(v))
    };
    assert_eq!(named("a", "b"), ["a", "b"]);
    for (first, second) in [("a", "a"), ("a", ""), ("a", " "), ("a", "b\nc")] {
        assert_eq!(named(first, second), ["7", "9"]);
    }
}

#[test]
fn weights_have_a_default_and_can_be_left_out() {
    let text = "<graphml><key id='w' for='edge' attr.name='weight'><default>3</default></key>\
        <graph><node id='a'/><node id='b'/><node id='c'/><edge source='a' target='b'/>\
        <edge source='b' target='c'><data key='w'> 0.5 </data></edge></graph></graphml>";
    let weights: Vec<f32> = edges(&read(text)).iter().map(|edge| edge.2).collect();
    assert_eq!(weights, [3.0, 0.5]);
    let options = ReadOptions {
        weights: WeightPolicy::Ignore,
        ..ReadOptions::default()
    };
    let import = read_bytes("g.graphml", text.as_bytes(), &options).unwrap();
    assert!(import.graph.weights().is_none() && import.report.weights_ignored);
}

#[test]
fn names_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("again.graphml");
    let text = "a<b,\"c & d\"\nc'd,a<b\n";
    let import = read_bytes("g.csv", text.as_bytes(), &ReadOptions::default()).unwrap();
    let options = WriteOptions::default();
    write_graph(&path, &import.graph, Some(&import.labels), options).unwrap();
    let again = read_graph(&path, &ReadOptions::default()).unwrap();
    assert_eq!(edges(&again), edges(&import));
}

#[test]
fn a_name_with_a_quote_is_not_written_to_an_edge_list() {
    let text = "<graphml><graph><node id='a&quot;b'/><node id='c'/>\
        <edge source='c' target='a&quot;b'/></graph></graphml>";
    let import = read(text);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.el");
    let options = WriteOptions::default();
    let error = write_graph(&path, &import.graph, Some(&import.labels), options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("a\"b") && !path.exists(),
        "{error}"
    );
}

#[test]
fn what_is_no_graph_is_refused_with_its_line() {
    let graph = |inner: &str| format!("<graphml>\n<graph>\n{inner}\n</graph>\n</graphml>\n");
    let two = "<node id='a'/><node id='b'/>\n";
    for (text, line, expected) in [
        (String::new(), 1, "expected a `<graph>`, found the end"),
        ("<graphml></graphml>".into(), 1, "expected a `<graph>`"),
        (
            "<svg>\n</svg>".into(),
            1,
            "expected `<graphml>`, found `<svg>`",
        ),
        ("<graphml>\n<graph>\n<node".into(), 3, "well-formed XML"),
        ("<graphml>\n<graph>\n".into(), 3, "expected `</graphml>`"),
        (
            "<graphml>\n<graph>\n</graphml>".into(),
            3,
            "well-formed XML",
        ),
        (graph("<node/>"), 3, "an attribute `id` of `<node>`"),
        (graph("<node id=''/>"), 3, "an id of 1 to 4096 bytes"),
        (
            graph("<node id='a'/><node id='a'/>"),
            3,
            "another of id `a`",
        ),
        (
            graph("<node id='a'><graph>\n</graph></node>"),
            3,
            "another `<graph>`",
        ),
        (graph("<node id='&lol;'/>"), 3, "expected attributes"),
        (graph("<edge source='a'/>"), 3, "an attribute `target`"),
        (
            graph("<node id='a'/>\n<edge source='a' target='z'/>"),
            4,
            "found `z`",
        ),
        (graph("<hyperedge/>"), 3, "found `<hyperedge>`"),
        (format!("{}<graph/>", graph("")), 6, "another `<graph>`"),
    ] {
        let error = read_bytes("g.graphml", text.as_bytes(), &ReadOptions::default()).unwrap_err();
        let error = error.to_string();
        let place = format!("g.graphml:{line}: ");
        assert!(
            error.starts_with(&place) && error.contains(expected),
            "{text}\n{error}"
        );
    }
    for weight in ["nan", "", "1e99", "x"] {
        let edge = format!("<edge source='a' target='b'><data key='w'>{weight}</data></edge>");
        let text = format!(
            "<graphml><key id='w' for='edge' attr.name='weight'/><graph>\n{two}{edge}</graph></graphml>"
        );
        let error = read_bytes("g.graphml", text.as_bytes(), &ReadOptions::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("g.graphml:3: expected a finite"),
            "{error}"
        );
    }
    let options = ReadOptions {
        directed: Policy::Refuse,
        ..ReadOptions::default()
    };
    let error = read_bytes("g.graphml", IGRAPH.as_bytes(), &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Policy);
}

/// They would else pass for edge lists of names.
#[test]
fn other_forms_are_named_and_refused() {
    for (text, form) in [
        ("{\"nodes\": []}\n", "JSON"),
        ("[[0, 1]]\n", "JSON"),
        ("graph {\n  a -- b;\n}\n", "DOT"),
        ("strict digraph \"G\" {\n}\n", "DOT"),
        ("graph [\n  node [\n", "GML"),
        ("graph\n[\n", "GML"),
        ("Creator \"igraph\"\ngraph\n[\n", "GML"),
    ] {
        let error = read_bytes("g.txt", text.as_bytes(), &ReadOptions::default()).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with(&format!("g.txt:1:1: {form} is not read")),
            "{error}"
        );
    }
}
