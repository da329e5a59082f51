//! What others may put into a link or a file: markup, characters that hide something, absurd sizes, other versions.

use std::fs;

use crate::driver::{Page, in_lab};
use crate::trace::choose;

/// If this ever becomes markup, `window.taken` tells.
const MARKUP: &str = "<img src=x onerror=window.taken=1>";

async fn assert_is_text(page: &Page) {
    // A sentence may cut a long name short.
    page.until("document.querySelector('#main').innerText.includes('<img src=x')").await;
    assert_eq!(page.number("document.querySelectorAll('#main img, #main script').length").await, 0);
    assert_eq!(page.value("window.taken").await, serde_json::Value::Null);
}

fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[test]
fn hostile_names_in_links_are_shown_as_text() {
    in_lab(async |page| {
        let name = encoded(MARKUP);
        for link in [
            format!("#/{name}"),
            format!("#/algorithm/{name}"),
            format!("#/challenge/{name}"),
            format!("#/run?v=1&scenario={name}"),
            format!("#/run?v={name}"),
            format!("#/hand?v={name}&a=q0"),
        ] {
            page.open(&link).await;
            assert_is_text(page).await;
        }
        page.assert_refused(0).await;
        // The server refuses this, and its sentence names the algorithm.
        page.open(&format!("#/run?v=1&spec={}", encoded(&format!("{{\"algorithm\":\"{MARKUP}\"}}")))).await;
        page.until("document.querySelector('.notice[role=alert]').checkVisibility()").await;
        assert_is_text(page).await;
        page.assert_refused(1).await;
        // The name of a branch, with a mark that turns the writing direction round.
        let branch: String = "\u{202e}<b>x".bytes().map(|byte| format!("~{byte:02x}")).collect();
        page.open(&format!("#/hand?spec={{\"algorithm\":\"central\",\"n\":2}}&a=(q0)(q1'{branch}')&v=1")).await;
        page.until("document.querySelector('.branch-label').textContent === '\\\\u{202e}<b>x'").await;
    });
}

#[test]
fn hostile_names_in_a_trace_are_shown_as_text() {
    in_lab(async |page| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(format!("{MARKUP}.ndjson"));
        let trace = r#"{"baton_trace":1,"algorithm":"NAME","processes":3,"clients":2,"seed":1,"network":{},"workload":{},"params":{"delay_max":1},"unit":"T"}
{"seq":0,"t":0,"p":0,"event":"send","msg":0,"to":1,"kind":"NAME\u202e","bytes":0}
{"seq":1,"t":1,"event":"violation","property":"\u202eNAME","detail":"NAME"}
"#;
        fs::write(&file, trace.replace("NAME", MARKUP)).unwrap();
        page.open("#/trace").await;
        choose(page, &file).await;
        page.until("document.querySelector('.diagram').dataset.violations === '1'").await;
        assert_is_text(page).await;
        page.click("[aria-label^='First event']").await;
        page.until(&format!("document.querySelector('.diagram-now').innerText.includes({MARKUP:?} + '\\\\u{{202e}}')"))
            .await;
        page.click("[aria-label^='Last event']").await;
        page.until("document.querySelector('.diagram-now').innerText.includes('\\\\u{202e}<img')").await;
        assert_is_text(page).await;
    });
}

#[test]
fn a_link_of_another_version_or_of_an_absurd_size_gets_a_sentence() {
    in_lab(async |page| {
        for (link, sentence) in [
            ("#/run?v=2&spec={\"algorithm\":\"maekawa\"}", "This link is of version 2; this lab reads version 1."),
            ("#/hand?v=2&spec={\"algorithm\":\"maekawa\"}&a=q0", "version 2"),
            ("#/challenge/no-lock?v=2&a=q0", "version 2"),
            ("#/check?v=2&spec={\"algorithm\":\"maekawa\"}", "version 2"),
            ("#/run?v=1&spec={", "This link is damaged: its run is no JSON."),
            ("#/hand?v=1&spec={\"algorithm\":\"maekawa\",\"n\":17}", "1 to 16 processes"),
            ("#/hand?v=1&spec={\"algorithm\":\"maekawa\"}&a=zz", "damaged"),
        ] {
            page.open(link).await;
            page.until("document.querySelector('.notice[role=alert]').checkVisibility()").await;
            let said = page.text(".notice[role=alert]").await;
            assert!(said.contains(sentence), "{link}: {said}");
        }
        page.assert_refused(0).await;
        page.open("#/run?v=1&spec={\"algorithm\":\"central\",\"n\":1000000000}").await;
        page.until_text(".notice[role=alert]", "500").await;
        page.assert_refused(1).await;
        // A step that is not possible is taken out, and the rest is shown.
        page.open("#/hand?v=1&spec={\"algorithm\":\"central\",\"n\":2}&a=q0.d77").await;
        page.until_text(".notice[role=alert]", "Step 2 is not possible").await;
        page.until("document.querySelector('.step-counter').innerText === '1 step'").await;
    });
}
