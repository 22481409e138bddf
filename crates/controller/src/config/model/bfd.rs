//! stoa-bfd.

use serde::Deserialize;
use stoa_api::v1;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Bfd {
    pub session: Vec<v1::BfdSession>,
}
