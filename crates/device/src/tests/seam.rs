//! The seam itself: memory, order, argument lists, graphs, faults.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{devices, gpus, scale};
use crate::{Arg, Buffer, Device, DeviceKind, ErrorKind, Launch, Scalar, Timer};

fn comes_back<T: Scalar>(device: &Device, values: &[T]) {
    let mut buffer = device.upload(values).unwrap();
    assert_eq!(buffer.len(), values.len());
    assert_eq!(device.download(&buffer).unwrap(), values);
    let other = device.zeros::<T>(values.len()).unwrap();
    assert_eq!(
        device.download(&other).unwrap(),
        vec![T::default(); values.len()]
    );
    device.copy(&other, &mut buffer).unwrap();
    assert_eq!(
        device.download(&buffer).unwrap(),
        vec![T::default(); values.len()]
    );
    device.write(values, &mut buffer).unwrap();
    assert_eq!(device.download(&buffer).unwrap(), values);
    device.clear(&mut buffer).unwrap();
    assert_eq!(
        device.download(&buffer).unwrap(),
        vec![T::default(); values.len()]
    );
}

proptest! {
    /// Bytes survive the way to the device and back, for every scalar type and length.
    #[test]
    fn memory_keeps_values(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for device in devices() {
            comes_back(&device, &bytes);
            comes_back(&device, &bytes.iter().map(|&b| u32::from(b) << 20).collect::<Vec<_>>());
            comes_back(&device, &bytes.iter().map(|&b| i32::from(b) - 128).collect::<Vec<_>>());
            comes_back(&device, &bytes.iter().map(|&b| u64::from(b) << 50).collect::<Vec<_>>());
            comes_back(&device, &bytes.iter().map(|&b| u16::from(b)).collect::<Vec<_>>());
            comes_back(&device, &bytes.iter().map(|&b| f32::from(b)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn wrong_argument_lists_are_refused() {
    for device in gpus() {
        let x = device.upload(&[1.0, 2.0]).unwrap();
        let mut y = device.zeros::<f32>(2).unwrap();
        let mut integers = device.zeros::<u32>(2).unwrap();
        let launch = |name: &str, args: &[Arg<'_>]| {
            // SAFETY: every launch here is refused before anything runs.
            unsafe { device.launch(name, Launch::threads(2, 32), args) }
        };
        let lists: [&[Arg<'_>]; 4] = [
            &[],
            &[Arg::u64(2), Arg::f32(2.0), Arg::read(&x)],
            &[Arg::u32(2), Arg::f32(2.0), Arg::read(&x), Arg::read(&y)],
            &[
                Arg::u64(2),
                Arg::f32(2.0),
                Arg::read(&x),
                Arg::write(&mut integers),
            ],
        ];
        for args in lists {
            let error = launch("scale_fwd", args).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Arguments { .. }),
                "{error}"
            );
        }
        let error = launch("scale_forward", &[]).unwrap_err();
        assert!(error.to_string().contains("scale_forward"), "{error}");
        let host = Device::host().upload(&[1.0, 2.0]).unwrap();
        let args = [
            Arg::u64(2),
            Arg::f32(2.0),
            Arg::read(&host),
            Arg::write(&mut y),
        ];
        let error = launch("scale_fwd", &args).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::OtherDevice { .. }),
            "{error}"
        );
    }
}

#[test]
fn streams_do_not_mix_buffers_and_events_order_them() {
    for device in gpus() {
        let other = device.new_stream().unwrap();
        let x = device.upload(&[1.0, 2.0]).unwrap();
        let event = device.record().unwrap();
        other.wait(&event).unwrap();
        let error = other.download(&x).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::OtherDevice { .. }),
            "{error}"
        );
        let later = device.record().unwrap();
        assert!(later.elapsed_ms(&event).unwrap() >= 0.0);
        assert_eq!(device.download(&x).unwrap(), [1.0, 2.0]);
    }
}

/// A number that one back end knows as an event means something else to another.
#[test]
fn events_of_another_device_are_refused() {
    let mut devices = devices();
    devices.extend(super::emulated()); // opened again: another machine
    for (i, device) in devices.iter().enumerate() {
        let event = device.record().unwrap();
        for (k, other) in devices.iter().enumerate() {
            if i == k || device.kind() == DeviceKind::Host {
                continue; // what the host has marked is done
            }
            let error = other.wait(&event).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::OtherDevice { .. }),
                "{error}"
            );
            assert!(other.record().unwrap().elapsed_ms(&event).is_err());
        }
    }
}

