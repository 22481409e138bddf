//! The shape that every cause of refusal has: an enum without fields, a short name, a sentence.

/// Declares a cause enum: each line gives the variant, its short name for counters and drop
/// reports (lower case, dashes), and the sentence that people read.
macro_rules! causes {
    ($(#[$meta:meta])* $name:ident { $($variant:ident = $short:literal, $description:literal;)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name {
            $(#[doc = $description] $variant,)+
        }

        impl $name {
            /// Every cause, ordered so that `ALL[cause as usize] == cause`.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The short name for counters and drop reports: lower case, dashes.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $short,)+
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                out.write_str(match self {
                    $(Self::$variant => $description,)+
                })
            }
        }

        impl core::error::Error for $name {}
    };
}

#[cfg(test)]
mod tests {
    use crate::ipv4::Ip4Error;

    #[test]
    fn causes_index_counters_and_have_distinct_names() {
        for (index, cause) in Ip4Error::ALL.iter().enumerate() {
            assert_eq!(*cause as usize, index);
            assert!(!cause.to_string().is_empty());
            let same = Ip4Error::ALL.iter().filter(|other| other.name() == cause.name());
            assert_eq!(same.count(), 1);
        }
    }
}
