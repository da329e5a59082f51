//! Compiles `proto/` with protox, so that nobody needs protoc.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let files = protox::compile(["baton/v1/locks.proto"], [root])?;
    let stubs = "#[cfg(feature = \"grpc\")]";
    let build = tonic_prost_build::configure().client_mod_attribute(".", stubs).server_mod_attribute(".", stubs);
    build.compile_fds(files)?;
    Ok(())
}
