//! Which SIMD kernel runs: detected once at start, or forced.

use std::str::FromStr;

/// A family of kernels. All of them give the same packets and counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Plain Rust: the reference.
    Scalar,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

/// A kernel that is not known or not possible here.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KernelError {
    /// The name is none of ours.
    #[error("there is no kernel {0:?}: give scalar or avx512, or nothing for the best one")]
    Unknown(String),
    /// The processor lacks it.
    #[error("this processor has no AVX-512 (F, BW, DQ, VL): leave the kernel out for the best one")]
    NotHere,
}

impl Kernel {
    /// The best that this processor has.
    pub fn detect() -> Self {
        if has_avx512() { Self::Avx512 } else { Self::Scalar }
    }

    /// The kernel of that name, or the best one for an empty name.
    pub fn choose(name: &str) -> Result<Self, KernelError> {
        if name.is_empty() { Ok(Self::detect()) } else { name.parse() }
    }

    /// Whether this processor can run it: what a kernel asks before it begins. The
    /// answer is kept, so that asking costs a load.
    #[inline(always)]
    pub fn is_here(self) -> bool {
        self == Self::Scalar || has_avx512()
    }

    /// The name, as in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx512 => "avx512",
        }
    }
}

impl FromStr for Kernel {
    type Err = KernelError;

    fn from_str(name: &str) -> Result<Self, KernelError> {
        match name {
            "scalar" => Ok(Self::Scalar),
            "avx512" if has_avx512() => Ok(Self::Avx512),
            "avx512" => Err(KernelError::NotHere),
            other => Err(KernelError::Unknown(other.to_owned())),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}
