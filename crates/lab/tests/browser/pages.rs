//! All pages, in both themes and on both widths.

use std::path::PathBuf;

use serde_json::json;

use crate::driver::{Page, in_lab};

/// A page that is worth a picture: its name, its address, and what is there when it is complete.
const PAGES: [(&str, &str, &str); 10] = [
    ("home", "#/", "document.querySelector('.hero .diagram').dataset.events > 0"),
    (
        "run",
        "#/run?v=1&spec={\"algorithm\":\"maekawa\",\"n\":7,\"entries\":14,\"seed\":7}&seq=60",
        "document.querySelector('.moment').dataset.seq === '60'",
    ),
    (
        "beside",
        "#/run?v=1&spec={\"algorithm\":\"ricart-agrawala-time-only\",\"n\":2}&beside=ricart-agrawala",
        "document.querySelectorAll('.run-one .diagram[data-events]').length === 2",
    ),
    (
        "hand",
        "#/hand?v=1&spec={\"algorithm\":\"raymond\",\"n\":7}&a=q3.d0.q5",
        "document.querySelector('.step-counter').innerText === '3 steps'",
    ),
    (
        "challenge",
        "#/challenge/maekawa-no-inquire?v=1&a=q0.q1.q2.d0.d1.d2",
        "document.querySelector('.target').dataset.solved === 'true'",
    ),
    ("challenges", "#/challenges", "document.querySelector('.challenge-card')"),
    ("compare", "#/compare", "document.querySelector('.plots svg circle') && !document.querySelector('.progress')"),
    (
        "check",
        "#/check?v=1&spec={\"algorithm\":\"maekawa-no-inquire\",\"n\":3}&options={}",
        "document.querySelector('.check-result .diagram').dataset.violations > 0",
    ),
    ("trace", "#/trace", "document.querySelector('.drop')"),
    (
        "algorithm",
        "#/algorithm/suzuki-kasami",
        "document.querySelector('.claims table') && document.querySelector('.diagram').dataset.events > 0",
    ),
];

const WIDTHS: [(&str, u32, u32); 2] = [("wide", 1280, 800), ("phone", 390, 844)];

/// As if the reader had such a screen and such a system.
async fn emulate(page: &Page, width: u32, height: u32, theme: &str) {
    // A mobile browser keeps no room for scroll bars.
    let screen = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": true});
    page.devtools("Emulation.setDeviceMetricsOverride", screen).await;
    page.devtools("Emulation.setScrollbarsHidden", json!({"hidden": true})).await;
    let features = json!([
        {"name": "prefers-color-scheme", "value": theme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]);
    page.devtools("Emulation.setEmulatedMedia", json!({"features": features})).await;
}

/// `cargo xtask screenshots` sets the folder for the pictures. Without it, this test only looks.
#[test]
fn each_page_fits_on_both_widths_in_both_themes() {
    let folder = std::env::var_os("SCREENSHOTS").map(PathBuf::from);
    in_lab(async |page| {
        for (name, address, complete) in PAGES {
            for (width_name, width, height) in WIDTHS {
                emulate(page, width, height, "light").await;
                page.open(address).await;
                for theme in ["light", "dark"] {
                    emulate(page, width, height, theme).await;
                    page.until(complete).await;
                    assert_eq!(
                        page.number("document.querySelectorAll('.page .notice.bad:not([hidden])').length").await,
                        0
                    );
                    let overflow = page.value("document.documentElement.scrollWidth - innerWidth").await;
                    assert!(overflow.as_i64().unwrap() <= 0, "{name}, {width_name}: {overflow} pixels too wide");
                    if let Some(folder) = &folder {
                        // After two frames the canvas has been drawn in the new size and theme.
                        let frames = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));";
                        page.client.execute_async(frames, Vec::new()).await.unwrap();
                        let picture = page.client.screenshot().await.unwrap();
                        std::fs::write(folder.join(format!("{name}-{width_name}-{theme}.png")), picture).unwrap();
                    }
                }
            }
        }
    });
}

#[test]
fn the_theme_is_switched_and_stays() {
    in_lab(async |page| {
        page.open("#/").await;
        emulate(page, 1280, 800, "light").await;
        let background = "getComputedStyle(document.body).backgroundColor";
        page.until(&format!("{background} === 'rgb(255, 255, 255)'")).await;
        page.click("#theme").await;
        page.click("#theme").await;
        page.until("document.documentElement.dataset.theme === 'dark'").await;
        page.until(&format!("{background} === 'rgb(22, 22, 24)'")).await;
        page.open("#/challenges").await;
        page.until(&format!("{background} === 'rgb(22, 22, 24)'")).await;
        page.click("#theme").await;
        page.until(&format!("{background} === 'rgb(255, 255, 255)'")).await;
    });
}

#[test]
fn the_first_page_leads_everywhere() {
    in_lab(async |page| {
        page.open("#/").await;
        for (link, class) in [
            ("Run", "run"),
            ("Step by hand", "hand"),
            ("Challenges", "challenges"),
            ("Compare", "compare"),
            ("Check", "check"),
            ("Open a trace", "trace"),
        ] {
            page.click_text("nav[aria-label=Pages] a", link).await;
            page.until(&format!("document.querySelector('.page-{class} h1').innerText")).await;
            assert_eq!(page.text("nav [aria-current=page]").await, link);
        }
        page.click(".wordmark").await;
        page.click(".stories a").await;
        page.until("document.querySelector('.diagram[data-events]') && document.querySelector('.report')").await;
        page.click(".wordmark").await;
        page.click_text(".algorithm-card a", "raymond").await;
        page.until("document.querySelector('.prose table') && document.querySelector('.diagram').dataset.events > 0")
            .await;
    });
}
