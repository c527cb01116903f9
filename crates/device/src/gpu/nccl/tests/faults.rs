//! What is planted, missing or wrong ends every wait, with an error that names the operation.

use std::path::Path;
use std::time::Duration;

use super::super::call::Call;
use super::super::group::broken as failed;
use super::super::{Group, Library, Member, Probe};
use super::{PATIENT, Planted, SHORT, World, on_threads};
use crate::{Buffer, Device, Error, ErrorKind, Timer};

/// The error of each rank, which has to be one of a group.
fn broken<R: std::fmt::Debug>(results: Vec<Result<R, Error>>) -> Vec<String> {
    let text = |result: Result<R, Error>| {
        let error = result.unwrap_err();
        assert!(error.is_lost_rank(), "{error}");
        error.to_string()
    };
    results.into_iter().map(text).collect()
}

fn one_sum(device: &Device, group: &Group, deadline: Duration) -> Result<Vec<f32>, Error> {
    let own: Buffer = device.upload(&[1.0; 10])?;
    let sum = group.all_reduce(&own, deadline)?;
    device.download(&sum)
}

#[test]
fn what_is_missing_or_too_old_is_said() {
    let error = Library::open(Some(Path::new("no/such/libnccl.so.2"))).unwrap_err();
    assert!(error.is_missing_device(), "{error}");
    assert!(error.to_string().contains("--nccl-library"), "{error}");
    if let Some(planted) = Planted::new("version-21205") {
        let error = planted.open().unwrap_err();
        assert!(error.is_missing_device(), "{error}");
        assert!(error.to_string().contains("2.12.5"), "{error}");
        assert!(error.to_string().contains("2.18.0"), "{error}");
    }
    if let Some(emulator) = shardgraph_cuemu::library() {
        let error = Library::open(Some(&emulator)).unwrap_err();
        assert!(error.is_missing_device(), "{error}");
        assert!(error.to_string().contains("ncclGetVersion"), "{error}");
    }
    if let Some(planted) = Planted::new("no-id") {
        let error = planted.open().unwrap().unique_id().unwrap_err().to_string();
        assert!(error.contains("system error (status 2)"), "{error}");
    }
}

#[test]
fn a_group_is_not_for_every_device() {
    let Some(planted) = Planted::new("none") else {
        return;
    };
    let library = planted.open().unwrap();
    let id = library.unique_id().unwrap();
    let member = Member { rank: 0, size: 1 };
    let error = Device::host()
        .join(&library, id, member, SHORT, Probe::default())
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Invalid { .. }), "{error}");
    let seeming = Planted::new("genuine").unwrap().open().unwrap();
    for (library, device) in [(&library, "host"), (&seeming, "emulated")] {
        let error = library.check_device(device.parse().unwrap()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid { .. }), "{error}");
        assert!(error.to_string().contains(device), "{error}");
    }
    let world = World::emulated(library);
    for (rank, size) in [(1, 1), (0, 0), (7, 3)] {
        let error = world.join(id, rank, size, SHORT).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid { .. }), "{error}");
    }
    let device = world.join(id, 0, 1, PATIENT).unwrap();
    assert!(device.new_stream().unwrap().group().is_none());
    let other = device.new_stream().unwrap().upload(&[1.0f32]).unwrap();
    let error = device
        .group()
        .unwrap()
        .all_reduce(&other, SHORT)
        .unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::OtherDevice { .. }),
        "{error}"
    );
}

#[test]
fn a_rank_that_does_not_join_is_a_deadline() {
    for (fault, n_came) in [("none", 2), ("init-hangs", 3)] {
        let Some(planted) = Planted::new(fault) else {
            return;
        };
        let (world, id) = (
            planted.world(),
            planted.open().unwrap().unique_id().unwrap(),
        );
        let timer = Timer::wall();
        let results = on_threads(n_came, |rank| world.join(id, rank, 3, SHORT));
        for text in broken(results) {
            assert!(
                text.contains("joining a group of 3 ranks") && text.contains("300ms"),
                "{text}"
            );
        }
        assert!(timer.elapsed() < PATIENT);
        assert_eq!(planted.n_live(), 0, "what did not come about is aborted");
    }
}

#[test]
fn a_group_that_cannot_be_is_an_error_at_once() {
    let Some(planted) = Planted::new("init-fails") else {
        return;
    };
    let results = planted.world().run(2, |_, _| Ok(()));
    for text in broken(results) {
        assert!(
            text.contains("unhandled system error (status 2): planted"),
            "{text}"
        );
    }
    let Some(planted) = Planted::new("none") else {
        return;
    };
    let (world, id) = (
        planted.world(),
        planted.open().unwrap().unique_id().unwrap(),
    );
    let twice = on_threads(2, |_| world.join(id, 0, 2, SHORT));
    let texts = broken(twice);
    assert!(
        texts
            .iter()
            .any(|text| text.contains("invalid usage (status 5)")),
        "{texts:?}"
    );
    assert_eq!(planted.n_live(), 0);
}

