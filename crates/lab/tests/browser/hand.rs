//! The pages "Step by hand" and "Challenges".

use fantoccini::key::Key;

use crate::driver::{Page, in_lab};

/// The group of the Maekawa deadlock. Voters never ask for a vote back.
const GROUP: &str = "#/hand?v=1&spec={\"algorithm\":\"maekawa-no-inquire\",\"n\":3}";

/// Waits until the page shows these steps, as they are written in its address.
async fn until_steps(page: &Page, steps: &str) {
    page.until(&format!("new URLSearchParams(location.hash.split('?')[1]).get('a') === {steps:?}")).await;
}

async fn until_lamp(page: &Page, property: &str, tone: &str) {
    page.until(&format!("document.querySelector('.lamp[data-property={property}]').dataset.tone === {tone:?}")).await;
}

async fn ask(page: &Page, process: usize) {
    page.click_text(&format!(".process-row[data-process='{process}'] button"), "Ask").await;
}

async fn deliver(page: &Page, message: usize) {
    page.click(&format!("[data-deliver='{message}']")).await;
}

/// Steps to the deadlock: each process asks, and each voter votes for itself.
async fn to_the_deadlock(page: &Page) {
    let mut steps = String::new();
    for process in 0..3 {
        ask(page, process).await;
        steps += &format!("{}q{process}", if process == 0 { "" } else { "." });
        until_steps(page, &steps).await;
    }
    for message in 0..3 {
        until_lamp(page, "liveness", "good").await;
        deliver(page, message).await;
        steps += &format!(".d{message}");
        until_steps(page, &steps).await;
    }
}

#[test]
fn by_hand_to_the_deadlock_of_maekawa_without_inquire() {
    in_lab(async |page| {
        page.open(GROUP).await;
        until_lamp(page, "liveness", "good").await;
        to_the_deadlock(page).await;
        until_lamp(page, "liveness", "bad").await;
        assert_eq!(page.text(".step-counter").await, "6 steps");
        assert!(page.text(".lamp[data-property=liveness]").await.contains("stuck"));
        // The lamp is red, and the lamp beside it is green.
        let colour = |property: &str| {
            format!(
                "getComputedStyle(document.querySelector('.lamp[data-property={property}] .lamp-bulb')).backgroundColor"
            )
        };
        assert_eq!(page.string(&colour("liveness")).await, "rgb(200, 30, 30)");
        assert_eq!(page.string(&colour("safety")).await, "rgb(26, 127, 55)");
        assert_eq!(page.text(".panel-section h2").await, "No message in flight");
        assert_eq!(page.number("document.querySelectorAll('.process-row .mood-waiting').length").await, 3);
        assert_eq!(page.number("document.querySelectorAll('.branch-dot.broken').length").await, 1);

        // A colleague who gets the link sees the same.
        let shown = "[...document.querySelectorAll('h1, .lamps, .panel, .log, .step-counter, .diagram-now, .bench-grid table')].map((one) => one.innerText)";
        let before = page.value(shown).await;
        let address = page.address().await;
        page.new_tab().await;
        page.open(&address).await;
        until_lamp(page, "liveness", "bad").await;
        assert_eq!(page.value(shown).await, before);
        assert_eq!(page.address().await, address);
    });
}

#[test]
fn back_to_an_earlier_step_and_into_another_branch() {
    in_lab(async |page| {
        page.open(GROUP).await;
        to_the_deadlock(page).await;
        until_lamp(page, "liveness", "bad").await;
        page.click_text(".stage-tools button", "Back").await;
        until_steps(page, "q0.q1.q2.d0.d1!.d2").await;
        until_lamp(page, "liveness", "good").await;
        page.click_text(".stage-tools button", "Forward").await;
        until_lamp(page, "liveness", "bad").await;
        // Without the third request, P2 is free to vote for P1, which enters.
        page.click(".branch-dot[data-node='2']").await;
        until_steps(page, "q0.q1!.q2.d0.d1.d2").await;
        deliver(page, 1).await;
        until_steps(page, "q0.q1(q2.d0.d1.d2)(d1!)").await;
        assert!(page.text(".messages").await.contains("GRANT"), "{}", page.text(".messages").await);
        deliver(page, 2).await;
        until_steps(page, "q0.q1(q2.d0.d1.d2)(d1.d2!)").await;
        page.until("document.querySelector('.process-row[data-process=\"1\"] .mood-inside')").await;
        until_lamp(page, "liveness", "good").await;
        assert_eq!(page.number("document.querySelectorAll('.branch-label').length").await, 0);
        page.fill(".branch-name", "two requests").await;
        page.press(Key::Tab).await;
        page.until("document.querySelector('.branch-label').textContent === 'two requests'").await;
        // The other branch is still there.
        page.click(".branch-dot[data-node='6']").await;
        until_lamp(page, "liveness", "bad").await;
        page.click_text(".stage-tools button", "Start").await;
        page.until("document.querySelector('.step-counter').innerText === '0 steps'").await;
    });
}

