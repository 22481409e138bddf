//! Prometheus scrapes the metrics over HTTPS with a password: every family has a help text, and the values match.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{
    Command, Configuration, LabError, Result, Router, Scratch, Tool, stoa_binary, wait_until,
};

const DEADLINE: Duration = Duration::from_secs(40);

fn system(what: &str) -> impl FnOnce(std::io::Error) -> LabError {
    let what = what.to_owned();
    |error| LabError::system(what, error)
}

/// A free TCP port.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(system("a free port"))?;
    Ok(listener.local_addr().map_err(system("its address"))?.port())
}

/// The answer of Prometheus to a GET.
fn get(port: u16, path: &str) -> std::result::Result<Value, String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).map_err(|error| format!("{error}: {answer}"))
}

#[test]
fn prometheus_reads_what_the_router_counts() -> Result<()> {
    let generator = json!({ "generator": {
        "count": "1000", "rate": "20000", "source": "198.18.1.2", "destination": "198.18.2.2",
    } });
    let address = |text: &str| text.parse().expect("an address");
    let mut configuration = Configuration::new(&[])
        .port("in", generator)
        .port("out", json!({ "null": {} }))
        .addresses("in", &[address("198.18.1.1/24")])
        .addresses("out", &[address("198.18.2.1/24")]);
    configuration.interface("out")["ietf-ip:ipv4"]["neighbor"] =
        json!([{ "ip": "198.18.2.2", "link-layer-address": "02:00:00:00:02:02" }]);
    let https = free_port()?;
    let hash = Command::program(stoa_binary()?).args(["user", "hash"]).input("watch me\n").run()?;
    let hash = hash.ok()?.stdout.trim().to_owned();
    let mut configuration = configuration.json();
    configuration["stoa-management:management"] = json!({
        "https": { "port": https },
        "user": [{ "name": "prometheus", "password-hash": hash }],
    });
    let router = Router::start(&stoa_binary()?, None, &configuration)?;

    let scratch = Scratch::new()?;
    let file = scratch.write(
        "prometheus.yml",
        format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
             scrape_configs:\n\
             - job_name: stoa\n  \
               scheme: https\n  \
               tls_config: {{insecure_skip_verify: true}}\n  \
               basic_auth: {{username: prometheus, password: watch me}}\n  \
               static_configs: [{{targets: ['127.0.0.1:{https}']}}]\n"
        ),
    )?;
    let port = free_port()?;
    let prometheus = Command::tool(Tool::PROMETHEUS)?
        .args([
            &format!("--config.file={}", file.display()),
            &format!("--storage.tsdb.path={}", scratch.file("data").display()),
            &format!("--web.listen-address=127.0.0.1:{port}"),
            "--log.level=warn",
        ])
        .spawn()?;
    let value = |query: &str| -> std::result::Result<String, String> {
        let answer = get(port, &format!("/api/v1/query?query={query}"))?;
        let text = answer["data"]["result"][0]["value"][1].as_str();
        text.map(str::to_owned).ok_or_else(|| format!("{query}: {answer}"))
    };
    let is = |query: &str, expected: &str| {
        let what = format!("{query} is {expected}");
        wait_until(&what, DEADLINE, || match value(query) {
            Ok(value) if value == expected => Ok(()),
            other => Err(format!("{other:?}; log of Prometheus: {}", prometheus.log())),
        })
    };
    is("up", "1")?;
    is("stoa_interface_receive_packets_total%7Binterface=%22in%22%7D", "1000")?;
    is("stoa_forwarder_up", "1")?;
    is("stoa_in_sync", "1")?;
    is("stoa_routes%7Bfamily=%22ipv4%22,protocol=%22direct%22%7D", "4")?;
    is("stoa_limit_max%7Bname=%22neighbors%22%7D", "16384")?;
    let families = get(port, "/api/v1/metadata").expect("it answers");
    let families = families["data"].as_object().expect("families").clone();
    let ours = families.iter().filter(|(name, _)| name.starts_with("stoa_"));
    let mut counted = 0;
    for (name, metadata) in ours {
        counted += 1;
        assert!(
            metadata[0]["help"].as_str().is_some_and(|help| help.len() > 3),
            "{name}: {metadata}"
        );
    }
    assert!(counted > 40, "{counted} families");
    assert_eq!(families["stoa_interface_receive_packets"][0]["unit"], "packets");

    let (_, _, _) = prometheus.stop()?;
    router.stop()
}
