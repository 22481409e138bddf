//! The short form of a run file on the command line: two ports with one stream, or one in each
//! direction.

use serde_json::{Map, Value, json};

/// Command line options in place of a run file.
#[derive(Clone, Debug, Default)]
pub struct Short {
    /// `NAME=DRIVER:TARGET[,KEY=VALUE...]`, two of them.
    pub ports: Vec<String>,
    /// Frame size, or a mix.
    pub size: Option<String>,
    /// Whether a second stream is sent in the opposite direction.
    pub both: bool,
    /// Source and destination address of the first stream.
    pub addresses: (Option<String>, Option<String>),
    /// Flows of each stream.
    pub flows: Option<u32>,
    /// VLAN of each stream.
    pub vlan: Option<u16>,
}

/// The equivalent run file as JSON.
///
/// # Errors
///
/// Malformed ports.
pub fn run_file(short: &Short) -> Result<String, String> {
    if short.ports.len() != 2 {
        return Err(format!("{} ports: give --port twice, or a run file", short.ports.len()));
    }
    let mut ports = Map::new();
    let mut names = Vec::new();
    for text in &short.ports {
        let (name, port) = port(text)?;
        if ports.insert(name.clone(), port).is_some() {
            return Err(format!("two ports are called {name}: give each its own name"));
        }
        names.push(name);
    }
    let mut streams = vec![stream(short, (&names[0], &names[1]), &short.addresses)];
    if short.both {
        let (source, destination) = short.addresses.clone();
        streams.push(stream(short, (&names[1], &names[0]), &(destination, source)));
    }
    Ok(json!({ "ports": ports, "streams": streams }).to_string())
}

fn stream(
    short: &Short,
    (from, to): (&str, &str),
    (source, destination): &(Option<String>, Option<String>),
) -> Value {
    let mut stream = Map::new();
    stream.insert("name".into(), format!("{from}-{to}").into());
    stream.insert("from".into(), from.into());
    stream.insert("to".into(), to.into());
    if let Some(size) = &short.size {
        stream.insert("size".into(), size.as_str().into());
    }
    if let Some(flows) = short.flows {
        stream.insert("flows".into(), flows.into());
    }
    if let Some(vlan) = short.vlan {
        stream.insert("vlan".into(), vlan.into());
    }
    let mut ip = Map::new();
    for (key, address) in [("source", source), ("destination", destination)] {
        if let Some(address) = address {
            ip.insert(key.into(), address.as_str().into());
        }
    }
    let is_six = [source, destination].into_iter().flatten().any(|one| one.contains(':'));
    if !ip.is_empty() {
        stream.insert(if is_six { "ip6" } else { "ip4" }.into(), ip.into());
    }
    stream.into()
}

/// `NAME=DRIVER:TARGET[,KEY=VALUE...]`.
fn port(text: &str) -> Result<(String, Value), String> {
    let wrong = |reason: &str| {
        format!(
            "--port {text}: {reason}: write NAME=DRIVER:TARGET[,KEY=VALUE...], such as \
             a=memif:/run/dut.sock,role=slave or b=af-packet:eth1"
        )
    };
    let (name, rest) = text.split_once('=').ok_or_else(|| wrong("there is no ="))?;
    let mut parts = rest.split(',');
    let first = parts.next().unwrap_or_default();
    let (driver, target) = first.split_once(':').unwrap_or((first, ""));
    let mut settings = Map::new();
    match driver {
        "memif" => {
            settings.insert("socket".into(), target.into());
            settings.insert("role".into(), "slave".into());
        }
        "af-packet" | "af-xdp" | "auto" | "tap" | "dpdk" => {
            settings.insert("device".into(), target.into());
        }
        "pcap" if !target.is_empty() => {
            settings.insert("output".into(), target.into());
        }
        "pcap" | "discard" => {}
        _ => {
            return Err(wrong(
                "the driver is none of memif, af-packet, af-xdp, auto, tap, dpdk, pcap and discard",
            ));
        }
    }
    let mut port = Map::new();
    for part in parts {
        let (key, value) = part.split_once('=').ok_or_else(|| wrong("a setting has no ="))?;
        let number = value.parse::<u64>().map(Value::from);
        let value = || number.clone().unwrap_or_else(|_| value.into());
        match key {
            "address" | "gateway" => {
                let list = if key == "address" { "addresses" } else { "gateways" };
                let list = port.entry(list).or_insert_with(|| json!([]));
                if let Value::Array(list) = list {
                    list.push(value());
                }
            }
            "mac" | "line-rate" | "mtu" => {
                port.insert(key.into(), value());
            }
            // DPDK drivers have settings of their own, which follow the device.
            _ if driver == "dpdk" && !["queues", "ring-size"].contains(&key) => {
                if let Some(Value::String(device)) = settings.get_mut("device") {
                    *device += &format!(",{part}");
                }
            }
            // The driver has its own settings; unknown ones are rejected when the file is parsed.
            _ => {
                settings.insert(key.into(), value());
            }
        }
    }
    port.insert(driver.into(), settings.into());
    Ok((name.to_owned(), port.into()))
}

