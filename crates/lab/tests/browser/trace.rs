//! The page "Open a trace".

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use baton_lab::run::run;
use baton_sim::spec::Spec;
use fantoccini::Locator;
use serde::Serialize;

use crate::driver::{Page, in_lab};

/// Chooses a file. The field itself is hidden behind its label.
pub async fn choose(page: &Page, path: &Path) {
    page.until("document.querySelector('#trace-file')").await;
    let field = page.client.find(Locator::Css("#trace-file")).await.unwrap();
    field.send_keys(path.to_str().unwrap()).await.unwrap();
}

/// The trace of a simulated run.
fn trace() -> String {
    let spec = Spec { algorithm: "suzuki-kasami".into(), n: Some(4), entries: Some(8), ..Spec::default() };
    let ran = run(&spec, &Arc::new(AtomicBool::new(false))).unwrap();
    let records = ran.records.iter().map(line);
    [line(&ran.header)].into_iter().chain(records).collect()
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap() + "\n"
}

#[test]
fn a_trace_is_uploaded_and_looked_at() {
    in_lab(async |page| {
        let folder = tempfile::tempdir().unwrap();
        let (good, broken) = (folder.path().join("run.ndjson"), folder.path().join("broken.ndjson"));
        fs::write(&good, trace()).unwrap();
        fs::write(&broken, trace().replace("\"event\":", "\"evil\":")).unwrap();
        page.open("#/trace").await;
        choose(page, &good).await;
        page.until("document.querySelector('.diagram').dataset.arrows > 0").await;
        let records = trace().lines().count() - 1;
        assert_eq!(page.text(".run-title h2").await, "run.ndjson");
        let facts = format!("suzuki-kasami · 4 processes · {records} records");
        assert_eq!(page.text(".run-title p").await, facts);
        page.until("document.querySelector('.run-title .headline.good')").await;
        page.click("[aria-label^='Last event']").await;
        page.until("document.querySelectorAll('.moment .process').length === 4").await;

        choose(page, &broken).await;
        page.until("document.querySelector('.notice[role=alert]')").await;
        assert!(
            page.text(".notice[role=alert]").await.contains("line 2"),
            "{}",
            page.text(".notice[role=alert]").await
        );
        page.assert_refused(1).await;
    });
}
