//! An operator of the controller's socket.

use stoa_api::v1;
use stoa_api::v1::configuration_edit::Edit;
use stoa_api::v1::operator_client::OperatorClient;
use tonic::transport::Channel;

use crate::scenario::Scenario;

/// The address of the first interface in `config`.
pub const ADDRESS: &str =
    "/ietf-interfaces:interfaces/interface[name='if0']/ietf-ip:ipv4/address[ip='10.0.0.1']";

/// An operator who sends one request after the other.
pub struct TestOperator {
    pub client: OperatorClient<Channel>,
    pub caller: v1::Caller,
}

impl TestOperator {
    pub async fn of(scenario: &Scenario) -> TestOperator {
        scenario.in_sync().await;
        TestOperator { client: scenario.operator().await, caller: v1::Caller::default() }
    }

    pub async fn edit(&mut self, edit: Edit) -> Vec<v1::ValidationError> {
        let edits = vec![v1::ConfigurationEdit { edit: Some(edit) }];
        let request = v1::EditRequest { caller: Some(self.caller.clone()), edits };
        self.client.edit(request).await.unwrap().into_inner().errors
    }

    pub async fn set(&mut self, path: &str, value: &str) -> Vec<v1::ValidationError> {
        let value = (!value.is_empty()).then(|| value.to_owned());
        self.edit(Edit::Set(v1::SetEdit { path: path.into(), value })).await
    }

    /// Sets the prefix length of the first address.
    pub async fn set_length(&mut self, length: &str) {
        assert_eq!(self.set(&format!("{ADDRESS}/prefix-length"), length).await, []);
    }

    pub async fn commit(&mut self, within_s: u32, is_overwriting: bool) -> v1::CommitReply {
        let request = v1::CommitRequest {
            caller: Some(self.caller.clone()),
            comment: "a test".into(),
            confirm_within_s: within_s,
            is_overwriting,
            ..v1::CommitRequest::default()
        };
        self.client.commit(request).await.unwrap().into_inner()
    }

    pub async fn text(&mut self, store: v1::Store) -> String {
        let request = v1::ShowConfigurationRequest {
            which: Some(v1::show_configuration_request::Which::Store(store.into())),
            ..Default::default()
        };
        self.client.show_configuration(request).await.unwrap().into_inner().text
    }

    pub async fn history(&mut self) -> v1::ShowHistoryReply {
        self.client.show_history(v1::ShowHistoryRequest {}).await.unwrap().into_inner()
    }

    pub async fn differs(&mut self) -> usize {
        let reply = self.client.compare(v1::CompareRequest::default()).await.unwrap().into_inner();
        assert_eq!(reply.errors, []);
        reply.changes.len()
    }
}
