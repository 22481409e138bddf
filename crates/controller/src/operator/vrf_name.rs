//! Names of VRFs in requests.

use tonic::Status;

use super::Service;

impl Service {
    /// Checks the VRF of a request: it is configured, the default one ("") or "all".
    pub(super) fn check_vrf(&self, name: &str) -> Result<(), Status> {
        let configuration = self.connection.configuration();
        let vrfs = configuration.as_ref().map_or(&[][..], |it| &it.desired.vrfs);
        if name.is_empty() || name == "all" || vrfs.iter().any(|vrf| vrf.name == name) {
            return Ok(());
        }
        let known: Vec<&str> = vrfs.iter().map(|vrf| vrf.name.as_str()).collect();
        let known = ["default"].into_iter().chain(known).collect::<Vec<_>>().join(", ");
        Err(Status::not_found(format!("there is no VRF {name:?}: use {known} or all")))
    }
}
