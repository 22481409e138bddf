//! Compiles the contract without an installed `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(
        [
            "proto/stoa/v1/configuration.proto",
            "proto/stoa/v1/forwarder.proto",
            "proto/stoa/v1/operator.proto",
            "proto/stoa/v1/sight.proto",
        ],
        ["proto"],
    )?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
