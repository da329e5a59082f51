//! Compiles `proto/` with protox, so that a build does not need protoc.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let files = protox::compile(["baton/v1/locks.proto", "baton/v1/feed.proto"], [root])?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
