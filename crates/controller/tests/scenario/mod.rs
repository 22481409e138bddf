//! A controller with its own folder and a fake forwarder.

use std::path::PathBuf;
use std::time::Duration;

use stoa_api::unix;
use stoa_api::v1::operator_client::OperatorClient;
use stoa_api::v1::{self, StatusReply};
use stoa_controller::service::{self, Error, Options};
use tokio::task::JoinHandle;
use tonic::transport::Channel;

use crate::fake::{Fake, Record};

/// Time limit of [`until`].
pub const DEADLINE: Duration = Duration::from_secs(20);

/// A controller with its own folder.
pub struct Scenario {
    folder: tempfile::TempDir,
    pub record: Record,
    pub controller: Option<JoinHandle<Result<(), Error>>>,
}

impl Scenario {
    pub fn new(config: &str) -> Scenario {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("stoa.json"), config).unwrap();
        Scenario { folder, record: Record::default(), controller: None }
    }

    /// A file in its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn forwarder(&self) -> Fake {
        Fake::start(&self.path("forwarder.sock"), &self.record)
    }

    pub fn start(&mut self) {
        let options = Options {
            config: self.path("stoa.json"),
            state: self.path("stoa.state"),
            socket: self.path("stoa.sock"),
            forwarder_socket: self.path("forwarder.sock"),
            spare_queue: |_, _, _| Err(std::io::ErrorKind::Unsupported.into()),
        };
        self.controller = Some(tokio::spawn(service::run(options, drop)));
    }

    /// Ends the controller like SIGKILL.
    pub async fn kill(&mut self) {
        let controller = self.controller.take().unwrap();
        controller.abort();
        let _ = controller.await;
    }

    pub async fn operator(&self) -> OperatorClient<Channel> {
        let socket = self.path("stoa.sock");
        let connected =
            until("the operator's socket answers", async || unix::connect(&socket).await.ok());
        OperatorClient::new(connected.await)
    }

    pub async fn in_sync(&self) -> StatusReply {
        let operator = self.operator().await;
        until("the forwarder has the configuration", async || {
            let status = operator.clone().status(v1::StatusRequest {}).await.ok()?.into_inner();
            status.in_sync.then_some(status)
        })
        .await
    }

    pub async fn reload(&self, config: &str) -> v1::ReloadReply {
        std::fs::write(self.path("stoa.json"), config).unwrap();
        let request = v1::ReloadRequest { path: String::new() };
        self.operator().await.reload(request).await.unwrap().into_inner()
    }

    pub fn applied(&self) -> Vec<v1::Desired> {
        self.record.applied.lock().unwrap().clone()
    }
}

/// Waits until `probe` returns a value.
pub async fn until<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(value) = probe().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    match tokio::time::timeout(DEADLINE, wait).await {
        Ok(value) => value,
        Err(_) => panic!("timeout: {what}"),
    }
}

/// A configuration with a null interface for each address.
pub fn config(addresses: &[&str]) -> String {
    let interfaces: Vec<String> = addresses
        .iter()
        .enumerate()
        .map(|(number, address)| {
            format!(
                r#"{{"name": "if{number}", "type": "iana-if-type:ethernetCsmacd",
                     "stoa-interfaces:port": {{"null": {{}}}},
                     "ietf-ip:ipv4": {{"address": [{{"ip": "{address}", "prefix-length": 24}}]}}}}"#
            )
        })
        .collect();
    format!(r#"{{"ietf-interfaces:interfaces": {{"interface": [{}]}}}}"#, interfaces.join(","))
}
