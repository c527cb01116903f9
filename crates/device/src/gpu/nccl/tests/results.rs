//! What operations compute, against plain loops, bit for bit.

use proptest::prelude::*;

use super::{PATIENT, Planted, SHORT, World};
use crate::nccl::Transfer;

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Floats of every size and kind but NaN, whose bits the order of operands decides.
fn value() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -4.0f32..4.0,
        4 => any::<f32>().prop_map(|x| if x.is_nan() { 1.5 } else { x }),
        1 => Just(-0.0),
        1 => any::<u32>().prop_map(|bits| f32::from_bits(bits & 0x807f_ffff)), // subnormal
    ]
}

/// For each rank a buffer, all of one length.
fn equal_parts() -> impl Strategy<Value = Vec<Vec<f32>>> {
    (0usize..300, 1usize..=6).prop_flat_map(|(len, n_ranks)| {
        prop::collection::vec(prop::collection::vec(value(), len), n_ranks)
    })
}

/// For each rank a buffer of its own length.
fn parts() -> impl Strategy<Value = Vec<Vec<f32>>> {
    prop::collection::vec(prop::collection::vec(value(), 0..70), 1..=6)
}

/// The sum in rank order.
fn sum_of(parts: &[Vec<f32>]) -> Vec<f32> {
    let mut sum = parts[0].clone();
    for part in &parts[1..] {
        sum.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    sum
}

/// A case takes several groups of up to six threads.
fn few_cases() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: config.cases.min(24),
        max_shrink_iters: 50,
        ..config
    }
}

proptest! {
    #![proptest_config(few_cases())]

    #[test]
    fn gathered_parts_are_in_rank_order(parts in parts()) {
        let planted = Planted::new("none");
        let counts: Vec<usize> = parts.iter().map(Vec::len).collect();
        let want = bits(&parts.concat());
        for world in World::all(planted.as_ref()) {
            let got = world.run_and_close(parts.len() as u32, |device, group| {
                let own = device.upload(&parts[group.rank() as usize])?;
                let all = group.all_gather(&own, &counts, PATIENT)?;
                drop(own); // given back behind the operation, which is still to run
                let all = device.download(&all)?;
                Ok(bits(&all))
            });
            for all in got {
                prop_assert_eq!(all.unwrap(), want.clone());
            }
        }
        prop_assert_eq!(planted.map_or(0, |planted| planted.n_live()), 0);
    }

    #[test]
    fn sums_are_those_of_rank_order(parts in equal_parts(), cut in 0usize..300) {
        let planted = Planted::new("none");
        let (size, len) = (parts.len(), parts[0].len());
        let want = sum_of(&parts);
        // All but the first rank's part come out even; the first may be anything.
        let first = cut.min(len);
        let mut counts = vec![(len - first) / size.max(2); size];
        counts[0] = len - counts[1..].iter().sum::<usize>();
        for world in World::all(planted.as_ref()) {
            let got = world.run_and_close(size as u32, |device, group| {
                let own = device.upload(&parts[group.rank() as usize])?;
                let all = group.all_reduce(&own, PATIENT)?;
                let part = group.reduce_scatter(&own, &counts, PATIENT)?;
                Ok((bits(&device.download(&all)?), bits(&device.download(&part)?)))
            });
            let mut begin = 0;
            for (rank, sums) in got.into_iter().enumerate() {
                let (all, part) = sums.unwrap();
                prop_assert_eq!(all, bits(&want));
                let end = begin + counts[rank];
                prop_assert_eq!(part, bits(&want[begin..end]));
                begin = end;
            }
        }
        prop_assert_eq!(planted.map_or(0, |planted| planted.n_live()), 0);
    }
}

/// Work that is given before and behind an operation happens in that order, without a wait in between.
#[test]
fn operations_keep_the_order_of_the_stream() {
    let planted = Planted::new("none");
    for world in World::all(planted.as_ref()) {
        let got = world.run_and_close(3, |device, group| {
            let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0])?;
            let mut doubled = device.zeros(4)?;
            crate::tests::scale(device, 2.0, &x, &mut doubled)?;
            let sum = group.all_reduce(&doubled, PATIENT)?;
            device.clear(&mut doubled)?;
            let mut again = device.zeros(4)?;
            crate::tests::scale(device, 0.5, &sum, &mut again)?;
            let total = group.all_reduce(&again, PATIENT)?;
            drop((x, doubled, sum, again));
            device.download(&total)
        });
        for total in got {
            assert_eq!(total.unwrap(), [9.0, 18.0, 27.0, 36.0]);
        }
    }
}

