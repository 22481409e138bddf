//! The engines of this machine, and which one is used for what.

mod answers;
mod known;

use crate::aws_lc::AwsLc;
use crate::lane::{KINDS, Prepared};
use crate::vaes::{Vaes256, Vaes512};
use crate::{Algorithm, BATCH, Engine, Key, KeyError, Lane, Mask};

/// Why an engine is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The processor or the system lacks what it needs.
    #[error("the processor or the system has no {0}")]
    Processor(&'static str),
    /// The router was built without it.
    #[error("the router was built without it: {0}")]
    NotBuilt(&'static str),
    /// Its library reports an error at its start.
    #[error("its library does not work")]
    Library,
    /// It does not compute what it should.
    #[error("its answer for {} is wrong", .0.name())]
    WrongAnswer(Algorithm),
}

/// An engine that was asked for cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForceError {
    /// There is none of this name.
    #[error("there is no crypto engine '{name}'; there are: {}", there.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names of all engines.
        there: Vec<&'static str>,
    },
    /// It is refused.
    #[error("the crypto engine '{name}' cannot be used: {refusal}")]
    Refused {
        /// The engine.
        name: &'static str,
        /// Why.
        refusal: Refusal,
    },
}

/// What is known of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineState {
    /// Its name.
    pub name: &'static str,
    /// Algorithms that it has. Empty if it is refused.
    pub algorithms: Vec<Algorithm>,
    /// Why it is not used.
    pub refused: Option<Refusal>,
}

/// An engine, or why there is none of this name.
type Started = (&'static str, Result<Box<dyn Engine>, Refusal>);

/// All engines, the fastest first. Each has computed known answers.
fn started() -> Vec<Started> {
    fn boxed<E: Engine + 'static>(engine: E) -> Box<dyn Engine> {
        Box::new(engine)
    }
    #[cfg(feature = "ipsec-mb")]
    let ipsec_mb = crate::ipsec_mb::IpsecMb::new().map(boxed);
    #[cfg(not(feature = "ipsec-mb"))]
    let ipsec_mb = Err(Refusal::NotBuilt("scripts/setup ipsec-mb, then make build, adds it"));
    let all: [Started; 4] = [
        ("vaes-512", Vaes512::new().map(boxed)),
        ("vaes-256", Vaes256::new().map(boxed)),
        ("ipsec-mb", ipsec_mb),
        ("aws-lc", Ok(boxed(AwsLc))),
    ];
    let checked = |(name, engine): Started| {
        let engine = engine.and_then(|it| match answers::wrong(it.as_ref()) {
            Some(algorithm) => Err(Refusal::WrongAnswer(algorithm)),
            None => Ok(it),
        });
        (name, engine)
    };
    all.into_iter().map(checked).collect()
}

/// The engines that work here, the fastest first: for tests and for measurements of each one.
#[must_use]
pub fn engines() -> Vec<Box<dyn Engine>> {
    started().into_iter().filter_map(|(_, engine)| engine.ok()).collect()
}

/// The engines of a process. Each algorithm has the fastest one, or the one that is forced.
pub struct Engines {
    states: Vec<EngineState>,
    /// The preferred ones first.
    working: Vec<Box<dyn Engine>>,
    /// Which of `working` an algorithm has.
    chosen: [Option<usize>; Algorithm::ALL.len()],
    /// Which of `working` keys of a kind belong to.
    of_kind: [Option<usize>; KINDS],
}

impl Engines {
    /// Starts all engines, and lets them prove that they compute what they should.
    ///
    /// Engines of the names in `forced` are preferred to faster ones, in this order, for all algorithms that they have.
    ///
    /// # Errors
    /// A name is unknown, or its engine is refused.
    pub fn start(forced: &[&str]) -> Result<Self, ForceError> {
        let (mut states, mut engines) = (Vec::new(), Vec::new());
        for (name, engine) in started() {
            let refused = engine.as_ref().err().copied();
            let has = |it: &Algorithm| engine.as_ref().is_ok_and(|engine| engine.has(*it));
            let algorithms = Algorithm::ALL.into_iter().filter(has).collect();
            states.push(EngineState { name, algorithms, refused });
            engines.extend(engine);
        }
        let mut working: Vec<Box<dyn Engine>> = Vec::new();
        for name in forced {
            if let Some(at) = engines.iter().position(|it| it.name() == *name) {
                working.push(engines.remove(at));
            } else if !working.iter().any(|it| it.name() == *name) {
                return Err(missing(name, &states));
            }
        }
        working.extend(engines);
        let chosen =
            Algorithm::ALL.map(|algorithm| working.iter().position(|it| it.has(algorithm)));
        let mut of_kind = [None; KINDS];
        for (at, engine) in working.iter().enumerate().rev() {
            for algorithm in Algorithm::ALL.into_iter().filter(|it| engine.has(*it)) {
                if let Some(kind) = kind_of(engine.as_ref(), algorithm) {
                    of_kind[kind] = Some(at);
                }
            }
        }
        Ok(Self { states, working, chosen, of_kind })
    }

