//! The page "Run".

use fantoccini::key::Key;

use crate::driver::{Page, in_lab};

/// The run is shown: the diagram has events and a picture, and the report is there.
async fn until_shown(page: &Page) {
    page.until("document.querySelector('.run-one .diagram').dataset.events > 0").await;
    page.until("document.querySelector('.report .promises tr')").await;
    assert_eq!(page.number("document.querySelectorAll('.notice.bad:not([hidden])').length").await, 0);
}

/// Number of colours in the diagram.
const COLOURS: &str = "(() => {
    const drawn = document.querySelector('.diagram-canvas');
    const copy = new OffscreenCanvas(drawn.width, drawn.height).getContext('2d', {willReadFrequently: true});
    copy.drawImage(drawn, 0, 0);
    const {data} = copy.getImageData(0, 0, drawn.width, drawn.height);
    return new Set(new Uint32Array(data.buffer)).size;
})()";

#[test]
fn each_algorithm_runs() {
    in_lab(async |page| {
        page.open("#/run").await;
        until_shown(page).await;
        let names =
            page.value("[...document.querySelector('form.controls select').options].map(({value}) => value)").await;
        let names: Vec<String> = serde_json::from_value(names).unwrap();
        assert!(names.len() > 30, "{names:?}");
        for name in &names {
            page.select("form.controls select", name).await;
            page.click("form.controls button.primary").await;
            page.until(&format!("document.querySelector('h1').innerText.startsWith({name:?})")).await;
            until_shown(page).await;
            page.until(&format!("{COLOURS} > 10")).await;
            page.click("[aria-label^='First event']").await;
            page.until("document.querySelectorAll('.moment .process').length > 1").await;
            assert!(page.address().await.contains(name.as_str()), "{name}: {}", page.address().await);
        }
    });
}

#[test]
fn a_moment_shows_what_a_detector_knows_and_who_waits_for_an_append() {
    in_lab(async |page| {
        page.open("#/run?v=1&spec={\"algorithm\":\"phi-accrual\",\"n\":3,\"faults\":[\"crash 1 @ 25\"]}").await;
        until_shown(page).await;
        page.click("[aria-label^='Last event']").await;
        page.until_text(".moment .process[aria-label=P0]", "suspects P1").await;
        let parts = "[...document.querySelectorAll('.moment .process[aria-label=P0] dt')].map((one) => one.innerText)";
        let names = ["clock", "next beat", "suspects", "phi", "mean", "deviation", "last beat", "deadline"];
        assert_eq!(page.value(parts).await, serde_json::json!(names));
        page.until_text(".moment .process[aria-label=P1]", "down").await;

        page.open("#/run?v=1&spec={\"algorithm\":\"record-append\",\"n\":3,\"entries\":6}").await;
        until_shown(page).await;
        page.click("[aria-label^='First event']").await;
        page.until_text(".moment .did", "P0 appends record 0").await;
        page.until_text(".moment .process[aria-label=P0]", "waits").await;
    });
}

#[test]
fn a_link_shows_the_same_run_and_moment() {
    in_lab(async |page| {
        page.open("#/run?v=1&spec={\"algorithm\":\"maekawa\",\"n\":7,\"entries\":14,\"seed\":7}").await;
        until_shown(page).await;
        page.click("[data-spacing=order]").await;
        page.click("[aria-label^='First event']").await;
        for _ in 0..12 {
            page.click("[aria-label^='One step forward']").await;
        }
        let seq = page.string("document.querySelector('.diagram').dataset.seq").await;
        page.until(&format!("document.querySelector('.moment').dataset.seq === {seq:?}")).await;
        let shown = "[...document.querySelectorAll('.run-title, .diagram-now, .moment, .report, .again code')].map((one) => one.innerText)";
        let before = page.value(shown).await;
        let address = page.address().await;

        page.new_tab().await;
        page.open(&address).await;
        until_shown(page).await;
        page.until(&format!("document.querySelector('.moment').dataset.seq === {seq:?}")).await;
        assert_eq!(page.value(shown).await, before);
        assert_eq!(page.string("document.querySelector('.diagram').dataset.spacing").await, "order");
        assert_eq!(page.address().await, address);
    });
}

/// After a crash a process waits for ever for the reply of the dead one, unless a detector reports the crash.
#[test]
fn the_detector_on_and_off_side_by_side() {
    in_lab(async |page| {
        let spec = "{\"algorithm\":\"ricart-agrawala\",\"n\":3,\"entries\":9,\"faults\":[\"crash 1 @ 5\"]}";
        page.open(&format!("#/run?v=1&spec={spec}")).await;
        until_shown(page).await;
        page.select("#beside", "detector").await;
        page.until("document.querySelectorAll('.run-one .diagram[data-events]').length === 2").await;
        until_shown(page).await;
        let words = |css: &str| format!("[...document.querySelectorAll({css:?})].map((one) => one.innerText)");
        let tags = page.value(&words(".run-title .tag")).await;
        assert_eq!(tags, serde_json::json!(["detector on", "detector off"]));
        let said = page.value(&words(".run-title .said")).await;
        assert!(said[0] != said[1], "{said}");
        let (address, commands) = (page.address().await, page.value(&words(".again code")).await);
        assert!(address.contains("beside=detector"), "{address}");
        assert!(commands[1].as_str().unwrap().contains("--no-detector"), "{commands}");
        assert!(!commands[0].as_str().unwrap().contains("--no-detector"), "{commands}");
    });
}

#[test]
fn the_diagram_obeys_the_keyboard() {
    in_lab(async |page| {
        page.open("#/run").await;
        until_shown(page).await;
        // The first stop of the tabulator leads past the navigation.
        page.press(Key::Tab).await;
        assert_eq!(page.string("document.activeElement.className").await, "skip");
        page.press(Key::Enter).await;
        assert_eq!(page.string("document.activeElement.id").await, "main");
        while page.string("document.activeElement.className").await != "diagram-canvas" {
            page.press(Key::Tab).await;
        }
        let events = page.number("Number(document.querySelector('.diagram').dataset.events)").await;
        let place = "document.querySelector('.diagram-where').innerText";
        page.press(Key::Home).await;
        page.until(&format!("{place}.startsWith('1 of {events}')")).await;
        page.press('.').await;
        page.until(&format!("{place}.startsWith('2 of {events}')")).await;
        page.press(',').await;
        page.until(&format!("{place}.startsWith('1 of {events}')")).await;
        page.press(Key::End).await;
        page.until(&format!("{place}.startsWith('{events} of {events}')")).await;
        page.press(Key::Escape).await;
        page.until(&format!("{place} === '{events} events'")).await;
        page.press(' ').await;
        page.until("document.querySelector('.play').title.startsWith('Pause')").await;
        page.until("Number(document.querySelector('.diagram-where b').innerText) > 2").await;
        page.press(' ').await;
        page.until("document.querySelector('.play').title.startsWith('Play')").await;
    });
}
