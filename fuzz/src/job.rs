//! The files of a run's folder: whatever is accepted is written and read again, and what is cut back once stays as it is.

use std::fs;

use shardgraph_job::{Checkpoint, Folder, read_scalars};

use crate::bytes::scratch;

/// As a MANIFEST with two empty files beside it, as a JSON and a tensor file, and as a checkpoint that another rank sent.
///
/// # Panics
/// When a rule is broken.
pub fn checkpoint(data: &[u8]) {
    let folder = scratch("checkpoints");
    let target = folder.join("checkpoint-0000000003");
    fs::create_dir_all(&target).expect("room for a folder");
    // As it is, and with a seal that fits, behind which the lines are read.
    for manifest in [data.to_vec(), sealed(data)] {
        for (name, bytes) in [("a", &[][..]), ("b", &[]), ("MANIFEST", &manifest)] {
            fs::write(target.join(name), bytes).expect("room for a file");
        }
        match Checkpoint::newest(&folder, &["a"]) {
            Ok(found) => assert_eq!(
                found.expect("it has a MANIFEST").file("a").ok(),
                Some(&[][..])
            ),
            Err(error) => assert!(error.to_string().contains(&target.display().to_string())),
        }
    }

    let mut checkpoint = Checkpoint::new(3);
    checkpoint.add("file", data.to_vec()).expect("a name");
    let again = Checkpoint::from_bytes(&checkpoint.to_bytes()).expect("its own bytes");
    assert_eq!(again, checkpoint);
    if let Ok(tensors) = checkpoint.tensors("file") {
        let bytes = tensors.to_bytes().expect("tensors that were read");
        shardgraph_job::Tensors::from_bytes(&bytes).expect("tensors that were written");
    }
    if let Ok(received) = Checkpoint::from_bytes(data) {
        assert!(received.to_bytes() == data, "the same bytes");
    }
}

/// Lines of a MANIFEST with the hash that ends it.
fn sealed(lines: &[u8]) -> Vec<u8> {
    let hash = shardgraph_storage::hash(&[&b"checkpoint-0000000003"[..], lines].concat());
    let seal = format!("{{\"manifest_xxh3\":\"{hash:016x}\"}}\n");
    [lines, seal.as_bytes()].concat()
}

/// As both files of the metrics of a run that goes on from its step 3.
///
/// # Panics
/// When a rule is broken.
pub fn metrics(data: &[u8]) {
    let folder = scratch("metrics");
    let _ = fs::remove_dir_all(&folder); // of the input before
    let run = Folder::of_new_run(&folder, &[], &[]).expect("a new folder");
    let metrics = run.open_metrics(1e9).expect("room for files");
    run.write_checkpoint(&Checkpoint::new(3), &metrics)
        .expect("room for a checkpoint");
    let events = metrics.events_path().to_owned();
    let header = fs::read(&events).expect("the event file");
    drop((run, metrics));

    let lines = folder.join("metrics.jsonl");
    fs::write(&lines, data).expect("room for a file");
    fs::write(&events, [&header, data].concat()).expect("room for a file");
    let (run, _) = Folder::of_old_run(&folder, &[]).expect("its checkpoint");
    let read = || [&lines, &events].map(|path| fs::read(path).expect("both files"));
    run.open_metrics(2e9).expect("room for files");
    let once = read();
    assert!(once[0].len() <= data.len() && once[1].len() <= header.len() + data.len());
    let scalars = read_scalars(&events).expect("what was kept is whole");
    assert!(scalars.iter().all(|scalar| scalar.step <= 3));
    drop(run);
    let (run, _) = Folder::of_old_run(&folder, &[]).expect("its checkpoint");
    run.open_metrics(3e9).expect("room for files");
    assert!(read() == once, "cut back twice is cut back once");
}