    /// All engines, and why some are not used.
    #[must_use]
    pub fn list(&self) -> &[EngineState] {
        &self.states
    }

    /// The name of the engine that an algorithm has. `None`: no engine computes it right.
    #[must_use]
    pub fn chosen(&self, algorithm: Algorithm) -> Option<&'static str> {
        Some(self.engine(algorithm)?.name())
    }

    fn engine(&self, algorithm: Algorithm) -> Option<&dyn Engine> {
        let at = self.chosen.get(algorithm as usize).copied().flatten()?;
        self.working.get(at).map(AsRef::as_ref)
    }

    /// Prepares a key: `encryption` has [`Algorithm::key_bytes`], `integrity` has [`Algorithm::integrity_key_bytes`].
    /// For the control plane: it allocates.
    ///
    /// # Errors
    /// A key has another length, or no engine has the algorithm.
    pub fn key(
        &self,
        algorithm: Algorithm,
        encryption: &[u8],
        integrity: &[u8],
    ) -> Result<Key, KeyError> {
        let engine = self.engine(algorithm).ok_or(KeyError::Algorithm(algorithm))?;
        engine.key(algorithm, encryption, integrity)
    }

    /// Encrypts texts in place, and writes their tags. Returns the lanes for which it did: those that are malformed
    /// stay as they are, in plain text, as do those behind the first [`BATCH`].
    pub fn seal(&self, lanes: &mut [Lane<'_>]) -> Mask {
        self.each(lanes, |engine, lanes| engine.seal(lanes))
    }

    /// Decrypts texts in place. Returns the lanes that are authentic; texts and tags of others are of no use.
    pub fn open(&self, lanes: &mut [Lane<'_>]) -> Mask {
        self.each(lanes, |engine, lanes| engine.open(lanes))
    }

    /// Takes the memory that engines need for the calling thread: a worker calls it at its start.
    pub fn enter(&self) {
        for engine in &self.working {
            engine.enter();
        }
    }

    /// Calls the engines whose keys the lanes have.
    fn each(
        &self,
        lanes: &mut [Lane<'_>],
        run: impl Fn(&dyn Engine, &mut [Lane<'_>]) -> Mask,
    ) -> Mask {
        let mut kinds = 0_u32;
        for lane in lanes.iter().take(BATCH) {
            kinds |= 1 << lane.key.prepared.kind();
        }
        let mut good = Mask::default();
        for (kind, engine) in self.of_kind.iter().enumerate() {
            if kinds >> kind & 1 == 1
                && let Some(engine) = engine.and_then(|at| self.working.get(at))
            {
                good |= run(engine.as_ref(), lanes);
            }
        }
        good
    }
}

/// Why there is no engine of a name.
fn missing(name: &str, states: &[EngineState]) -> ForceError {
    match states.iter().find(|it| it.name == name) {
        Some(&EngineState { name, refused: Some(refusal), .. }) => {
            ForceError::Refused { name, refusal }
        }
        _ => ForceError::Unknown {
            name: name.to_owned(),
            there: states.iter().map(|it| it.name).collect(),
        },
    }
}

/// The kind of the keys that an engine makes.
fn kind_of(engine: &dyn Engine, algorithm: Algorithm) -> Option<usize> {
    let (encryption, integrity) = ([0; 32], [0; 64]);
    let encryption = encryption.get(..algorithm.key_bytes())?;
    let integrity = integrity.get(..algorithm.integrity_key_bytes())?;
    Some(engine.key(algorithm, encryption, integrity).ok()?.prepared.kind())
}

impl Prepared {
    /// Which engines understand it: below [`KINDS`].
    #[inline]
    fn kind(&self) -> usize {
        match self {
            Self::AwsLc(_) => 0,
            Self::Vaes(_) => 1,
            #[cfg(feature = "ipsec-mb")]
            Self::IpsecMb(_) => 2,
        }
    }
}

#[cfg(test)]
mod tests;
