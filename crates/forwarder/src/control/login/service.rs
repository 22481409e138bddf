//! Counters of logins over the contract.

use stoa_api::v1;
use stoa_api::v1::login_table_server::LoginTable;
use tonic::{Request, Response, Status};

use crate::control::forwarder_state::ForwarderState;
use crate::control::service::{Service, boot_id};

#[tonic::async_trait]
impl LoginTable for Service {
    async fn list_logins(
        &self,
        _: Request<v1::ListLoginsRequest>,
    ) -> Result<Response<v1::ListLoginsReply>, Status> {
        let (mut logins, mut after) = (Vec::new(), None);
        // Page by page, so that large tables do not delay other work.
        loop {
            let add = move |state: &mut ForwarderState| {
                let next = state.list_logins(after, &mut logins);
                (next, logins)
            };
            let Some((next, listed)) = self.on_state(add).await? else {
                return Ok(Response::new(v1::ListLoginsReply::default()));
            };
            (after, logins) = (next, listed);
            if after.is_none() {
                return Ok(Response::new(v1::ListLoginsReply { logins, run: boot_id() }));
            }
        }
    }
}
