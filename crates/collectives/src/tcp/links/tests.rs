//! Steps between threads whose connections are made by hand, so that one of them can stop in the
//! middle of an operation.

use super::*;
use crate::join::pending::PendingPeers;
use crate::tcp::world::AddressTable;
use std::net::TcpListener;

/// One connection between every two of `n_ranks`, as each of them holds its ends.
fn mesh(n_ranks: usize) -> Vec<Vec<Option<TcpStream>>> {
    let mut ends: Vec<Vec<Option<TcpStream>>> = Vec::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for rank in 0..n_ranks {
        let mut own = Vec::new();
        for of_peer in &mut ends {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, _) = listener.accept().unwrap();
            for stream in [&near, &far] {
                stream.set_nonblocking(true).unwrap();
            }
            own.push(Some(near));
            of_peer[rank] = Some(far);
        }
        own.resize_with(n_ranks, || None);
        ends.push(own);
    }
    ends
}

fn links(n_ranks: usize) -> Vec<Links> {
    let ends = mesh(n_ranks).into_iter().zip(mesh(n_ranks));
    let of_rank = |(rank, (controls, data))| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let table = AddressTable {
            addresses: vec![listener.local_addr().unwrap(); n_ranks],
            pending: PendingPeers::new(listener, None).unwrap(),
        };
        let world = World::new(rank, 0, table);
        for (rank, control) in (0u32..).zip(controls) {
            if let Some(control) = control {
                world.add_control(rank, control);
            }
        }
        Links::new(world, data).unwrap()
    };
    (0u32..).zip(ends).map(of_rank).collect()
}

/// Runs a later step of an operation in which this rank gets one byte from `from`, if from any, and
/// sends none.
fn receive(links: &mut Links, from: Option<usize>) -> Result<(), CommErrorKind> {
    let n_ranks = links.lanes.len();
    let call = Call::new(links.world.rank, 0, OpKind::AllReduce);
    let mut ins = vec![0..0; n_ranks];
    if let Some(from) = from {
        ins[from] = 0..1;
    }
    links.run(&mut Step {
        context: Context {
            call: &call,
            timeout: Timeout::after(Duration::from_millis(100)),
        },
        header: &[],
        out: &[],
        outs: &vec![0..0; n_ranks],
        inbox: &mut [0],
        ins: &ins,
    })
}

#[test]
fn a_rank_that_stops_is_named_by_those_who_wait_for_others_that_wait_for_it() {
    // Rank 0 holds its connections and does nothing; each other rank waits for the one before it.
    let mut links = links(4);
    let results: Vec<_> = thread::scope(|scope| {
        let (_stopped, waiting) = links.split_at_mut(1);
        let wait = |own: &mut Links| {
            let before = own.world.rank as usize - 1;
            receive(own, Some(before))
        };
        let threads: Vec<_> = waiting
            .iter_mut()
            .map(|own| scope.spawn(move || wait(own)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for result in results {
        match result {
            Err(CommErrorKind::Timeout { missing, .. }) => assert_eq!(missing, [0]),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_comes_while_answers_are_awaited_still_counts() {
    let mut links = links(2);
    thread::scope(|scope| {
        let (late, waiting) = links.split_at_mut(1);
        let waiting = scope.spawn(|| receive(&mut waiting[0], Some(0)));
        thread::sleep(Duration::from_millis(200));
        let mut lane = &late[0].lanes[1].as_ref().unwrap().stream;
        io::Write::write_all(&mut lane, &[1]).unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
}
