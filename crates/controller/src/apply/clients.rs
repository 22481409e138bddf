//! Clients of the services of the forwarder.

use stoa_api::v1::flow_synchronizer_client::FlowSynchronizerClient;
use stoa_api::v1::flow_table_client::FlowTableClient;
use stoa_api::v1::forwarder_client::ForwarderClient;
use stoa_api::v1::ipfix_exporter_client::IpfixExporterClient;
use stoa_api::v1::ipsec_table_client::IpsecTableClient;
use stoa_api::v1::login_table_client::LoginTableClient;
use stoa_api::v1::nat_table_client::NatTableClient;
use stoa_api::{MESSAGE_LIMIT_BYTES, v1};
use tonic::Status;
use tonic::transport::Channel;

use super::ForwarderConnection;

impl ForwarderConnection {
    /// A client for queries.
    pub fn client(&self) -> ForwarderClient<Channel> {
        self.client.clone()
    }

    /// A client for flows.
    pub fn flow_client(&self) -> FlowTableClient<Channel> {
        FlowTableClient::new(self.channel.clone())
    }

    /// A client for address translation.
    pub fn nat_client(&self) -> NatTableClient<Channel> {
        NatTableClient::new(self.channel.clone())
    }

    /// A client for counters of logins.
    pub fn login_client(&self) -> LoginTableClient<Channel> {
        LoginTableClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_LIMIT_BYTES)
    }

    /// A client for the export by IPFIX.
    pub fn ipfix_client(&self) -> IpfixExporterClient<Channel> {
        IpfixExporterClient::new(self.channel.clone())
    }

    /// A client for security associations.
    pub fn ipsec_client(&self) -> IpsecTableClient<Channel> {
        IpsecTableClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_LIMIT_BYTES)
    }

    /// The security associations; `None`: there are none, which needs no call.
    ///
    /// # Errors
    /// The forwarder does not answer.
    pub async fn list_associations(&self) -> Result<Option<v1::ListSasReply>, Status> {
        if !self.with_configuration(|it| it.is_some_and(|it| it.desired.ipsec.is_some())) {
            return Ok(None);
        }
        let mut client = self.ipsec_client();
        let listed = client.list_sas(v1::ListSasRequest {});
        listed.await.map(|it| Some(it.into_inner()))
    }

    /// A client for flows at a partner.
    pub fn flow_sync_client(&self) -> FlowSynchronizerClient<Channel> {
        FlowSynchronizerClient::new(self.channel.clone())
    }

    /// Whether the configuration in force has a partner for flows.
    pub fn has_partner(&self) -> bool {
        self.with_configuration(|it| it.is_some_and(|it| it.desired.flow_sync.is_some()))
    }

    /// Whether the configuration in force exports by IPFIX.
    pub fn exports(&self) -> bool {
        self.with_configuration(|it| it.is_some_and(|it| it.desired.ipfix.is_some()))
    }

    /// Whether the configuration in force translates addresses or prefixes.
    pub fn translates(&self) -> bool {
        let translates = |it: &stoa_api::v1::Desired| {
            it.nat.is_some() || it.nptv6.is_some() || it.siit.is_some()
        };
        self.with_configuration(|it| it.is_some_and(|it| translates(&it.desired)))
    }
}
