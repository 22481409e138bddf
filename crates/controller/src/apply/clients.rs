//! Clients of the services of the forwarder.

use stoa_api::MESSAGE_LIMIT_BYTES;
use stoa_api::v1::flow_synchronizer_client::FlowSynchronizerClient;
use stoa_api::v1::flow_table_client::FlowTableClient;
use stoa_api::v1::forwarder_client::ForwarderClient;
use stoa_api::v1::ipfix_exporter_client::IpfixExporterClient;
use stoa_api::v1::login_table_client::LoginTableClient;
use stoa_api::v1::nat_table_client::NatTableClient;
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