/// The operation, its number and the deadline are named; afterwards nothing of the group works, and nothing hangs.
#[test]
fn a_rank_that_gives_nothing_is_a_deadline() {
    let Some(planted) = Planted::new("none") else {
        return;
    };
    for world in [planted.world(), planted.world().unchecked()] {
        let results = world.run(3, |device, group| {
            one_sum(device, group, PATIENT)?;
            if group.rank() == 2 {
                std::thread::sleep(4 * SHORT); // it is there, and does not come
                return Err(failed(&Call::close(9), "late"));
            }
            let own: Buffer = device.upload(&[1.0; 10])?;
            let sum = group.all_reduce(&own, SHORT)?;
            let error = device.download(&sum).unwrap_err();
            assert_eq!(group.all_reduce(&own, SHORT).unwrap_err(), error);
            assert_eq!(device.synchronize().unwrap_err(), error);
            assert_eq!(device.download(&own).unwrap_err(), error);
            assert_eq!(group.close(SHORT).unwrap_err(), error);
            Err::<(), _>(error)
        });
        let texts = broken(results);
        for text in &texts[..2] {
            assert!(
                text.contains("#1 all_reduce of 10 f32") && text.contains("300ms"),
                "{text}"
            );
        }
        assert_eq!(planted.n_live(), 0);
    }
}

#[test]
fn an_asynchronous_error_ends_the_wait() {
    for at in 0..4 {
        let Some(planted) = Planted::new(&format!("error-at-{at}")) else {
            return;
        };
        let timer = Timer::wall();
        let results = planted.world().run(3, |device, group| {
            for _ in 0..3 {
                one_sum(device, group, PATIENT)?;
            }
            Ok(())
        });
        for text in broken(results) {
            assert!(
                text.contains(
                    "remote process exited or there was a network error (status 6): planted"
                ),
                "{text}"
            );
            assert!(text.contains(" all_reduce of 10 f32"), "{text}");
        }
        assert!(timer.elapsed() < PATIENT, "no deadline had to pass");
        assert_eq!(planted.n_live(), 0);
    }
}

#[test]
fn a_refused_call_names_itself() {
    let Some(planted) = Planted::new("refuses-at-0") else {
        return;
    };
    let results = planted
        .world()
        .run(2, |device, group| one_sum(device, group, PATIENT));
    for text in broken(results) {
        assert!(text.contains("#0 all_reduce of 10 f32: nccl"), "{text}");
        assert!(
            text.contains("invalid argument (status 4): planted"),
            "{text}"
        );
    }
    assert_eq!(planted.n_live(), 0);
}

/// An abort that does not return holds nobody up for long, and is told.
#[test]
fn an_abort_that_hangs_is_left_behind() {
    let Some(planted) = Planted::new("refuses-at-0-abort-hangs") else {
        return;
    };
    let timer = Timer::wall();
    let results = planted
        .world()
        .run(1, |device, group| one_sum(device, group, PATIENT));
    for text in broken(results) {
        assert!(
            text.contains("ncclCommAbort did not return within 5s"),
            "{text}"
        );
    }
    assert!(timer.elapsed() < PATIENT);
}

/// Ranks that ask for different things all hear what the others want, where groups are checked.
#[test]
fn ranks_that_differ_are_told_apart() {
    let Some(planted) = Planted::new("none") else {
        return;
    };
    let world = planted.world();
    let len = |group: &Group| if group.rank() == 1 { 11 } else { 10 };
    let lengths = world.run(3, |device, group| {
        let own: Buffer = device.zeros(len(group))?;
        group.all_reduce(&own, PATIENT).map(drop)
    });
    let texts = broken(lengths);
    let theirs = "ranks differ: rank 1 asks for [#0 all_reduce of 11 f32]";
    assert!(
        texts[0].contains(theirs) && texts[2].contains(theirs),
        "{texts:?}"
    );
    assert!(
        texts[1].contains("rank 0 asks for [#0 all_reduce of 10 f32]"),
        "{texts:?}"
    );
    assert_eq!(planted.n_live(), 0);
}

/// Other operations, and other counts.
#[test]
fn operations_that_differ_are_told_apart() {
    let Some(planted) = Planted::new("none") else {
        return;
    };
    let world = planted.world();
    let kinds = world.run(2, |device, group| match group.rank() {
        0 => group.all_reduce(&device.zeros(5)?, PATIENT).map(drop),
        _ => group.exact_sum(&device.zeros(5)?, 5, PATIENT).map(drop),
    });
    let texts = broken(kinds);
    assert!(
        texts[0].contains("rank 1 asks for [#0 exact_sum of 5 f32]"),
        "{texts:?}"
    );
    assert!(
        texts[1].contains("rank 0 asks for [#0 all_reduce of 5 f32]"),
        "{texts:?}"
    );
    let counts = world.run(2, |device, group| {
        let counts = if group.rank() == 0 { [1, 3] } else { [2, 2] };
        let own: Buffer = device.zeros(counts[group.rank() as usize])?;
        group.all_gather(&own, &counts, PATIENT).map(drop)
    });
    assert!(broken(counts)[0].contains("counts digest"));
    assert_eq!(planted.n_live(), 0);
}

