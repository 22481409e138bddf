//! The status of the router, and its last log messages.

use stoa_api::v1;

use super::{Service, configuration};
use crate::supervise;

/// The level of the messages that are listed: all that the log has kept.
const EVERY_LEVEL: &str = "trace";

impl Service {
    pub(super) async fn status_reply(&self) -> v1::StatusReply {
        let forwarder = self.connection.identity();
        let configuration = self.connection.configuration();
        v1::StatusReply {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: configuration
                .map(|configuration| configuration.path.display().to_string())
                .unwrap_or_default(),
            controller_pid: u64::from(std::process::id()),
            forwarder_pid: forwarder.as_ref().map_or(0, |hello| hello.pid),
            in_sync: self.connection.in_sync(),
            forwarder,
            started_unix_s: self.started_unix_s,
            supervisor_pid: supervise::supervisor(),
            state: self.datastore.state().display().to_string(),
            is_edited: self.datastore.is_edited(),
            confirm_by_unix_ms: configuration::confirm_by(&self.datastore),
            unconfirmed_author: configuration::unconfirmed_author(&self.datastore),
            https_problems: self.datastore.https_problems(),
            needs_restart: stoa_api::program::is_replaced(),
            lost_route_sources: self.learned.lost_route_sources().await,
            lock: configuration::lock(&self.datastore),
        }
    }

    /// The last messages of controller and forwarder, newest first.
    pub(super) async fn recent_messages(&self, limit: usize) -> v1::ShowMessagesReply {
        let messages = self.connection.recent.log_messages(limit, EVERY_LEVEL).await;
        let messages = messages.into_iter().map(|it| v1::ProgramMessage {
            program: it.program.to_owned(),
            message: Some(it.message),
        });
        v1::ShowMessagesReply { messages: messages.collect() }
    }
}
