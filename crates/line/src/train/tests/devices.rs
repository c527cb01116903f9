//! Training on a device: communities are told apart, edges go there once, and queues change no bit.

use super::{context, directed, purity, small, two_communities};
use crate::kernels::sgns::{AliasTable, EdgeList};
use crate::train::context::OrderContext;
use crate::train::tests_on_disk::{Folder, room_for};
use crate::train::*;
use crate::{DeviceMemory, ImportOptions, Order, Precision, import_file};
use shardgraph_device::nccl::Library;

/// Edges of weights 1 to 7 in two parts.
fn two_weighted_communities() -> Store {
    let folder = tempfile::tempdir().unwrap();
    let (text, path) = (folder.path().join("g.txt"), folder.path().join("g.store"));
    let lines = (0..300).map(|k| format!("{} {} {}\n", k % 20, (k * 7 + 1) % 20, 1 + k % 7));
    std::fs::write(&text, lines.collect::<String>()).unwrap();
    let options = ImportOptions {
        weighted: true,
        parts: Some(2),
        ..ImportOptions::default()
    };
    import_file(&text, &path, &options).unwrap();
    Store::open(&path).unwrap()
}

/// The emulated device, if this machine has one.
fn emulated() -> Option<Device> {
    let library = shardgraph_cuemu::library();
    if library.is_none() {
        let reason = shardgraph_cuemu::SKIP_REASON;
        println!("SKIPPED: LINE on an emulated device: {reason}");
    }
    library.map(|library| Device::emulated(&library).unwrap())
}

/// A run for it.
fn for_device(order: Order, queues: usize) -> Config {
    Config {
        queues,
        queue_length: 1,
        threads: 3,
        epochs: 30,
        learning_rate: Some(0.1),
        dim: 8,
        ..small(order)
    }
}

/// The device's queues and streams on small graphs.
#[test]
fn a_device_tells_communities_apart_too() {
    let Some(device) = emulated() else { return };
    let store = two_communities(60, 4);
    for (order, queues, edges_in_flight) in [
        (Order::First, 1, None),
        (Order::First, 2, Some(8)),
        (Order::Second, 2, None),
        (Order::Second, 3, Some(3)),
    ] {
        let config = Config {
            edges_in_flight,
            ..for_device(order, queues)
        };
        let trained = train(&store, &config, &device, &mut |_| {}).unwrap();
        let found = purity(&trained.embedding, 60);
        assert!(found > 0.8, "{config:?}: {found}");
        assert!(trained.work.preparation_s > 0.0);
    }
}

/// Buckets stay on the device: more passes send no byte more, and the rows are those of edges that are
/// sent on each pass.
#[test]
fn edges_go_to_the_device_once() {
    let Some(device) = emulated() else { return };
    let weighted = two_weighted_communities();
    let (store, directed) = (two_communities(60, 4), directed(&[(0, 1), (1, 2), (2, 3)]));
    for (store, order, queues) in [
        (&store, Order::First, 1),
        (&store, Order::Both, 1),
        (&store, Order::Both, 3),
        (&directed, Order::Second, 2),
        (&weighted, Order::Both, 2),
    ] {
        let of = |epochs, device_memory| {
            let config = Config {
                epochs,
                device_memory,
                edges_in_flight: Some(queues as u32), // one a stream: the bits are those of their order
                ..for_device(order, queues)
            };
            train(store, &config, &device, &mut |_| {}).unwrap()
        };
        let bytes = |epochs, device_memory| of(epochs, device_memory).work.to_device_bytes;
        let memory = DeviceMemory::new(0, &for_device(order, queues));
        let least = Some(memory.needed(store, None));
        let once = bytes(1, None);
        assert_eq!(bytes(3, None), once, "{order:?}");
        // Nothing is left for edges beside the tables: each pass of each order sends all.
        let n_orders = order.each().len() as u64;
        let all = EdgeList::bytes_of(store.n_edges(), store.is_weighted());
        let negatives = queues as u64 * AliasTable::bytes_of(store.n_nodes().into());
        assert_eq!(once, all + negatives, "{order:?}");
        assert_eq!(bytes(3, least), 3 * n_orders * all + negatives);
        if order != Order::Both || queues == 1 {
            let (stay, come) = (of(3, None).embedding, of(3, least).embedding);
            assert!(stay == come, "{order:?}");
        }
    }
}

