//! Cards by name: their memory and what ops reach on them.

use crate::Roofline;

/// A card that has a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NamedCard {
    /// What command lines call it.
    pub name: &'static str,
    /// Memory in GiB.
    pub memory_gib: u64,
    /// What ops reach on it.
    pub roofline: Roofline,
}

impl NamedCard {
    /// How many times as fast as a V100 it runs ops that spend half of their time there on arithmetic and half on bytes: the geometric
    /// mean of the ratios of both rates, in steps of a hundredth.
    ///
    /// ```
    /// use shardgraph_costgraph_io::NAMED_CARDS;
    /// let speeds: Vec<f64> = NAMED_CARDS.iter().map(|card| card.speed()).collect();
    /// assert_eq!(speeds[0], 1.0);
    /// assert!(speeds[3] > 3.8 && speeds[3] < 4.0);
    /// ```
    #[must_use]
    pub fn speed(&self) -> f64 {
        let (own, v100) = (self.roofline, NAMED_CARDS[0].roofline);
        let arithmetic = own.flops_per_ns / v100.flops_per_ns;
        let bytes = own.bytes_per_ns / v100.bytes_per_ns;
        ((arithmetic * bytes).sqrt() * 100.0).round() / 100.0
    }
}

/// The cards with names, the V100 first.
///
/// Rates are those of the makers' data sheets: memory bandwidth, and dense arithmetic in TF32 at 60 % where there is TF32, else in f32
/// at 90 %, which large matrix products reach. A launch takes 5 us.
pub const NAMED_CARDS: [NamedCard; 10] = [
    card("v100", 16, 0.9 * 15.7, 900.0),
    card("t4", 16, 0.9 * 8.1, 320.0),
    card("a100-40", 40, 0.6 * 156.0, 1555.0),
    card("a100-80", 80, 0.6 * 156.0, 2039.0),
    card("l4", 24, 0.6 * 60.0, 300.0),
    card("l40s", 48, 0.6 * 183.0, 864.0),
    card("h100", 80, 0.6 * 494.7, 3350.0),
    card("h200", 141, 0.6 * 494.7, 4800.0),
    card("b200", 180, 0.6 * 1100.0, 8000.0),
    card("rtx4090", 24, 0.6 * 82.6, 1008.0),
];

const fn card(name: &'static str, memory_gib: u64, tflops: f64, gbs: f64) -> NamedCard {
    NamedCard {
        name,
        memory_gib,
        roofline: Roofline {
            launch_ns: Roofline::V100.launch_ns,
            flops_per_ns: 1000.0 * tflops,
            bytes_per_ns: gbs,
        },
    }
}
