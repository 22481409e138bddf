//! Compiles the contract without an installed `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(
        [
            "proto/stoa/v1/configuration.proto",
            "proto/stoa/v1/forwarder.proto",
            "proto/stoa/v1/operator.proto",
            "proto/stoa/v1/rows.proto",
            "proto/stoa/v1/trace_capture.proto",
            "proto/gnmi/gnmi.proto",
            "proto/gnmi/gnmi_ext.proto",
        ],
        ["proto"],
    )?;
    // BTreeMap: the keys of a path have a stable order.
    tonic_prost_build::configure().btree_map(".gnmi").compile_fds(files)?;
    Ok(())
}
