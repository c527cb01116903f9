//! Settings out of range, and negatives that samples share.

use super::*;

#[test]
fn small_parts_share_less() {
    let of = |share, rows| {
        let config = Config {
            shared_negatives: share,
            ..Config::default()
        };
        config.shared_negatives_in(rows)
    };
    let sixteen = [0, 127, 128, 444, 511, 512, 1023, 1779, 2047, 2048, 1 << 30];
    let expected = [1, 1, 1, 1, 1, 4, 4, 8, 8, 16, 16];
    assert_eq!(sixteen.map(|rows| of(16, rows)), expected);
    assert_eq!((of(1, 1 << 20), of(2, 512), of(64, 2048)), (1, 2, 16));
}

#[test]
fn settings_out_of_range_are_named() {
    let base = Config::default;
    for (config, reason) in [
        (Config { dim: 0, ..base() }, "dim = 0"),
        (
            Config {
                negatives: 32,
                ..base()
            },
            "negatives = 32",
        ),
        (
            Config {
                shared_negatives: 3,
                ..base()
            },
            "shared_negatives = 3",
        ),
        (
            Config {
                threads: 0,
                ..base()
            },
            "threads = 0",
        ),
        (
            Config {
                learning_rate: Some(f32::NAN),
                ..base()
            },
            "learning_rate = NaN",
        ),
        (
            Config {
                learning_rate: Some(-0.1),
                ..base()
            },
            "learning_rate = -0.1",
        ),
    ] {
        let error = config.check().unwrap_err();
        assert!(matches!(error, Error::Setting(_)), "{error}");
        assert!(error.to_string().starts_with(reason), "{error}");
    }
}

#[test]
fn settings_of_devices_out_of_range_are_named() {
    let base = Config::default;
    let epochs = Config {
        epochs: 0,
        ..base()
    };
    let queues = Config {
        queues: 65,
        ..base()
    };
    let in_flight = Config {
        edges_in_flight: Some(0),
        ..base()
    };
    for (config, reason) in [
        (epochs, "epochs = 0"),
        (queues, "queues = 65"),
        (in_flight, "edges_in_flight = 0"),
    ] {
        let message = config.check().unwrap_err().to_string();
        assert!(message.starts_with(reason), "{message}");
    }
}
