//! Reading and checking generator specifications such as `er:3000:0.15`.

use super::GeneratorSpec;
use crate::{Error, ErrorKind, MAX_NODES};
use std::{fmt, ops::RangeInclusive, str::FromStr};

/// Every model: its name, its fields and an example, as the messages show them.
const MODELS: [(&str, &str, &str); 6] = [
    ("er", "er:n:p", "er:3000:0.15"),
    ("ba", "ba:n:m", "ba:1000:4"),
    ("ws", "ws:n:k:p", "ws:1000:6:0.1"),
    ("sbm", "sbm:n:blocks:p_in:p_out", "sbm:1000:4:0.1:0.01"),
    ("rb", "rb:cliques:size:p:r", "rb:30:15:0.25:2.78"),
    ("cl", "cl:n:mean:exponent", "cl:1000:10:2.5"),
];

/// More Model RB constraints than this are a typing error.
const MAX_RB_DENSITY: f64 = 1e6;
/// The exponents of a power law with a finite mean, up to where all nodes are nearly alike.
const EXPONENTS: (f64, f64) = (2.01, 100.0);

impl FromStr for GeneratorSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<GeneratorSpec, Error> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let Some(&(_, form, example)) = MODELS.iter().find(|model| model.0 == name) else {
            let forms = MODELS.map(|model| model.1).join(", ");
            return Err(argument(format!(
                "unknown graph model `{name}`: expected one of {forms}, such as {}",
                MODELS[0].2
            )));
        };
        let values: Vec<&str> = words.collect();
        let n_fields = form.split(':').count() - 1;
        if values.len() != n_fields {
            return Err(argument(format!(
                "`{text}` has {} fields: expected {form}, such as {example}",
                values.len()
            )));
        }
        let spec = Words {
            form,
            example,
            values,
        }
        .spec(name)?;
        spec.check()?;
        Ok(spec)
    }
}

impl fmt::Display for GeneratorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GeneratorSpec::ErdosRenyi { n_nodes, p } => write!(f, "er:{n_nodes}:{p}"),
            GeneratorSpec::BarabasiAlbert { n_nodes, m } => write!(f, "ba:{n_nodes}:{m}"),
            GeneratorSpec::WattsStrogatz { n_nodes, k, p } => write!(f, "ws:{n_nodes}:{k}:{p}"),
            GeneratorSpec::StochasticBlock {
                n_nodes,
                n_blocks,
                p_in,
                p_out,
            } => write!(f, "sbm:{n_nodes}:{n_blocks}:{p_in}:{p_out}"),
            GeneratorSpec::ModelRb {
                n_cliques,
                clique_size,
                p,
                r,
            } => write!(f, "rb:{n_cliques}:{clique_size}:{p}:{r}"),
            GeneratorSpec::ChungLu {
                n_nodes,
                mean_degree,
                exponent,
            } => write!(f, "cl:{n_nodes}:{mean_degree}:{exponent}"),
        }
    }
}

/// The values of a specification, read by position.
struct Words<'a> {
    form: &'a str,
    example: &'a str,
    values: Vec<&'a str>,
}

impl Words<'_> {
    fn spec(&self, name: &str) -> Result<GeneratorSpec, Error> {
        Ok(match name {
            "er" => GeneratorSpec::ErdosRenyi {
                n_nodes: self.whole(0)?,
                p: self.number(1)?,
            },
            "ba" => GeneratorSpec::BarabasiAlbert {
                n_nodes: self.whole(0)?,
                m: self.whole(1)?,
            },
            "ws" => GeneratorSpec::WattsStrogatz {
                n_nodes: self.whole(0)?,
                k: self.whole(1)?,
                p: self.number(2)?,
            },
            "sbm" => GeneratorSpec::StochasticBlock {
                n_nodes: self.whole(0)?,
                n_blocks: self.whole(1)?,
                p_in: self.number(2)?,
                p_out: self.number(3)?,
            },
            "cl" => GeneratorSpec::ChungLu {
                n_nodes: self.whole(0)?,
                mean_degree: self.number(1)?,
                exponent: self.number(2)?,
            },
            _ => GeneratorSpec::ModelRb {
                n_cliques: self.whole(0)?,
                clique_size: self.whole(1)?,
                p: self.number(2)?,
                r: self.number(3)?,
            },
        })
    }

    fn whole(&self, i: usize) -> Result<u32, Error> {
        self.values[i]
            .parse()
            .map_err(|_| self.wrong(i, "a whole number"))
    }

    fn number(&self, i: usize) -> Result<f64, Error> {
        self.values[i]
            .parse()
            .map_err(|_| self.wrong(i, "a number"))
    }

    fn wrong(&self, i: usize, expected: &str) -> Error {
        let Words {
            form,
            example,
            values,
        } = self;
        let field = form.split(':').nth(i + 1).unwrap_or_default();
        let found = values[i];
        argument(format!(
            "field `{field}` of {form}: expected {expected}, found `{found}` (an example: {example})"
        ))
    }
}