#[cfg(test)]
mod tests {
    use stoa_ports::PortConfig;

    use super::*;
    use crate::plan::parse;

    fn ports(one: &str, other: &str) -> Short {
        Short { ports: vec![one.into(), other.into()], ..Short::default() }
    }

    #[test]
    fn parses_two_ports() {
        let mut short = ports(
            "a=memif:@x,id=3,secret=word,address=192.0.2.1/24,gateway=192.0.2.254",
            "b=af-packet:eth1,netns=blue,mac=02:00:00:00:00:01,line-rate=1gbps",
        );
        short.size = Some("campus".into());
        let campus = parse(&run_file(&short).unwrap()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((campus.streams[0].order.len(), campus.streams[0].longest()), (100, 1500));
        short.size = Some("imix1".into());
        short.both = true;
        short.vlan = Some(7);
        let plan = parse(&run_file(&short).unwrap()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((plan.ports.len(), plan.streams.len()), (2, 2));
        assert_eq!(plan.streams[1].name, "b-a");
        assert_eq!((plan.ports[0].gateways.len(), plan.ports[1].line), (1, Some(1e9)));
        short.addresses = (Some("2001:db8::1".into()), None);
        assert!(parse(&run_file(&short).unwrap()).is_err(), "imix1 is IPv4");
        short.size = None;
        assert_eq!(parse(&run_file(&short).unwrap()).unwrap().streams[0].shapes[0].size, 82);
    }

    #[test]
    fn dpdk_settings_follow_the_device() {
        let short = ports(
            "a=dpdk:net_memif0,role=client,queues=2,socket=/run/a.sock",
            "b=dpdk:0000:3b:00.0,ring-size=512,mac=02:00:00:00:00:01",
        );
        let plan = parse(&run_file(&short).unwrap()).unwrap_or_else(|error| panic!("{error}"));
        let [PortConfig::Dpdk(a), PortConfig::Dpdk(b)] = [0, 1].map(|at| &plan.ports[at].config)
        else {
            panic!("{:?}", plan.ports)
        };
        assert_eq!(a.device, "net_memif0,role=client,socket=/run/a.sock");
        assert_eq!((a.rx_queues, a.tx_queues, a.ring_size), (2, 2, 0));
        assert_eq!((b.device.as_str(), b.ring_size), ("0000:3b:00.0", 512));
    }

    #[test]
    fn errors_are_reported() {
        for (one, reason) in [
            ("a", "there is no ="),
            ("a=ether:x", "none of memif"),
            ("a=memif:x,slave", "a setting has no ="),
        ] {
            let error = run_file(&ports(one, "b=discard")).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        assert!(run_file(&ports("a=discard", "a=discard")).unwrap_err().contains("called a"));
        assert!(run_file(&Short::default()).unwrap_err().contains("--port twice"));
        let unknown = run_file(&ports("a=memif:x,colour=red", "b=discard")).unwrap();
        assert!(parse(&unknown).unwrap_err().to_string().contains("colour"));
    }
}
