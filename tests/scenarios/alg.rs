//! FTP and TFTP through application level gateways: vsftpd and tftpd-hpa, with the clients that people use.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{
    Background, Configuration, Host, LabError, Result, Router, Scratch, Tool, Topology,
    stoa_binary, wait_until,
};
use stoa_scenarios::{Scenario, side};

const MODULE: &str = "ietf-access-control-list";
const CONTENT: &str = "what the server has\n";

/// How curl asks for a data connection: `EPSV`, `PASV`, `EPRT` and `PORT`.
const WAYS: [&[&str]; 4] =
    [&[], &["--disable-epsv"], &["--ftp-port", "-"], &["--ftp-port", "-", "--disable-eprt"]];

/// host-a is inside, host-b outside. Both have servers.
struct Lab {
    scenario: Scenario,
    configuration: Value,
    _servers: Vec<Background>,
    _files: Scratch,
}

/// Begins vsftpd of a host.
fn ftp_server(host: &Host, files: &Scratch) -> Result<Background> {
    let folder = files.path().display();
    let text = format!(
        "background=NO\nlisten=NO\nlisten_ipv6=YES\nanonymous_enable=YES\nlocal_enable=NO\n\
         anon_root={folder}/public\nsecure_chroot_dir={folder}/empty\nconnect_from_port_20=YES\n\
         seccomp_sandbox=NO\nisolate=NO\nisolate_network=NO\nport_enable=YES\npasv_enable=YES\n"
    );
    let file = files.write(&format!("{}.conf", host.label()), text)?.display().to_string();
    let server = host.command(Tool::VSFTPD)?.args([&file]).spawn()?;
    await_port(host, "tcp", 21, &server)?;
    Ok(server)
}

/// Begins tftpd-hpa of a host.
fn tftp_server(host: &Host, files: &Scratch) -> Result<Background> {
    let folder = format!("{}/public", files.path().display());
    let arguments = ["--foreground", "--secure", "--address", ":69", &folder];
    let server = host.command(Tool::TFTPD)?.args(arguments).spawn()?;
    await_port(host, "udp", 69, &server)?;
    Ok(server)
}

fn await_port(host: &Host, protocol: &str, port: u16, server: &Background) -> Result<()> {
    let needle = format!(":{port:04X} ");
    wait_until("the server listens", Duration::from_secs(20), || {
        let files = [format!("/proc/net/{protocol}"), format!("/proc/net/{protocol}6")];
        let read = || -> Result<String> {
            let program = "import sys\nfor name in sys.argv[1:]: print(open(name).read())";
            let command = host.command(Tool::PYTHON)?.args(["-c", program]).args(&files);
            Ok(command.run()?.stdout)
        };
        let printed = read().map_err(|error| error.to_string())?;
        if printed.contains(&needle) { Ok(()) } else { Err(server.log()) }
    })
}

fn files() -> Result<Scratch> {
    let files = Scratch::new()?;
    let failed = |error| LabError::system("make the folders of the servers", error);
    for folder in ["public", "empty"] {
        let path = files.file(folder);
        std::fs::create_dir_all(&path).map_err(failed)?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o555)).map_err(failed)?;
    }
    std::fs::set_permissions(files.path(), PermissionsExt::from_mode(0o755)).map_err(failed)?;
    let file = files.write("public/file", CONTENT)?;
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o444)).map_err(failed)?;
    Ok(files)
}

impl Lab {
    fn begin(acls: Option<Value>, nat: Option<Value>) -> Result<Self> {
        let sides = [side("host-a", 1)?, side("host-b", 2)?];
        let topology = Topology::new(&sides)?;
        let mut configuration = Configuration::new(&sides).json();
        for (module, part) in [("ietf-access-control-list:acls", acls), ("ietf-nat:nat", nat)] {
            if let Some(part) = part {
                configuration[module] = part;
            }
        }
        let router = Router::start(&stoa_binary()?, Some(topology.router()), &configuration)?;
        router.wait_up(&["host-a", "host-b"])?;
        let (files, mut servers) = (files()?, Vec::new());
        for host in topology.hosts() {
            servers.push(ftp_server(host, &files)?);
            servers.push(tftp_server(host, &files)?);
        }
        let scenario = Scenario { router, topology };
        Ok(Self { scenario, configuration, _servers: servers, _files: files })
    }

    fn router(&self) -> &Router {
        &self.scenario.router
    }

    fn reload(&mut self, module: &str, part: Value) -> Result<()> {
        self.configuration[module] = part;
        let output = self.router().reload(&self.configuration)?;
        assert!(output.success(), "{}{}", output.stdout, output.stderr);
        Ok(())
    }
}

/// What a host gets by curl from a server.
fn curl(from: &Host, scheme: &str, address: &str, way: &[&str]) -> Result<String> {
    let url = format!("{scheme}://{address}/file");
    let arguments = ["-sS", "--noproxy", "*", "--max-time", "6", "--connect-timeout", "5", &url];
    let output = from.command(Tool::CURL)?.args(arguments).args(way).run()?;
    Ok(if output.success() { output.stdout } else { output.stderr })
}

/// The same by lftp, active or passive.
fn lftp(from: &Host, address: &str, is_passive: bool) -> Result<String> {
    let script = format!(
        "set net:timeout 5; set net:max-retries 1; set ftp:passive-mode {is_passive}; \
         set ftp:ssl-allow false; open ftp://{address}; cat file; exit"
    );
    let output = from.command(Tool::LFTP)?.args(["-c", &script]).run()?;
    Ok(if output.success() { output.stdout } else { output.stderr })
}