/// The edges of the next bucket come on a stream of their own: what comes there does not wait for the kernels of the bucket before.
#[test]
fn edges_come_beside_the_kernels() {
    let Some(device) = emulated() else { return };
    let (store, config) = (two_communities(60, 2), for_device(Order::Second, 1));
    let devices = RankDevices::open(&device, &config).unwrap();
    let run = RunContext {
        device: &device,
        devices: &devices,
        ..context(&store, &config, &device)
    };
    let (streams, clock) = (run.streams().unwrap(), Clock::default());
    let order = OrderContext::new(run, 2, &streams, &clock).unwrap();
    let [stream] = &streams[..] else {
        panic!("one rank with one queue")
    };
    let sent = |of: &Device| of.traffic().to_device_bytes;
    let before = sent(&stream.device);
    let step = order.planner.pass(0).next().unwrap();
    let mut passes = step.jobs().flat_map(|job| &job.bucket_passes);
    let bucket = order.bucket(*passes.next().unwrap()).unwrap();
    let bytes = 8 * bucket.pairs.len() as u64;
    let edges = order.upload(stream, bucket).unwrap().list;
    assert_eq!((sent(&stream.copies), bytes > 0), (bytes, true));
    assert_eq!(sent(&stream.device), before);
    // The training stream has them, behind their copy.
    let permuted = edges.permuted(&stream.device, 7).unwrap();
    assert_eq!(permuted.len(), edges.len());
    stream.device.synchronize().unwrap();
}

/// Rows come from files into the device's memory and go back: with room for all the bits are those of memory.
#[test]
fn rows_go_between_files_and_a_device() {
    let Some(device) = emulated() else { return };
    let store = two_communities(64, 8);
    let config = Config {
        mode: Some(Mode::Deterministic),
        epochs: 12,
        ..for_device(Order::Second, 1)
    };
    let place = Folder::new();
    let of = |disk: &DiskOptions| {
        let trained = place.train_on(&device, &store, &config, disk, &mut |_| {});
        (trained.unwrap().disk.read_bytes, place.answer())
    };
    let whole = DiskOptions::default();
    let in_memory = train(&store, &config, &device, &mut |_| {}).unwrap();
    assert!(of(&whole) == (0, in_memory.embedding));
    let (read_bytes, rows) = of(&room_for(4, &store, &config));
    assert!(read_bytes > 0);
    let found = purity(&rows, 64);
    assert!(found > 0.8, "{found}");
}

/// As many buckets stay as there is room for, and the others come on each pass.
#[test]
fn what_does_not_fit_comes_on_each_pass() {
    let Some(device) = emulated() else { return };
    let store = two_communities(60, 4);
    let config = Config {
        edges_in_flight: Some(1),
        ..for_device(Order::Second, 1)
    };
    let of = |device_memory| {
        let config = Config {
            epochs: 2,
            device_memory,
            ..config.clone()
        };
        train(&store, &config, &device, &mut |_| {}).unwrap()
    };
    let all = store.n_edges() * 8;
    let negatives = u64::from(store.n_nodes()) * 8;
    let needed = DeviceMemory::new(0, &config).needed(&store, None);
    let some = of(Some(needed + all / 2));
    let sent = some.work.to_device_bytes - negatives;
    assert!(all * 3 / 2 <= sent && sent < 2 * all, "{sent} of {all}");
    assert!(some.embedding == of(None).embedding);
    let config = Config {
        device_memory: Some(needed - 1),
        ..config
    };
    let error = train(&store, &config, &device, &mut |_| {}).unwrap_err();
    let message = format!(
        "take {needed} bytes of the device's memory, {} are there",
        needed - 1
    );
    assert!(error.to_string().contains(&message), "{error}");
}

/// Several devices exchange parts: with batches the bits of one device, and of one sample at a time in
/// each queue too. Vertex parts of order 2 stay where they are.
#[test]
fn ranks_give_the_rows_of_one_device() {
    let Some(device) = emulated() else { return };
    let store = two_communities(64, 4);
    for (order, mode) in [
        (Order::Both, Mode::Deterministic),
        (Order::First, Mode::Hogwild),
        (Order::Second, Mode::Hogwild),
    ] {
        let of = |ranks, queues| {
            let config = Config {
                ranks,
                epochs: 3,
                mode: Some(mode),
                edges_in_flight: Some(ranks * queues as u32),
                ..for_device(order, queues)
            };
            train(&store, &config, &device, &mut |_| {}).unwrap()
        };
        let one = of(1, 1);
        assert_eq!(one.work.exchanged_bytes, 0);
        for (ranks, queues) in [(2, 1), (3, 1), (4, 2)] {
            let several = of(ranks, queues);
            assert!(several.embedding == one.embedding, "{order:?} {ranks}");
            assert!(several.work.exchanged_bytes > 0);
        }
        // A rank has one vertex part: of each of 4 * 4 pairs of a pass at most the context comes, and at
        // the beginning the vertex part.
        if order == Order::Second {
            let part = 16 * 8 * 4;
            let most = (3 * 16 + 4) * part;
            assert!(of(4, 1).work.exchanged_bytes <= most);
        }
    }
}

