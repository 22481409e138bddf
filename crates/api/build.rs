//! Compiles the contract without an installed `protoc`.

/// The message of options.
const OPTIONS: &str = "FamilyOptions";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(
        [
            "proto/stoa/v1/audit.proto",
            "proto/stoa/v1/configuration.proto",
            "proto/stoa/v1/forwarder.proto",
            "proto/stoa/v1/log.proto",
            "proto/stoa/v1/operator.proto",
            "proto/stoa/v1/punts.proto",
            "proto/stoa/v1/rows.proto",
            "proto/stoa/v1/trace_capture.proto",
            "proto/gnmi/gnmi.proto",
            "proto/gnmi/gnmi_ext.proto",
        ],
        ["proto"],
    )?;
    // BTreeMap: the keys of a path have a stable order.
    let mut code = tonic_prost_build::configure().btree_map(".gnmi");
    // Options are read from the configuration as they are: a field is a leaf of the module stoa-ip.
    let messages = files.file.iter().flat_map(|file| &file.message_type);
    for message in messages.filter(|message| message.name() == OPTIONS) {
        for field in &message.field {
            let leaf = format!("stoa-ip:{}", field.name().replace('_', "-"));
            let rename = format!("#[serde(rename(deserialize = {leaf:?}))]");
            code = code.field_attribute(format!("{OPTIONS}.{}", field.name()), rename);
        }
    }
    code = code.type_attribute(OPTIONS, "#[derive(serde::Deserialize, serde::Serialize)]");
    code.type_attribute(OPTIONS, "#[serde(default)]").compile_fds(files)?;
    Ok(())
}
