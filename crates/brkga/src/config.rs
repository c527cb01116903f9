//! The numbers of a search, with their defaults and their ranges.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::outcome::Fitness;

/// The numbers of a search.
///
/// ```
/// use shardgraph_brkga::Config;
/// let config: Config = serde_json::from_str(r#"{"population": 50, "elites": 10, "seed": 3}"#)?;
/// assert_eq!((config.mutants, config.evaluations), (20, 5000));
/// assert!(serde_json::from_str::<Config>(r#"{"popluation": 50}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// p: chromosomes in a population.
    pub population: u32,
    /// pe: the best of them, which live on unchanged and are not decoded again. At least 1, fewer than `population`.
    pub elites: u32,
    /// pm: new chromosomes of each generation that are drawn from the proposals; the other new ones are crossed.
    pub mutants: u32,
    /// rho: the probability that a child takes a key from its elite parent, in [0.5, 1). Taken to the nearest multiple of 2^-16.
    pub rho: f64,
    /// K: populations that evolve side by side and share `evaluations`; at most 1000.
    pub populations: u32,
    /// Generations between migrations; 0 means never.
    pub migration_generations: u32,
    /// The best chromosomes of each population that a migration copies into every other one, over its worst.
    pub migrants: u32,
    /// The one seed of the search.
    pub seed: u64,
    /// The number of decodings: exact, unless the search ends early. The last generation is cut where they end.
    pub evaluations: u64,
    /// End after the generation that reaches this fitness.
    pub target: Option<Fitness>,
    /// End after so many generations without a better best; 0 means never.
    pub stall_generations: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            population: 100,
            elites: 20,
            mutants: 20,
            rho: 0.7,
            populations: 1,
            migration_generations: 0,
            migrants: 2,
            seed: 1,
            evaluations: 5000,
            target: None,
            stall_generations: 0,
        }
    }
}

impl Config {
    /// Checks every field against its range.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`], naming the first field that is out of range.
    pub fn check(&self) -> Result<(), Error> {
        let at_least = |field, value: u64, least: u64| match value < least {
            true => Err(Error::config(field, value, format!("at least {least}"))),
            false => Ok(()),
        };
        at_least("population", u64::from(self.population), 2)?;
        at_least("elites", u64::from(self.elites), 1)?;
        if !(1..=1000).contains(&self.populations) {
            return Err(Error::config(
                "populations",
                self.populations,
                "from 1 to 1000",
            ));
        }
        at_least("evaluations", self.evaluations, 1)?;
        let (p, pe) = (self.population, self.elites);
        if pe >= p {
            return Err(Error::config(
                "elites",
                pe,
                format!("fewer than population ({p})"),
            ));
        }
        if self.mutants > p - pe {
            let most = format!("at most population - elites = {}", p - pe);
            return Err(Error::config("mutants", self.mutants, most));
        }
        if !(0.5..1.0).contains(&self.rho) {
            return Err(Error::config("rho", self.rho, "a number of [0.5, 1)"));
        }
        self.check_migration()
    }

    fn check_migration(&self) -> Result<(), Error> {
        if self.populations == 1 || self.migration_generations == 0 {
            return Ok(());
        }
        // More arrivals than non-elites would write over a population's own elites.
        let most = (self.population - self.elites) / (self.populations - 1);
        if self.migrants > most {
            let expected = format!("at most (population - elites) / (populations - 1) = {most}");
            return Err(Error::config("migrants", self.migrants, expected));
        }
        Ok(())
    }

    /// New chromosomes of a whole generation in one population.
    pub(crate) fn children(&self) -> u64 {
        u64::from(self.population - self.elites)
    }

    /// Of those, the ones that are crossed; they come before the mutants.
    pub(crate) fn crossed(&self) -> usize {
        (self.population - self.elites - self.mutants) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(change: fn(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_valid_and_survive_json() {
        let config = Config::default();
        config.check().unwrap();
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
        assert_eq!(serde_json::from_str::<Config>("{}").unwrap(), config);
    }

    #[test]
    fn each_field_out_of_range_is_named() {
        assert_eq!(
            message(|c| c.population = 1),
            "population = 1: expected at least 2"
        );
        assert_eq!(message(|c| c.elites = 0), "elites = 0: expected at least 1");
        assert_eq!(
            message(|c| c.elites = 100),
            "elites = 100: expected fewer than population (100)"
        );
        assert_eq!(
            message(|c| c.mutants = 81),
            "mutants = 81: expected at most population - elites = 80"
        );
        for rho in [0.49, 1.0, -0.7, f64::NAN, f64::INFINITY] {
            let config = Config {
                rho,
                ..Config::default()
            };
            let text = config.check().unwrap_err().to_string();
            assert_eq!(text, format!("rho = {rho}: expected a number of [0.5, 1)"));
        }
        assert_eq!(
            message(|c| c.populations = 0),
            "populations = 0: expected from 1 to 1000"
        );
        assert_eq!(
            message(|c| c.evaluations = 0),
            "evaluations = 0: expected at least 1"
        );
    }

    #[test]
    fn migrants_never_reach_the_elites() {
        let text = message(|c| {
            (c.populations, c.migration_generations, c.migrants) = (5, 10, 21);
        });
        assert_eq!(
            text,
            "migrants = 21: expected at most (population - elites) / (populations - 1) = 20"
        );
        let just_fits = Config {
            populations: 5,
            migration_generations: 10,
            migrants: 20,
            ..Config::default()
        };
        just_fits.check().unwrap();
    }
}
