//! The address of the management server, as the first user needs it.

use std::net::IpAddr;

use serde_json::Value;

/// The address of the management server.
pub struct ManagementServer {
    pub url: String,
    pub certificate: String,
    is_enabled: bool,
}

impl ManagementServer {
    /// The address in a configuration; `state` is the state folder.
    pub fn new(configuration: &Value, state: &str) -> ManagementServer {
        let https = &configuration["stoa-management:management"]["https"];
        let port = https["port"].as_u64().unwrap_or(8443);
        let own = format!("{state}/https/certificate.pem");
        let certificate = https["certificate"].as_str().map_or(own, str::to_owned);
        let url = format!("https://{}:{port}", host(https));
        ManagementServer { url, certificate, is_enabled: https["enabled"] != false }
    }

    /// What to do after the first user was created.
    pub fn next_steps(&self, name: &str) -> String {
        let ManagementServer { url, certificate, is_enabled } = self;
        if !is_enabled {
            return format!(
                "Created the administrator {name}. The server is disabled: run `stoa set management https \
                 enabled true` and `stoa commit`."
            );
        }
        format!(
            "Created the administrator {name}.\n\n\
             Test the login:    curl --cacert {certificate} -u {name} {url}/whoami\n\
             Remote access:     stoa set management https address ADDRESS && stoa commit\n\
             Another user:      stoa user add NAME --group GROUP"
        )
    }
}

/// The host name for requests from this machine: `localhost`, unless the server listens only on other addresses.
fn host(https: &Value) -> String {
    let addresses = https["address"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let addresses: Vec<IpAddr> = addresses.filter_map(|it| it.parse().ok()).collect();
    let is_local = |it: &IpAddr| it.is_loopback() || it.is_unspecified();
    match addresses.first() {
        Some(IpAddr::V4(first)) if !addresses.iter().any(is_local) => first.to_string(),
        Some(IpAddr::V6(first)) if !addresses.iter().any(is_local) => format!("[{first}]"),
        _ => "localhost".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_url_has_an_address_that_the_server_listens_on() {
        let host = |addresses: &[&str]| host(&json!({ "address": addresses }));
        assert_eq!(super::host(&json!(null)), "localhost");
        assert_eq!(host(&["192.0.2.1", "::1"]), "localhost");
        assert_eq!(host(&["0.0.0.0"]), "localhost");
        assert_eq!(host(&["192.0.2.1", "2001:db8::1"]), "192.0.2.1");
        assert_eq!(host(&["2001:db8::1"]), "[2001:db8::1]");
    }
}
