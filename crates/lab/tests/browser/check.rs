//! The page "Check".

use crate::driver::in_lab;

#[test]
fn a_counterexample_opens_in_the_diagram_and_by_hand() {
    in_lab(async |page| {
        page.open("#/check").await;
        page.select("form.controls select", "maekawa-no-inquire").await;
        page.click_text("form.controls button", "Check").await;
        page.until("document.querySelector('#verdict .headline.bad')").await;
        assert!(page.text("#verdict").await.contains("P0 and P1 and P2 wait"), "{}", page.text("#verdict").await);
        page.until("document.querySelector('.check-result .diagram').dataset.violations > 0").await;
        assert_eq!(page.number("document.querySelectorAll('.steps li').length").await, 7);
        page.click("[aria-label^='Last event']").await;
        page.until("document.querySelectorAll('.moment .process.waiting').length === 3").await;
        let address = page.address().await;

        page.click_text(".check-result a", "Open the counterexample by hand").await;
        page.until("document.querySelector('.lamp[data-property=liveness]').dataset.tone === 'bad'").await;
        assert_eq!(page.text(".step-counter").await, "6 steps");

        page.new_tab().await;
        page.open(&address).await;
        page.until("document.querySelector('form.controls select').value === 'maekawa-no-inquire'").await;
    });
}

#[test]
fn a_check_that_holds_and_a_check_that_is_stopped() {
    in_lab(async |page| {
        page.open("#/check").await;
        page.select("form.controls select", "central").await;
        page.click_text("form.controls button", "Check").await;
        page.until("document.querySelector('#verdict .headline.good')").await;
        page.select("form.controls select", "ricart-agrawala").await;
        page.fill("form.controls input[type=number]", "4").await;
        page.click_text("form.controls button", "Check").await;
        page.until("document.querySelector('.progress b').innerText !== '0'").await;
        page.click_text(".progress button", "Stop").await;
        page.until_text(".check-result", "Stopped after").await;
    });
}
