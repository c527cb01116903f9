//! `latest.md`: a record with what its definition says, as Markdown.

use crate::figure::Figure;
use crate::host::Host;
use crate::record::Record;
use crate::statistics::shown;
use crate::table::{self, Heads};

/// What people read.
pub fn markdown(record: &Record, figure: &Figure) -> String {
    let mut text = format!("# {}\n\n```\n{}\n```\n\n", record.title, record.command);
    text.push_str(&origin(record));
    if !figure.why.is_empty() {
        text.push_str(&format!("\n{}\n", figure.why));
    }
    let heads = Heads {
        x: &figure.x,
        y: &figure.y,
        peer: "PyTorch on this machine",
    };
    text.push_str(&format!("\n{}", table::tables(&record.rows, &heads)));
    text.push_str(&around(figure));
    for note in &record.notes {
        text.push_str(&format!("- {note}\n"));
    }
    for skip in &record.skips {
        text.push_str(&format!("- skipped: {skip}\n"));
    }
    text
}

/// Revision, machine, load.
fn origin(record: &Record) -> String {
    let Host {
        label,
        cpu,
        n_cores,
        memory_bytes,
        system,
        rustc,
    } = &record.host;
    let gib = memory_bytes.map(|bytes| bytes as f64 / f64::from(1 << 30));
    let memory = gib.map_or("memory unknown".to_owned(), |gib| format!("{gib:.1} GiB"));
    let dirty = match record.is_dirty {
        true => ", with changes that are not committed",
        false => "",
    };
    let load = record.load.map_or("not recorded".to_owned(), shown);
    format!(
        "- {}, {label}, {}\n- revision: {}{dirty}\n- processor: {cpu}, {n_cores} cores, {memory}\n\
         - load before: {load}\n- system: {system}\n- compiler: {rustc}\n",
        record.date, record.device, record.revision
    )
}

/// What the paper reports and what differs.
fn around(figure: &Figure) -> String {
    let mut text = String::new();
    if !figure.paper.is_empty() {
        text.push_str("Reported by the paper, on its own machines:\n\n");
    }
    for sentence in &figure.paper {
        text.push_str(&format!("- {sentence}\n"));
    }
    if !figure.published.is_empty() {
        text.push_str("\nReported by others, on other machines:\n\n");
        text.push_str("| who | metric | value | source |\n|---|---|---|---|\n");
    }
    for row in &figure.published {
        let (who, metric, value) = (&row.who, &row.metric, shown(row.value));
        text.push_str(&format!(
            "| {who} | {metric} | {value} | {} |\n",
            row.source
        ));
    }
    text.push('\n');
    for sentence in &figure.here {
        text.push_str(&format!("- here: {sentence}\n"));
    }
    for peer in &figure.not_run {
        text.push_str(&format!("- not run: {peer}\n"));
    }
    text
}