/// A reader's work is given and not done: the owner drops or overwrites its buffer, and the reader still gets what was there.
#[test]
fn readers_keep_what_they_read() {
    for device in gpus() {
        let reader = device.new_stream().unwrap();
        for is_dropped in [true, false] {
            let own = Arc::new(device.upload(&[1.0f32; 64]).unwrap());
            let published = device.publish(Arc::clone(&own)).unwrap();
            let mut sum = reader.zeros(64).unwrap();
            reader
                .peer_sum(&[published.clone(), published], 0, &mut sum)
                .unwrap();
            let mut own = Arc::try_unwrap(own).expect("the reader has dropped its part");
            if is_dropped {
                drop(own);
                own = device.upload(&[7.0; 64]).unwrap(); // likely where the old one was
            } else {
                device.write(&[7.0; 64], &mut own).unwrap();
            }
            assert_eq!(device.download(&own).unwrap(), [7.0; 64]);
            assert_eq!(reader.download(&sum).unwrap(), [2.0; 64]);
        }
    }
}

/// What is published on a stream has not happened yet when a peer reads it.
#[test]
fn readers_wait_for_what_is_published() {
    for device in gpus() {
        let reader = device.new_stream().unwrap();
        let x = device.upload(&[1.5f32; 40]).unwrap();
        let mut doubled = device.zeros(40).unwrap();
        scale(&device, 2.0, &x, &mut doubled).unwrap();
        let published = device.publish(Arc::new(doubled)).unwrap();
        let (mut gathered, mut exact) = (reader.zeros(80).unwrap(), reader.zeros(40).unwrap());
        let parts = [published.clone(), published];
        reader.peer_gather(&parts, &mut gathered).unwrap();
        reader.peer_exact_sum(&parts, &mut exact).unwrap();
        assert_eq!(reader.download(&gathered).unwrap(), [3.0; 80]);
        assert_eq!(reader.download(&exact).unwrap(), [6.0; 40]);
    }
}

/// Nothing but launches while a thread records; afterwards, also after an error or a panic, everything again.
#[test]
fn a_capture_ends_however_it_ends() {
    for device in gpus() {
        let failed = device.capture(&[], || device.synchronize());
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("only launches"), "{error}");
        let uploaded = device.capture(&[], || device.upload(&[1.0]).map(drop));
        assert!(uploaded.is_err());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            device.capture(&[], || panic!("planted"))
        }));
        assert!(panicked.is_err());
        assert_eq!(
            device.download(&device.upload(&[5.0]).unwrap()).unwrap(),
            [5.0]
        );
        assert!(device.capture(&["no_such_kernel"], || Ok(())).is_err());
    }
}

#[test]
fn a_graph_repeats_its_launches() {
    for device in gpus() {
        let x = device.upload(&[1.5, -2.0, 8.0]).unwrap();
        let (mut y, mut z) = (device.zeros(3).unwrap(), device.zeros(3).unwrap());
        let graph = device
            .capture(&["scale_fwd"], || {
                scale(&device, 2.0, &x, &mut y)?;
                scale(&device, 2.0, &y, &mut z)
            })
            .unwrap();
        assert_eq!(
            device.download(&z).unwrap(),
            [0.0; 3],
            "a capture runs nothing"
        );
        let before = device.n_launches();
        graph.launch().unwrap();
        assert_eq!(device.n_launches() - before, 1);
        assert_eq!(device.download(&z).unwrap(), [6.0, -8.0, 32.0]);
    }
}

/// Buffers that are dropped inside of a capture or after it stay where the launches find them; clears and copies are recorded.
#[test]
fn a_graph_keeps_its_memory() {
    for device in gpus() {
        let mut x = device.upload(&[1.0; 700]).unwrap();
        let mut y = device.zeros(700).unwrap();
        let graph = device
            .capture(&[], || {
                let (mut cleared, mut doubled) = (device.zeros(700)?, device.allocate(700)?);
                scale(&device, 2.0, &x, &mut doubled)?;
                device.copy(&doubled, &mut cleared)?;
                device.clear(&mut doubled)?;
                scale(&device, 2.0, &cleared, &mut y)
            })
            .unwrap();
        for n in 1..4 {
            // Memory that was given back would be taken again by these.
            let others: Vec<_> = (0..8).map(|_| device.upload(&[9.0; 700])).collect();
            device.write(&[n as f32; 700], &mut x).unwrap();
            graph.launch().unwrap();
            assert_eq!(device.download(&y).unwrap(), [4.0 * n as f32; 700]);
            assert!(others.iter().all(Result::is_ok));
        }
        drop(x);
        let other = device.upload(&[7.0; 700]).unwrap();
        graph.launch().unwrap();
        assert_eq!(device.download(&y).unwrap(), [12.0; 700]);
        assert_eq!(device.download(&other).unwrap(), [7.0; 700]);
        // Its stream stays the one that the launches are of.
        let stream = device.new_stream().unwrap();
        assert!(stream.adopt(&mut y).is_err());
        drop(graph);
        stream.adopt(&mut y).unwrap();
    }
}

