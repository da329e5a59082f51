//! The browser for the tests of the lab, and `cargo xtask screenshots`.

use std::process::{Command, Stdio};

use crate::{cargo, output, root, succeed};

const NEEDED: &str =
    "the tests of the lab need Chromium and chromedriver (Debian's packages chromium and chromium-driver)";
/// Names of the browser. The driver finds each of them.
const BROWSERS: [&str; 3] = ["chromium", "google-chrome", "chromium-browser"];

/// Makes sure that a browser and its driver are there. Installs Debian's packages if this process may.
pub fn provide() -> Result<(), String> {
    let is_there = || starts("chromedriver") && BROWSERS.into_iter().any(starts);
    if is_there() {
        return Ok(());
    }
    let is_root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !is_root || !starts("apt-get") {
        return Err(format!("{NEEDED}; please install them"));
    }
    let apt = |args: &str| {
        succeed(Command::new("apt-get").args(args.split(' ')).env("DEBIAN_FRONTEND", "noninteractive"))
            .map_err(|why| format!("{NEEDED}; {why}"))
    };
    apt("update")?;
    apt("install --yes --no-install-recommends chromium chromium-driver")?;
    if is_there() { Ok(()) } else { Err(format!("{NEEDED}; they do not start")) }
}

fn starts(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Takes the pictures of the lab in docs/images: every page, light and dark, wide and on a phone.
pub fn take_pictures() -> Result<(), String> {
    provide()?;
    let folder = root().join("docs/images");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let args = ["test", "--locked", "-p", "baton-lab", "--test", "browser", "--", "--exact"];
    succeed(cargo(&args).arg("pages::each_page_fits_on_both_widths_in_both_themes").env("SCREENSHOTS", folder))
}
