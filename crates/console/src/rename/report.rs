//! What `rename` tells the operator.

/// The result of `rename` as text.
pub fn report(references: usize) -> String {
    match references {
        0 => "Renamed. No reference to it was found.".to_owned(),
        1 => "Renamed, also in 1 reference.".to_owned(),
        count => format!("Renamed, also in {count} references."),
    }
}
