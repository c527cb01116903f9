//! Ranks that wait in a group end when their job has ended elsewhere, and say why.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::super::{Group, Member, Probe};
use super::{PATIENT, Planted, World, on_threads};
use crate::{Buffer, Device, Error, Timer};

const NEWS: &str = "rank 2 was lost (as planned)";

/// News that comes when the flag is set.
fn news() -> (Arc<AtomicBool>, Probe) {
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_over);
    let ask = move || flag.load(Ordering::SeqCst).then(|| NEWS.to_string());
    (is_over, Probe::new(ask))
}

/// The errors of ranks 0 and 1, which have to be about a lost rank; nobody has waited for a deadline.
fn of_survivors(timer: &Timer, results: Vec<Result<(), Error>>) -> Vec<String> {
    assert!(timer.elapsed() < PATIENT, "{results:?}");
    let text = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert!(error.is_lost_rank(), "{error}");
        error.to_string()
    };
    results.into_iter().take(2).map(text).collect()
}

fn one_sum(device: &Device, group: &Group) -> Result<(), Error> {
    let own: Buffer = device.upload(&[1.0; 10])?;
    let sum = group.all_reduce(&own, PATIENT)?;
    device.download(&sum).map(drop)
}

#[test]
fn news_end_the_wait_for_a_rank_that_does_not_join() {
    let Some(planted) = Planted::new("none") else {
        return;
    };
    let (world, library) = (planted.world(), planted.open().unwrap());
    let id = library.unique_id().unwrap();
    let (timer, (is_over, probe)) = (Timer::wall(), news());
    let results = on_threads(3, |rank| {
        if rank == 2 {
            is_over.store(true, Ordering::SeqCst);
            return Ok(());
        }
        let joined = world.join_with(id, Member { rank, size: 3 }, PATIENT, probe.clone());
        joined.map(drop)
    });
    for text in of_survivors(&timer, results) {
        assert_eq!(text, format!("joining a group of 3 ranks: {NEWS}"));
    }
    assert_eq!(planted.n_live(), 0);
}

/// Where ranks compare what they ask for they wait inside the operation, else for its result.
#[test]
fn news_end_the_wait_for_an_operation() {
    let planted = Planted::new("none");
    for world in World::all(planted.as_ref()) {
        let (timer, (is_over, probe)) = (Timer::wall(), news());
        let results = world.run_probed(3, &probe, |device, group| {
            one_sum(device, group)?;
            if group.rank() == 2 {
                is_over.store(true, Ordering::SeqCst);
                return Ok(());
            }
            let error = one_sum(device, group).unwrap_err();
            assert_eq!(device.synchronize().unwrap_err(), error, "it stays so");
            Err(error)
        });
        for text in of_survivors(&timer, results) {
            assert_eq!(text, format!("#1 all_reduce of 10 f32: {NEWS}"));
        }
    }
    assert!(planted.is_none_or(|planted| planted.n_live() == 0));
}

#[test]
fn news_end_the_wait_for_a_rank_that_does_not_close() {
    let Some(planted) = Planted::new("none") else {
        return;
    };
    let (timer, (is_over, probe)) = (Timer::wall(), news());
    let results = planted.world().run_probed(3, &probe, |device, group| {
        one_sum(device, group)?;
        if group.rank() == 2 {
            is_over.store(true, Ordering::SeqCst);
            return Ok(());
        }
        group.close(PATIENT)
    });
    for text in of_survivors(&timer, results) {
        assert_eq!(text, format!("#1 closing the group: {NEWS}"));
    }
    assert_eq!(planted.n_live(), 0);
}

/// NCCL notices first that something is wrong; who it was comes a moment later, and is waited for.
#[test]
fn an_error_of_nccl_waits_for_the_news_that_explain_it() {
    let Some(planted) = Planted::new("error-at-0") else {
        return;
    };
    let n_questions = AtomicU32::new(0);
    let probe = Probe::new(move || {
        let is_late = n_questions.fetch_add(1, Ordering::SeqCst) >= 50;
        is_late.then(|| NEWS.to_string())
    });
    let results = planted.world().run_probed(1, &probe, one_sum);
    let text = results[0].as_ref().unwrap_err().to_string();
    let (news, seen) = (format!("f32: {NEWS}"), "network error (status 6)");
    assert!(text.contains(&news) && text.contains(seen), "{text}");
    assert_eq!(planted.n_live(), 0);
}

/// In an orderly job nobody is kept by a probe that has nothing to tell.
#[test]
fn no_news_change_nothing() {
    let Some(planted) = Planted::new("none") else {
        return;
    };
    let (_, probe) = news();
    let results = planted.world().run_probed(3, &probe, |device, group| {
        one_sum(device, group)?;
        group.close(PATIENT)
    });
    assert_eq!(results, vec![Ok(()); 3]);
}
