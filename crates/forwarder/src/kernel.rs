//! The choice of the SIMD kernel: detected at start or configured.

use std::str::FromStr;

use stoa_engine::column::Width;
use stoa_tables::lpm;

/// An instruction set for SIMD kernels. All kernels produce the same packets and counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Scalar Rust: the reference.
    Scalar,
    /// AVX2, with BMI1, BMI2 and POPCNT.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

/// An unknown kernel, or one that the processor does not support.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum KernelError {
    /// Unknown name.
    #[error("unknown kernel {0:?}: use scalar, avx2 or avx512, or omit it for the best one")]
    Unknown(String),
    /// The processor lacks the instructions.
    #[error("this processor does not support {0}: omit the kernel for the best one")]
    Unsupported(&'static str),
}

impl Kernel {
    /// All kernels, from the narrowest to the widest.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// The widest kernel that this processor supports.
    pub fn detect() -> Self {
        Self::available().last().unwrap_or(Self::Scalar)
    }

    /// The kernels that this processor supports, from the narrowest to the widest.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kernel| kernel.is_available())
    }

    /// The kernel of that name, or the best one for an empty name.
    pub fn choose(name: &str) -> Result<Self, KernelError> {
        if name.is_empty() { Ok(Self::detect()) } else { name.parse() }
    }

    /// Whether this processor supports it; each kernel asserts this. The detection is cached, so
    /// that the check costs a few loads.
    #[inline(always)]
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            Self::Avx2 => has_avx2(),
            Self::Avx512 => has_avx512(),
        }
    }

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The vector width for comparing and moving columns.
    pub fn width(self) -> Width {
        match self {
            Self::Scalar => Width::Plain,
            Self::Avx2 => Width::Avx2,
            Self::Avx512 => Width::Avx512,
        }
    }

    /// The route lookup kernel.
    pub fn lookup(self) -> lpm::Kernel {
        match self {
            // One lane at a time, but with POPCNT where the processor has it.
            Self::Scalar => lpm::Kernel::Bits,
            Self::Avx2 => lpm::Kernel::Avx2,
            Self::Avx512 => lpm::Kernel::Avx512,
        }
        .or_narrower()
    }

    /// The processor features that it requires.
    fn requirements(self) -> &'static str {
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
        if kernel.is_available() {
            Ok(kernel)
        } else {
            Err(KernelError::Unsupported(kernel.requirements()))
        }
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
            let expected = if kernel.is_available() {
                Ok(kernel)
            } else {
                Err(KernelError::Unsupported(kernel.requirements()))
            };
            assert_eq!(Kernel::choose(kernel.name()), expected);
            assert!(kernel.lookup().is_available());
        }
        assert_eq!(Kernel::choose("sse"), Err(KernelError::Unknown("sse".to_owned())));
        let refusal = KernelError::Unsupported(Kernel::Avx2.requirements()).to_string();
        assert!(
            refusal.starts_with("this processor does not support AVX2 (with BMI1"),
            "{refusal}"
        );
    }
}