impl GeneratorSpec {
    /// True if every parameter is in its range.
    pub(super) fn check(&self) -> Result<(), Error> {
        match *self {
            GeneratorSpec::ErdosRenyi { n_nodes, p } => {
                self.whole("n", n_nodes, 0..=MAX_NODES)?;
                self.probability("p", p)
            }
            GeneratorSpec::BarabasiAlbert { n_nodes, m } => {
                self.whole("n", n_nodes, 2..=MAX_NODES)?;
                self.whole("m", m, 1..=n_nodes - 1)
            }
            GeneratorSpec::WattsStrogatz { n_nodes, k, p } => self.check_ring(n_nodes, k, p),
            GeneratorSpec::StochasticBlock {
                n_nodes,
                n_blocks,
                p_in,
                p_out,
            } => {
                self.whole("n", n_nodes, 1..=MAX_NODES)?;
                self.whole("blocks", n_blocks, 1..=n_nodes)?;
                self.probability("p_in", p_in)?;
                self.probability("p_out", p_out)
            }
            GeneratorSpec::ModelRb {
                n_cliques,
                clique_size,
                p,
                r,
            } => {
                self.whole("cliques", n_cliques, 1..=MAX_NODES)?;
                self.whole("size", clique_size, 1..=MAX_NODES / n_cliques)?;
                self.probability("p", p)?;
                self.within("r", r, 0.0, MAX_RB_DENSITY)
            }
            GeneratorSpec::ChungLu {
                n_nodes,
                mean_degree,
                exponent,
            } => {
                self.whole("n", n_nodes, 1..=MAX_NODES)?;
                self.within("mean", mean_degree, 0.0, f64::from(n_nodes - 1))?;
                self.within("exponent", exponent, EXPONENTS.0, EXPONENTS.1)
            }
        }
    }

    fn check_ring(&self, n_nodes: u32, k: u32, p: f64) -> Result<(), Error> {
        self.whole("n", n_nodes, 1..=MAX_NODES)?;
        self.whole("k", k, 0..=n_nodes - 1)?;
        if k % 2 == 1 {
            return Err(self.outside("k", "an even number", &k));
        }
        self.probability("p", p)
    }

    fn whole(&self, field: &str, value: u32, range: RangeInclusive<u32>) -> Result<(), Error> {
        if range.contains(&value) {
            return Ok(());
        }
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        Err(self.outside(field, &expected, &value))
    }

    fn probability(&self, field: &str, value: f64) -> Result<(), Error> {
        self.within(field, value, 0.0, 1.0)
    }

    fn within(&self, field: &str, value: f64, least: f64, most: f64) -> Result<(), Error> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        let expected = format!("a number from {least} to {most}");
        Err(self.outside(field, &expected, &value))
    }

    fn outside(&self, field: &str, expected: &str, found: &dyn fmt::Display) -> Error {
        let text = self.to_string();
        let name = text.split(':').next().unwrap_or_default();
        let model = MODELS.iter().find(|model| model.0 == name);
        let (_, form, example) = model.copied().unwrap_or(MODELS[0]);
        argument(format!(
            "field `{field}` of {form}: expected {expected}, found `{found}` (an example: {example})"
        ))
    }
}

fn argument(message: String) -> Error {
    Error::new(ErrorKind::Argument, message)
}
