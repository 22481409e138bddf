//! Settings of DPDK devices: those of a list, with values that name nothing outside of the folder of sockets.
//!
//! DPDK's drivers open any file (`net_pcap0,tx_pcap=...`) and run any command (`net_failsafe0,exec(...)`) that their
//! settings name.

use super::Confined;
use crate::error::OpenError;

const FIELD: &str = "device";

/// Drivers of virtual devices, and their settings.
const VIRTUAL: &[(&str, &[&str])] = &[
    (
        "net_memif",
        &[
            "role",
            "id",
            "bsize",
            "rsize",
            "socket",
            "socket-abstract",
            "mac",
            "secret",
            "zero-copy",
        ],
    ),
    ("net_null", &["size", "copy", "no-rx"]),
    ("net_ring", &[]),
    ("net_tap", &["iface", "mac", "remote"]),
    ("net_af_packet", &["iface", "qpairs", "blocksz", "framesz", "framecnt", "qdisc_bypass"]),
    (
        "net_vhost",
        &["iface", "queues", "client", "iommu-support", "tso", "linear-buffer", "ext-buffer"],
    ),
];

/// Settings of network cards (DPDK 22.11): numbers and switches, none of which names a file.
const CARD: &[&str] = &[
    // mlx5
    "rxq_cqe_comp_en",
    "rxq_pkt_pad_en",
    "mprq_en",
    "mprq_log_stride_num",
    "mprq_log_stride_size",
    "mprq_max_memcpy_len",
    "rxqs_min_mprq",
    "txq_inline_min",
    "txq_inline_max",
    "txq_inline_mpw",
    "txqs_min_inline",
    "txqs_max_vec",
    "txq_mpw_en",
    "txq_mpw_hdr_dseg_en",
    "txq_max_inline_len",
    "tx_db_nc",
    "tx_vec_en",
    "rx_vec_en",
    "dv_flow_en",
    "mr_ext_memseg_en",
    "mr_mempool_reg_en",
    "delay_drop",
    "representor",
    // i40e, iavf, ice
    "support-multi-driver",
    "queue-num-per-vf",
    "quanta_size",
    "safe-mode-support",
    "proto_xtr",
    "rx_low_latency",
    // ena
    "large_llq_hdr",
    "miss_txc_to",
    // virtio
    "speed",
    "vectorized",
];

/// The device with its settings, in which paths of sockets are in their folder.
pub(super) fn confine(device: &str, sockets: Confined<'_>) -> Result<String, OpenError> {
    let mut parts = device.split(',');
    let name = parts.next().unwrap_or(device);
    let (driver, known) = settings_of(name)?;
    let given: Vec<(&str, Option<&str>)> = parts
        .map(|part| part.split_once('=').map_or((part, None), |(key, value)| (key, Some(value))))
        .collect();
    let is_set = |key: &str, to: &str| given.contains(&(key, Some(to)));
    // A socket of memif is abstract, and no file, unless this setting says otherwise.
    let is_file = match driver {
        "net_memif" => is_set("socket-abstract", "no"),
        _ => driver == "net_vhost",
    };
    let socket = if driver == "net_vhost" { "iface" } else { "socket" };
    if is_file && given.iter().all(|(key, _)| *key != socket) {
        let fix = format!("{name} has no {socket}: add {socket}=NAME");
        return Err(OpenError::Config { field: FIELD, reason: fix });
    }
    // DPDK searches for these words in the value.
    if given
        .iter()
        .any(|(key, value)| *key == "socket-abstract" && !matches!(value, Some("yes" | "no")))
    {
        let reason = "socket-abstract is neither yes nor no".to_owned();
        return Err(OpenError::Config { field: FIELD, reason });
    }
    let mut whole = name.to_owned();
    for (key, value) in given {
        if !known.contains(&key) {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let reason = format!("{name} may not have the setting {key:?}; permitted are: {known}");
            return Err(OpenError::Config { field: FIELD, reason });
        }
        whole.push(',');
        whole.push_str(key);
        let Some(value) = value else { continue };
        whole.push('=');
        match key == socket && (is_file || driver == "net_memif") {
            true if is_file => whole.push_str(&sockets.path(FIELD, value)?.to_string_lossy()),
            is_abstract => {
                check_value(key, value, is_abstract)?;
                whole.push_str(value);
            }
        }
    }
    Ok(whole)
}

/// The driver of a device, "" for a card, and the settings that it may have.
fn settings_of(name: &str) -> Result<(&'static str, &'static [&'static str]), OpenError> {
    let is_numbered = |number: &str| {
        !number.is_empty() && number.len() <= 5 && number.bytes().all(|it| it.is_ascii_digit())
    };
    let is_of = |driver: &str| name.strip_prefix(driver).is_some_and(is_numbered);
    if let Some((driver, known)) = VIRTUAL.iter().find(|(driver, _)| is_of(driver)) {
        return Ok((driver, known));
    }
    let is_address = name.contains(':')
        && name.contains('.')
        && name.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
    if is_address {
        return Ok(("", CARD));
    }
    let drivers: Vec<&str> = VIRTUAL.iter().map(|(driver, _)| *driver).collect();
    let reason = format!(
        "{name} is neither a PCI address (0000:3b:00.0) nor a permitted virtual device: {}, each with a number \
         behind it",
        drivers.join(", ")
    );
    Err(OpenError::Config { field: FIELD, reason })
}

/// Checks that a value has no character with a meaning for DPDK or a file system.
fn check_value(key: &str, value: &str, may_have_slash: bool) -> Result<(), OpenError> {
    let is_plain = |byte: u8| {
        byte.is_ascii_alphanumeric() || b"._-+@:".contains(&byte) || may_have_slash && byte == b'/'
    };
    if !value.is_empty() && value.bytes().all(is_plain) {
        return Ok(());
    }
    let reason = format!("{value:?} is no value of {key}: use letters, digits and . _ - + @ :");
    Err(OpenError::Config { field: FIELD, reason })
}
