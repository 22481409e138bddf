//! Which SIMD kernel runs: detected once at start, or forced.

use std::str::FromStr;

use stoa_engine::column::Width;
use stoa_tables::lpm;

/// A family of kernels. All of them give the same packets and counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Plain Rust: the reference.
    Scalar,
    /// AVX2, with BMI1, BMI2 and POPCNT.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

/// A kernel that is not known or not possible here.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KernelError {
    /// The name is none of ours.
    #[error("there is no kernel {0:?}: give scalar, avx2 or avx512, or nothing for the best one")]
    Unknown(String),
    /// The processor lacks it.
    #[error("this processor has no {0}: leave the kernel out for the best one")]
    NotHere(&'static str),
}

impl Kernel {
    /// All of them, from the narrowest to the widest.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// The best that this processor has.
    pub fn detect() -> Self {
        Self::here().last().unwrap_or(Self::Scalar)
    }

    /// Those that this processor has, from the narrowest to the widest.
    pub fn here() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kernel| kernel.is_here())
    }

    /// The kernel of that name, or the best one for an empty name.
    pub fn choose(name: &str) -> Result<Self, KernelError> {
        if name.is_empty() { Ok(Self::detect()) } else { name.parse() }
    }

    /// Whether this processor can run it: what a kernel asks before it begins. The
    /// answer is kept, so that asking costs a few loads.
    #[inline(always)]
    pub fn is_here(self) -> bool {
        match self {
            Self::Scalar => true,
            Self::Avx2 => has_avx2(),
            Self::Avx512 => has_avx512(),
        }
    }

    /// The name, as in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// How wide columns are compared and moved with it.
    pub fn width(self) -> Width {
        match self {
            Self::Scalar => Width::Plain,
            Self::Avx2 => Width::Avx2,
            Self::Avx512 => Width::Avx512,
        }
    }

    /// How routes are looked up with it.
    pub fn lookup(self) -> lpm::Kernel {
        match self {
            // One lane at a time, but with the instruction that counts bits, where there is one.
            Self::Scalar => lpm::Kernel::Bits,
            Self::Avx2 => lpm::Kernel::Avx2,
            Self::Avx512 => lpm::Kernel::Avx512,
        }
        .or_narrower()
    }

    /// What it needs of a processor.
    fn needs(self) -> &'static str {
        match self {
            Self::Scalar => "nothing",
            Self::Avx2 => "AVX2 (with BMI1, BMI2, POPCNT)",
            Self::Avx512 => "AVX-512 (F, BW, DQ, VL)",
        }
    }
}

impl FromStr for Kernel {
    type Err = KernelError;

    fn from_str(name: &str) -> Result<Self, KernelError> {
        let known = Self::ALL.into_iter().find(|kernel| kernel.name() == name);
        let kernel = known.ok_or_else(|| KernelError::Unknown(name.to_owned()))?;
        if kernel.is_here() { Ok(kernel) } else { Err(KernelError::NotHere(kernel.needs())) }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_chosen_by_name_or_refused_with_the_reason() {
        assert_eq!(Kernel::choose(""), Ok(Kernel::detect()));
        for kernel in Kernel::ALL {
            let desired = if kernel.is_here() {
                Ok(kernel)
            } else {
                Err(KernelError::NotHere(kernel.needs()))
            };
            assert_eq!(Kernel::choose(kernel.name()), desired);
            assert!(kernel.lookup().is_available());
        }
        assert_eq!(Kernel::choose("sse"), Err(KernelError::Unknown("sse".to_owned())));
        let refusal = KernelError::NotHere(Kernel::Avx2.needs()).to_string();
        assert!(refusal.starts_with("this processor has no AVX2 (with BMI1"), "{refusal}");
    }
}