/// Through NCCL ranks exchange the same rows as by copies, to the same bits; a fault of it ends the run.
#[test]
fn ranks_exchange_through_nccl_too() {
    let Some(device) = emulated() else { return };
    let Some(original) = shardgraph_cuemu::collectives() else {
        println!("SKIPPED: LINE over NCCL: no emulated library of collectives");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let planted = |fault: &str| {
        let path = folder.path().join(format!("libnccl-{fault}-.so"));
        if !path.exists() {
            // What is open is not written over.
            std::fs::copy(&original, &path).unwrap();
        }
        device.using_nccl(&Library::open(Some(&path)).unwrap())
    };
    let store = two_communities(64, 4);
    for (order, precision) in [
        (Order::Both, Precision::Fp32),
        (Order::Second, Precision::Fp16),
    ] {
        let of = |device: &Device, ranks, queues| {
            let config = Config {
                ranks,
                precision,
                epochs: 2,
                mode: Some(Mode::Deterministic),
                ..for_device(order, queues)
            };
            train(&store, &config, device, &mut |_| {})
        };
        let one = of(&planted("none"), 1, 1).unwrap();
        for (ranks, queues) in [(2, 1), (3, 2), (4, 1)] {
            let through_nccl = of(&planted("none"), ranks, queues).unwrap();
            assert!(through_nccl.embedding == one.embedding, "{order:?} {ranks}");
            let by_copies = of(&device, ranks, queues).unwrap();
            let exchanged = [&through_nccl, &by_copies].map(|run| run.work.exchanged_bytes);
            assert!(
                exchanged[0] > 0 && exchanged[0] == exchanged[1],
                "{exchanged:?}"
            );
        }
        for (fault, text) in [
            ("no-id", "system error (status 2)"),
            ("init-fails", "joining a group of 2 ranks"),
            ("refuses-at-3", "transfer of"),
            ("error-at-5", "transfer of"),
        ] {
            let error = of(&planted(fault), 2, 1).unwrap_err();
            assert!(matches!(error, Error::Device(_)), "{fault}: {error}");
            assert!(error.to_string().contains(text), "{fault}: {error}");
        }
    }
}

/// Edges stay on the ranks' devices: none goes to one twice.
#[test]
fn edges_stay_on_the_devices_of_ranks() {
    let Some(device) = emulated() else { return };
    let store = two_communities(64, 4);
    let bytes = |epochs| {
        let config = Config {
            epochs,
            ranks: 2,
            ..for_device(Order::Second, 1)
        };
        let trained = train(&store, &config, &device, &mut |_| {}).unwrap();
        (trained.work.to_device_bytes, trained.work.exchanged_bytes)
    };
    // Rows go through the host from one emulated device to another.
    let ((two, rows_of_two), (four, rows_of_four)) = (bytes(2), bytes(4));
    assert_eq!(four - two, rows_of_four - rows_of_two);
}

/// Batches summed up row by row give the same bits for any number of queues and threads.
#[test]
fn queues_change_nothing_in_the_deterministic_mode_of_a_device() {
    let Some(device) = emulated() else { return };
    let store = two_communities(60, 4);
    let of = |queues, threads| {
        let config = Config {
            epochs: 1,
            mode: Some(Mode::Deterministic),
            threads,
            ..for_device(Order::Both, queues)
        };
        let trained = train(&store, &config, &device, &mut |_| {});
        trained.unwrap().embedding
    };
    assert!(of(1, 3) == of(3, 6));
}

#[test]
fn what_a_device_has_not_is_refused() {
    let Some(device) = emulated() else { return };
    let store = two_communities(20, 1);
    let refused = |config: Config| {
        let error = train(&store, &config, &device, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Setting(_)), "{error}");
        error.to_string()
    };
    let message = refused(Config {
        optimiser: Optimiser::Adagrad,
        ..small(Order::First)
    });
    assert!(message.starts_with("optimiser = adagrad"), "{message}");
    let message = refused(Config {
        edges_in_flight: Some(2),
        ..for_device(Order::First, 3)
    });
    let reason = "edges_in_flight = 2: expected 3 or more";
    assert!(message.starts_with(reason), "{message}");
}