/// A rank that waits for an answer of a peer by other means does not stop the peer's stream.
#[test]
fn streams_get_on_while_their_rank_waits_elsewhere() {
    let Some(planted) = Planted::new("none") else {
        return;
    };
    let (tell, told) = std::sync::mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let world = planted.world().unchecked(); // a check waits
    let got = world.run_and_close(2, |device, group| {
        let own = device.upload(&[1.0f32; 2])?; // so that each has a part to receive
        if group.rank() == 0 {
            std::thread::sleep(SHORT); // so that the other one's operations come to wait one behind the other
        }
        let sum = group.all_reduce(&own, PATIENT)?;
        if group.rank() == 0 {
            let sum = device.download(&sum)?; // needs the other rank's stream
            tell.send(sum[0]).unwrap();
            return Ok(sum[0]);
        }
        Ok(told.lock().unwrap().recv_timeout(PATIENT).unwrap())
    });
    assert!(got.into_iter().all(|sum| sum == Ok(2.0)));
}

/// Buffers of any type go to where they are sent, those of a pair of ranks in their order; ranks that name other transfers are told.
#[test]
fn buffers_go_from_rank_to_rank() {
    let planted = Planted::new("none");
    let plan = [(0, 1, 5), (2, 0, 7), (0, 1, 3), (1, 2, 0), (1, 0, 1000)];
    let value = |idx: usize, i: usize| (idx * 1000 + i) as u16;
    for world in World::all(planted.as_ref()) {
        let got = world.run_and_close(3, |device, group| {
            let own: Vec<_> = (0..plan.len())
                .map(|idx| {
                    let values: Vec<u16> = (0..plan[idx].2).map(|i| value(idx, i)).collect();
                    device.upload(&values)
                })
                .collect::<Result<_, _>>()?;
            let transfers = plan
                .iter()
                .zip(&own)
                .map(|(&(from, to, len), own)| Transfer {
                    from,
                    to,
                    len,
                    own: (group.rank() == from).then_some(own),
                });
            let received = group.transfer(&transfers.collect::<Vec<_>>(), PATIENT)?;
            drop(own); // given back behind the operation
            let values = received.iter().map(|buffer| device.download(buffer));
            values.collect::<Result<Vec<Vec<u16>>, _>>()
        });
        for (rank, got) in (0u32..).zip(got) {
            let to_rank = |&idx: &usize| plan[idx].1 == rank && plan[idx].2 > 0;
            let own = (0..plan.len()).filter(to_rank);
            let want: Vec<Vec<u16>> = own
                .map(|idx| (0..plan[idx].2).map(|i| value(idx, i)).collect())
                .collect();
            assert_eq!(got.unwrap(), want);
        }
    }
    let Some(planted) = planted else { return };
    let got = planted.world().run(2, |device, group| {
        let own = device.zeros::<f32>(4)?;
        let transfer = Transfer {
            from: 0,
            to: 1,
            len: 4 + group.rank() as usize,
            own: Some(&own),
        };
        group.transfer(&[transfer], PATIENT)
    });
    for error in got {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("ranks differ"), "{error}");
    }
    let got = planted.world().run(2, |device, group| {
        let transfer = Transfer::<f32> {
            from: 0,
            to: 1,
            len: 4,
            own: None,
        };
        let received = group.transfer(&[transfer], SHORT)?;
        device.synchronize()?;
        Ok(received)
    });
    let texts: Vec<String> = got
        .into_iter()
        .map(|got| got.unwrap_err().to_string())
        .collect();
    assert!(texts[0].contains("to send what it has not"), "{texts:?}");
    assert!(texts[1].contains("transfer of 16 bytes"), "{texts:?}");
}
