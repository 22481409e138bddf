//! The log messages of this process for the controller, without the control thread.

use stoa_api::v1::log_server::Log;
use stoa_api::v1::{ListMessagesReply, ListMessagesRequest};
use tonic::{Request, Response, Status};

/// The service.
pub(super) struct LogService;

#[tonic::async_trait]
impl Log for LogService {
    async fn list_messages(
        &self,
        _: Request<ListMessagesRequest>,
    ) -> Result<Response<ListMessagesReply>, Status> {
        Ok(Response::new(ListMessagesReply { messages: stoa_log::recent() }))
    }
}