#[test]
fn faults_by_hand() {
    in_lab(async |page| {
        page.open("#/hand?v=1&spec={\"algorithm\":\"central\",\"n\":2}").await;
        ask(page, 0).await;
        until_steps(page, "q0").await;
        page.click_text(".message-row button", "copy").await;
        until_steps(page, "q0.c0").await;
        assert_eq!(page.number("document.querySelectorAll('.message-row').length").await, 2);
        page.click_text(".message-row button", "lose").await;
        until_steps(page, "q0.c0.x0").await;
        page.click_text(".process-row[data-process='1'] button", "Pause").await;
        page.until("document.querySelector('.process-row[data-process=\"1\"] .mood-paused')").await;
        assert!(page.address().await.contains("p=1"), "{}", page.address().await);
        page.click_text(".process-row[data-process='1'] button", "Resume").await;
        page.click_text(".process-row[data-process='1'] button", "Crash").await;
        until_steps(page, "q0.c0.x0.k1").await;
        page.until("document.querySelector('.process-row[data-process=\"1\"] .mood-down')").await;
    });
}

/// The beats of the others stay on their way while the clock of P0 goes on.
#[test]
fn a_detector_is_stepped_to_a_wrong_suspicion_by_its_own_clock() {
    in_lab(async |page| {
        page.open("#/algorithm/heartbeat").await;
        page.click_text("a.button", "Step by hand").await;
        until_lamp(page, "safety", "good").await;
        assert_eq!(page.number("document.querySelectorAll('.timer-list button').length").await, 3, "one timer each");
        let fire = async |name: &str| page.click(&format!("[aria-label='Fire the timer {name} of P0']")).await;
        fire("Beat").await;
        until_steps(page, "t0_Beat").await;
        until_lamp(page, "safety", "good").await;
        fire("Deadline").await;
        until_lamp(page, "safety", "bad").await;
        assert!(page.text(".lamp[data-property=safety]").await.contains("P0 suspects P1, which is alive"));
        let row = |name: &str| {
            let named = format!("(one) => one.querySelector('th').innerText === {name:?}");
            format!(
                "[...document.querySelectorAll('.states tbody tr')].find({named}).querySelectorAll('td')[0].innerText"
            )
        };
        assert_eq!(page.string(&row("clock")).await, "12");
        assert_eq!(page.string(&row("deadline")).await, "P1: 11, P2: 11");
        assert_eq!(page.string(&row("suspects")).await, "{1, 2}");
        // Nobody but the detector itself notices a crash.
        page.click_text(".process-row[data-process='1'] button", "Crash").await;
        page.until_text(".lamp[data-property=liveness]", "so far P2 does not suspect P1, which is down").await;
        assert_eq!(
            page.number("document.querySelectorAll('[data-action^=suspect], [data-action^=trust]').length").await,
            0
        );
    });
}

#[test]
fn by_hand_with_the_keyboard() {
    in_lab(async |page| {
        page.open(GROUP).await;
        until_lamp(page, "liveness", "good").await;
        // To the first "Ask" with the tabulator. It stays with the process.
        while page.string("document.activeElement.innerText ?? ''").await != "Ask" {
            page.press(Key::Tab).await;
        }
        page.press(Key::Enter).await;
        until_steps(page, "q0").await;
        assert_eq!(page.value("document.activeElement.closest('[data-process]')?.dataset.process").await, "0");
        page.press('1').await;
        page.until("document.activeElement.dataset.deliver === '0'").await;
        page.press(Key::Enter).await;
        until_steps(page, "q0.d0").await;
        page.press(Key::Backspace).await;
        until_steps(page, "q0!.d0").await;
        page.press(Key::Right).await;
        until_steps(page, "q0.d0").await;
        page.press(Key::Home).await;
        until_steps(page, "!q0.d0").await;
        page.press(Key::Right).await;
        until_steps(page, "q0!.d0").await;
        page.press(Key::Down).await;
        page.press('x').await;
        until_steps(page, "q0(d0)(x0!)").await;
    });
}

#[test]
fn a_challenge_is_solved_with_a_hint() {
    in_lab(async |page| {
        page.open("#/challenges").await;
        page.until_text(".challenge-sum", "0 of ").await;
        page.click_text(".challenge-card a", "One lost message").await;
        page.until_text(".target", "The shortest way has 2 steps.").await;
        page.click_text(".distance button", "How far is a violation?").await;
        page.until_text(".distance-text", "2 steps").await;
        ask(page, 0).await;
        until_steps(page, "q0").await;
        page.click_text(".distance button", "Hint").await;
        page.until("document.querySelector('.message-row.hinted')").await;
        page.until_text(".distance-text", "1 step").await;
        page.click_text(".message-row.hinted button", "lose").await;
        page.until("document.querySelector('.target').dataset.solved === 'true'").await;
        until_lamp(page, "liveness", "bad").await;
        assert!(
            page.text(".target").await.contains("Solved in 2 steps (shortest 2)"),
            "{}",
            page.text(".target").await
        );
        let address = page.address().await;
        page.click_text(".target a", "All challenges").await;
        page.until_text(".challenge-sum", "1 of ").await;
        assert!(page.text(".challenge-sum").await.ends_with("1 in the fewest steps."));
        // The solution has a link, too.
        page.new_tab().await;
        page.open(&address).await;
        page.until_text(".target", "Solved in 2 steps").await;
    });
}