fn rule(name: &str, protocol: &str, port: u16, alg: Option<&str>) -> Value {
    let mut actions =
        json!({ "forwarding": format!("{MODULE}:accept"), "stoa-acl:stateful": true });
    if let Some(alg) = alg {
        actions["stoa-acl:alg"] = json!(alg);
    }
    json!({
        "name": name,
        "matches": { protocol: { "destination-port": { "operator": "eq", "port": port } } },
        "actions": actions,
    })
}

/// Hosts inside may use FTP and TFTP, and nothing else passes but neighbour discovery.
fn lists(has_algs: bool) -> Value {
    let alg = |name| has_algs.then_some(name);
    let rules = [rule("ftp", "tcp", 21, alg("ftp")), rule("tftp", "udp", 69, alg("tftp"))];
    // Not all packets: neighbour advertisements that no rule matches pass.
    let drop = json!({
        "name": "web",
        "matches": { "tcp": { "destination-port": { "port": 80 } } },
        "actions": { "forwarding": format!("{MODULE}:drop") },
    });
    let attach = |interface: &str, list: &str| {
        json!({
            "interface-id": interface,
            "ingress": { "acl-sets": { "acl-set": [{ "name": list }] } },
        })
    };
    json!({
        "acl": [
            { "name": "out", "aces": { "ace": rules } },
            { "name": "in", "aces": { "ace": [drop] } },
        ],
        "attachment-points": { "interface": [attach("host-a", "out"), attach("host-b", "in")] },
    })
}

/// A policy whose external interface is host-b, and servers inside behind its address.
fn nat(has_algs: bool) -> Value {
    let algs = json!([
        { "name": "ftp", "transport-protocol": 6 },
        { "name": "tftp", "transport-protocol": 17, "status": true },
    ]);
    let forward = json!({
        "index": 1, "type": "static", "transport-protocol": 6,
        "internal-src-address": "198.18.1.2/32", "internal-src-port": { "start-port-number": 21 },
        "external-src-address": "198.18.2.1/32", "external-src-port": { "start-port-number": 21 },
    });
    json!({ "instances": { "instance": [{
        "id": 1,
        "policy": [{
            "id": 1,
            "external-realm": { "external-interface": "host-b" },
            "algs": if has_algs { algs } else { json!([]) },
        }],
        "mapping-table": { "mapping-entry": [forward] },
    }] } })
}

#[test]
fn rules_let_data_connections_in() -> Result<()> {
    let mut lab = Lab::begin(Some(lists(true)), None)?;
    let inside = lab.scenario.host("host-a");
    for address in ["198.18.2.2", &format!("[{}]", lab.scenario.host("host-b").address(true)?)] {
        for way in WAYS {
            if address.starts_with('[') && way.last() == Some(&"--disable-eprt") {
                continue;
            }
            assert_eq!(curl(inside, "ftp", address, way)?, CONTENT, "{address} {way:?}");
        }
        for is_passive in [true, false] {
            assert_eq!(lftp(inside, address, is_passive)?, CONTENT, "{address} {is_passive}");
        }
    }
    assert_eq!(curl(inside, "tftp", "198.18.2.2", &[])?, CONTENT);
    let shown = lab.router().json(&["show", "flows", "--summary", "--json"])?;
    assert!(shown["algs"]["begun"].as_u64() >= Some(12), "{shown}");
    assert_eq!(shown["algs"]["passed"]["foreign"], 0, "{shown}");
    let state = lab.router().json(&["show", "state", "/ietf-access-control-list:acls"])?;
    let algs = &state["ietf-access-control-list:acls"]["stoa-acl:flows"]["algs"];
    assert_eq!(algs["capacity"], "4096", "{state}");
    let metrics = lab.router().call(&["show", "metrics"])?.stdout;
    assert!(metrics.contains("stoa_alg_begun_total"), "{metrics}");
    // Without gateways only the control connection passes.
    lab.reload("ietf-access-control-list:acls", lists(false))?;
    let inside = lab.scenario.host("host-a");
    for way in [WAYS[0], WAYS[2]] {
        assert_ne!(curl(inside, "ftp", "198.18.2.2", way)?, CONTENT, "{way:?}");
    }
    lab.scenario.end()
}

#[test]
fn addresses_of_data_connections_are_translated() -> Result<()> {
    for acls in [None, Some(lists(false))] {
        let has_rules = acls.is_some();
        let mut lab = Lab::begin(acls, Some(nat(true)))?;
        let (inside, outside) = (lab.scenario.host("host-a"), lab.scenario.host("host-b"));
        for way in WAYS {
            assert_eq!(curl(inside, "ftp", "198.18.2.2", way)?, CONTENT, "{way:?}");
        }
        for is_passive in [true, false] {
            assert_eq!(lftp(inside, "198.18.2.2", is_passive)?, CONTENT, "{is_passive}");
        }
        assert_eq!(curl(inside, "tftp", "198.18.2.2", &[])?, CONTENT);
        if !has_rules {
            // The server inside, by the address of the router.
            for way in WAYS {
                assert_eq!(curl(outside, "ftp", "198.18.2.1", way)?, CONTENT, "{way:?}");
            }
        }
        lab.reload("ietf-nat:nat", nat(false))?;
        let inside = lab.scenario.host("host-a");
        assert_ne!(curl(inside, "ftp", "198.18.2.2", WAYS[3])?, CONTENT);
        lab.scenario.end()?;
    }
    Ok(())
}