/// Without a check, ranks that differ wait for each other until the deadline.
#[test]
fn ranks_that_differ_unseen_are_a_deadline() {
    let Some(planted) = Planted::new("none") else {
        return;
    };
    let unseen = planted.world().unchecked().run(2, |device, group| {
        let own: Buffer = device.zeros(10 + group.rank() as usize)?;
        let sum = group.all_reduce(&own, SHORT)?;
        device.download(&sum)
    });
    for text in broken(unseen) {
        assert!(text.contains("gave another operation"), "{text}");
    }
    assert_eq!(planted.n_live(), 0);
}

/// Operands that do not fit are refused before anything is given, and end the group.
#[test]
fn lengths_are_checked() {
    let Some(planted) = Planted::new("none") else {
        return;
    };
    let world = planted.world();
    type Case = fn(&Buffer, &Group) -> Result<Buffer, Error>;
    let cases: [Case; 5] = [
        |three, group| group.all_gather(three, &[2], PATIENT),
        |three, group| group.all_gather(three, &[3, 0], PATIENT),
        |three, group| group.reduce_scatter(three, &[4], PATIENT),
        |three, group| group.exact_sum(three, 2, PATIENT),
        |three, group| group.exact_sum(three, 0, PATIENT),
    ];
    for case in cases {
        let results = world.run(1, |device, group| {
            let error = case(&device.zeros(3)?, group).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Length { .. }), "{error}");
            assert_eq!(one_sum(device, group, PATIENT).unwrap_err(), error);
            Ok(())
        });
        assert_eq!(results, [Ok(())]);
    }
    assert_eq!(planted.n_live(), 0);
}

/// More blocks than integers can add.
#[test]
fn limits_are_checked() {
    let Some(planted) = Planted::new("none") else {
        return;
    };
    let world = planted.world();
    for (n_blocks, is_right) in [(1 << 15, true), ((1 << 15) + 1, false)] {
        let results = world.run(2, |device, group| {
            let own: Buffer = device.zeros(n_blocks)?;
            group.exact_sum(&own, 1, PATIENT).map(drop)?;
            group.close(PATIENT)
        });
        for result in results {
            assert_eq!(result.is_ok(), is_right, "{n_blocks} blocks: {result:?}");
        }
    }
    assert_eq!(planted.n_live(), 0);
}

/// A closed group's results stay, its operations do not; a rank that does not close is a deadline for the others.
#[test]
fn groups_end_together() {
    let Some(planted) = Planted::new("none") else {
        return;
    };
    let world = planted.world();
    let results = world.run(2, |device, group| {
        let own: Buffer = device.upload(&[1.0; 4])?;
        let sum = group.all_reduce(&own, PATIENT)?;
        group.close(PATIENT)?;
        assert!(
            group
                .all_reduce(&own, PATIENT)
                .unwrap_err()
                .to_string()
                .contains("has been closed")
        );
        assert!(group.close(PATIENT).is_err());
        device.download(&sum)
    });
    assert_eq!(results, [Ok(vec![2.0; 4]), Ok(vec![2.0; 4])]);
    let results = world.run(2, |device, group| {
        one_sum(device, group, PATIENT)?;
        match group.rank() {
            0 => group.close(SHORT),
            _ => {
                std::thread::sleep(4 * SHORT);
                Err(failed(&Call::close(9), "late"))
            }
        }
    });
    let texts = broken(results);
    assert!(
        texts[0].contains("#1 closing the group") && texts[0].contains("300ms"),
        "{texts:?}"
    );
    assert_eq!(planted.n_live(), 0);
}

/// A rank that runs out of memory in an operation says so, and its group ends.
#[test]
fn running_out_of_memory_ends_the_group() {
    let Some(planted) = Planted::new("none") else {
        return;
    };
    for k in 0..6 {
        let (world, id) = (
            planted.world(),
            planted.open().unwrap().unique_id().unwrap(),
        );
        let device = (world.devices)().failing_at_allocation(k);
        let device = device
            .join(
                &world.library,
                id,
                Member { rank: 0, size: 1 },
                PATIENT,
                Probe::default(),
            )
            .unwrap();
        let group = device.group().unwrap();
        let Ok(own) = device.upload(&[1.0f32; 8]) else {
            continue;
        };
        match group.exact_sum(&own, 4, PATIENT) {
            Ok(sum) => assert_eq!(device.download(&sum).unwrap(), [2.0; 4]),
            Err(error) => {
                assert!(
                    matches!(error.kind(), ErrorKind::OutOfMemory { .. }),
                    "{error}"
                );
                assert_eq!(device.download(&own).unwrap_err(), error);
            }
        }
    }
    assert_eq!(planted.n_live(), 0);
}
