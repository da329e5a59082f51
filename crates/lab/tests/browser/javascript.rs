//! The tests of the JavaScript modules, `console/tests/*.test.js`, in the browser. `node --test console/tests` runs the
//! same files.

use std::fs;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

use crate::driver::with_server;

const PAGE: &str = include_str!("javascript/page.html");
const TEST: &str = include_str!("javascript/test.js");
const ASSERT: &str = include_str!("javascript/assert.js");

fn console() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console")
}

fn javascript(text: impl Into<String>) -> Response {
    ([(header::CONTENT_TYPE, "text/javascript")], text.into()).into_response()
}

#[test]
fn the_modules_pass_their_tests() {
    let files =
        fs::read_dir(console().join("tests")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = files.filter(|name| name.ends_with(".test.js")).collect();
    files.sort();
    let router = Router::new()
        .route("/", get(Html(PAGE)))
        .route("/node/test.js", get(async || javascript(TEST)))
        .route("/node/assert.js", get(async || javascript(ASSERT)))
        .fallback(async |uri: axum::http::Uri| match fs::read_to_string(console().join(&uri.path()[1..])) {
            Ok(text) => javascript(text),
            Err(_) => StatusCode::NOT_FOUND.into_response(),
        });
    with_server(router, async |page| {
        page.open("").await;
        let names: Vec<String> = files.iter().map(|name| format!("/tests/{name}")).collect();
        page.client.execute("window.start(arguments[0]);", vec![names.into()]).await.unwrap();
        page.until("window.results").await;
        let results = page.value("window.results").await;
        let results = results.as_array().unwrap();
        let failures: Vec<_> = results.iter().filter(|result| !result["error"].is_null()).collect();
        assert!(failures.is_empty(), "{failures:#?}");
        for file in &files {
            let of_file = results.iter().filter(|result| result["file"].as_str().unwrap().ends_with(file));
            assert!(of_file.count() > 0, "{file} has no test");
        }
    });
}
