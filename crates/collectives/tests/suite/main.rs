//! The properties of every back end, for 1 to 6 ranks: results against closed forms, faults without
//! hangs, sums with equal bits.
//!
//! Data are small integers, also where the type is `f32`, so equality is exact.

mod algorithms;
mod checks;
mod cost;
mod decline;
mod exact;
mod exchange;
mod faults;
mod forms;
mod launch;
mod messages;
mod messages_tcp;
mod naive;
mod refusals;
mod secret;
mod tcp_faults;
mod tcp_join;
mod watch;
mod world;

/// Runs every check of one back end for every number of ranks. A new back end is one more line
/// below.
macro_rules! suite {
    ($backend:ident, $run:path) => {
        mod $backend {
            suite!(@ranks $run; p1 1, p2 2, p3 3, p4 4, p5 5, p6 6);
        }
    };
    (@ranks $run:path; $($name:ident $n_ranks:expr),*) => {$(
        mod $name {
            suite!(@tests $run, $n_ranks;
                all_reduce all_reduce_long all_gather all_gather_v reduce_scatter_v broadcast
                all_to_all_v barrier max_min_f32 sum_in_rank_order exact_sum flight_record);
        }
    )*};
    (@tests $run:path, $n_ranks:expr; $($check:ident)*) => {$(
        #[test]
        fn $check() {
            for result in $run($n_ranks, |mut comm| crate::checks::$check(&mut comm)) {
                result.unwrap().unwrap();
            }
        }
    )*};
}
suite!(threads, shardgraph_collectives::threads::run);
suite!(tcp, shardgraph_collectives::tcp::run);

/// The same checks on a communicator that never had peers.
#[test]
fn solo_is_a_world_of_one() {
    let mut comm = shardgraph_collectives::Comm::solo();
    assert_eq!((comm.rank(), comm.size()), (0, 1));
    checks::all_reduce(&mut comm).unwrap();
    checks::all_to_all_v(&mut comm).unwrap();
}