#[test]
fn bytes_that_are_held_are_counted() {
    for device in gpus() {
        let device = device.new_stream().unwrap();
        let x: Buffer = device.zeros(10).unwrap();
        assert_eq!((device.held_bytes(), device.take_peak_bytes()), (40, 40));
        let y = device.upload(&[1u64, 2]).unwrap();
        let arena = device.arena(64).unwrap();
        let mut places = arena.places(std::slice::from_ref(&(0..32))).unwrap();
        let part = places.take(0).unwrap();
        assert_eq!(device.held_bytes(), 56 + 256);
        drop((arena, places, y));
        assert_eq!(device.held_bytes(), 40 + 256, "a part keeps its arena");
        drop((part, x));
        assert_eq!((device.held_bytes(), device.take_peak_bytes()), (0, 312));
        assert_eq!(device.take_peak_bytes(), 0);
    }
}

/// What a stream for copies takes and moves counts with the stream beside it, and so does what was given back while
/// another stream may take more.
#[test]
fn a_stream_for_copies_counts_with_the_one_beside_it() {
    for device in gpus() {
        let kind = device.kind();
        for device in [device.new_stream().unwrap(), Device::dry_run(kind).unwrap()] {
            let copies = device.copy_stream().unwrap();
            let before = device.traffic().to_device_bytes;
            let mut x = copies.upload(&[1.0f32; 10]).unwrap();
            assert_eq!([&device, &copies].map(Device::held_bytes), [40, 40]);
            assert_eq!(device.traffic().to_device_bytes - before, 40);
            assert!(!device.owns(&x));
            device.adopt(&mut x).unwrap();
            assert!(device.owns(&x));
            let (y, kept) = device.keep_peak(|| {
                let work: Buffer = device.zeros(100).unwrap();
                let y: Buffer = device.zeros(10).unwrap();
                drop(work);
                y
            });
            let z: Buffer = copies.zeros(20).unwrap();
            assert_eq!(device.held_bytes(), 40 + 440 + 80);
            drop(kept);
            assert_eq!(device.held_bytes(), 40 + 40 + 80);
            drop((x, y, z));
            assert_eq!((device.held_bytes(), device.take_peak_bytes()), (0, 560));
        }
    }
}

/// The work of the test above without the device: its peak, and not a byte of its own.
#[test]
fn a_dry_run_holds_what_the_device_would() {
    for device in gpus() {
        let work = |device: &Device| {
            let x = device.upload(&[2.0f32; 1000]).unwrap();
            let mut y = device.zeros(1000).unwrap();
            scale(device, 3.0, &x, &mut y).unwrap();
            drop(x);
            let z: Buffer<u64> = device.allocate(300).unwrap();
            device.synchronize().unwrap();
            (device.download(&y).unwrap(), z.len())
        };
        let (real, dry) = (
            device.new_stream().unwrap(),
            Device::dry_run(device.kind()).unwrap(),
        );
        let (found, _) = work(&real);
        assert_eq!(found, [6.0; 1000]);
        let (found, _) = work(&dry);
        assert_eq!(found, [0.0; 1000]);
        assert_eq!(real.take_peak_bytes(), 8000);
        assert_eq!(dry.take_peak_bytes(), 8000);
        assert_eq!((dry.kind(), dry.held_bytes()), (device.kind(), 0));
        let mut foreign: Buffer = device.zeros(1000).unwrap();
        let x: Buffer = dry.zeros(1000).unwrap();
        assert!(dry.copy(&x, &mut foreign).is_err());
        assert!(dry.capture(&[], || Ok(())).is_err());
    }
    assert!(Device::dry_run(DeviceKind::Host).is_err());
    assert!(
        Device::dry_run(DeviceKind::Cuda(7))
            .unwrap()
            .zeros::<f32>(9)
            .is_ok()
    );
}

