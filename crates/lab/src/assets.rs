//! The files of the page. They are in the binary. A debug build reads them from the source folder, so that they can be
//! changed without a build.

use std::borrow::Cow;

use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "../../console"]
#[allow_missing = true]
struct Console;

/// The content and the type of a file of the page. None if there is no such file.
pub fn page_file(path: &str) -> Option<(Cow<'static, [u8]>, &'static str)> {
    let path = if path.is_empty() { "index.html" } else { path };
    // Only plain names. So no path leads out of the folder, and no hidden file is shown.
    let is_plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    if !path.split('/').all(is_plain) || path.starts_with("tests/") {
        return None;
    }
    let kind = content_type(path)?;
    Some((Console::get(path)?.data, kind))
}

fn content_type(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "webmanifest" => "application/manifest+json",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out_of_the_folder() {
        let paths = [
            "../Cargo.toml",
            "../crates/lab/src/lib.js",
            "lib/../../Cargo.toml",
            "/etc/passwd",
            "//etc/x.js",
            ".git/x.js",
            "lib/.hidden.js",
            "lib\\..\\x.js",
            "%2e%2e/x.js",
            "a\0.js",
            "package.json",
            "tests/lib.test.js",
            "lib",
        ];
        for path in paths {
            assert!(page_file(path).is_none(), "{path}");
        }
    }
}