#[test]
fn free_bytes_are_known_where_the_system_says() {
    for device in devices() {
        match (device.kind(), crate::free_host_bytes()) {
            (DeviceKind::Cuda(_), _) | (_, Some(_)) => {
                assert!(device.free_bytes().unwrap().unwrap() > 0);
            }
            (_, None) => assert_eq!(device.free_bytes().unwrap(), None),
        }
    }
}

/// Rows go from any device to any other.
#[test]
fn a_buffer_is_copied_from_another_device() {
    let values = [0.5f32, -7.0, 3.25];
    for source in devices() {
        let x = source.upload(&values).unwrap();
        for target in devices() {
            let copied = target.copy_from(&source, &x).unwrap();
            assert!(target.owns(&copied));
            assert_eq!(target.download(&copied).unwrap(), values);
        }
    }
}

/// The k-th allocation fails, for every k: an error that names the bytes, and the device goes on.
#[test]
fn running_out_of_memory_is_an_error() {
    for device in gpus() {
        for k in 0..3 {
            let failing = device.failing_at_allocation(k);
            let outcomes: Vec<_> = (0..3).map(|_| failing.upload(&[1.0, 2.0, 3.0])).collect();
            for (i, outcome) in outcomes.iter().enumerate() {
                match outcome {
                    Ok(buffer) => assert_eq!(failing.download(buffer).unwrap(), [1.0, 2.0, 3.0]),
                    Err(error) => {
                        assert_eq!(i as u64, k);
                        let wanted =
                            matches!(error.kind(), ErrorKind::OutOfMemory { wanted: 12, .. });
                        assert!(wanted, "{error}");
                    }
                }
            }
            assert_eq!(
                outcomes.iter().filter(|outcome| outcome.is_err()).count(),
                1
            );
        }
        assert!(device.zeros::<u64>(usize::MAX / 2).is_err());
        assert_eq!(
            device.download(&device.upload(&[5.0]).unwrap()).unwrap(),
            [5.0]
        );
    }
}

#[test]
fn what_is_not_there_is_a_value() {
    let error = Device::emulated(std::path::Path::new("no/such/library.so")).unwrap_err();
    assert!(error.is_missing_device());
    assert!(error.to_string().contains("cuemu-build plain"), "{error}");
    match Device::open(DeviceKind::Cuda(4_000_000_000)) {
        Ok(_) => panic!("no machine has that many GPUs"),
        Err(error) => assert!(error.is_missing_device(), "{error}"),
    }
}

#[test]
fn missing_devices_are_errors_with_a_sentence() {
    assert_eq!("cuda:3".parse(), Ok(DeviceKind::Cuda(3)));
    assert_eq!(
        Device::open(DeviceKind::Host).unwrap().kind(),
        DeviceKind::Host
    );
    let name = "cuda:4000000000";
    let error = Device::open(name.parse().unwrap()).unwrap_err();
    let sentence = format!("device `{name}` is not available: ");
    assert!(error.is_missing_device() && error.to_string().starts_with(&sentence));
    for name in ["gpu", "cuda:", "cuda:x", ""] {
        let error = name.parse::<DeviceKind>().unwrap_err();
        assert!(!error.is_missing_device() && error.to_string().contains("expected host"));
    }
}

/// A wait is an error once it has taken as long as it may.
#[test]
fn timeouts_name_device_and_seconds() {
    let timeout = crate::gpu::Timeout::default();
    let (ten_minutes, second) = (Duration::from_secs(600), Duration::from_secs(1));
    assert_eq!(
        timeout.check(ten_minutes - second, DeviceKind::Emulated),
        Ok(())
    );
    let message = |waited| {
        timeout
            .check(waited, DeviceKind::Cuda(1))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        message(ten_minutes),
        "device `cuda:1` did not finish within 600 s"
    );
    timeout.set(2 * second);
    assert_eq!(
        message(2 * second),
        "device `cuda:1` did not finish within 2 s"
    );
}

/// A time of work that failed is an error, not a number.
#[test]
fn a_timer_passes_the_device_s_error_on() {
    for device in gpus() {
        assert!(Timer::start(&device).finish_s().unwrap() >= 0.0);
        let failed = device.capture(&[], || Timer::start(&device).finish_s().map(drop));
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("only launches"), "{error}");
    }
}
