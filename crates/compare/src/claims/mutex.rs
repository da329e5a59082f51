//! Claims about mutual exclusion. Where the documents know an algorithm, the sentences are theirs in our words; for the
//! other algorithms they are those of the paper.

use baton_check::{LinkOrder, Options as CheckOptions, Property};
use baton_sim::app::mutex::Load;
use baton_sim::spec::{NetworkKind, Spec};
use baton_theory::Expectation;

use super::Claimed::{Fails, Holds};
use super::{
    CLIENT_DELAY, CRASH, Figure, MESSAGES, PROMISE, SYNC_DELAY, Said, checked, figure, finding, order, sim, with_faults,
};
use crate::command::check_of;

pub fn claims(algorithm: &str) -> Vec<Said> {
    match algorithm {
        "central" => central(),
        "central-elected" => central_elected(),
        "token-ring" => token_ring(),
        "permission-ring" => permission_ring(),
        "lamport" => lamport(),
        "ricart-agrawala" => ricart_agrawala(),
        "carvalho-roucairol" => carvalho_roucairol(),
        "maekawa" => maekawa(),
        "generalized" => generalized(),
        "suzuki-kasami" => suzuki_kasami(),
        "singhal" => singhal(),
        "raymond" => raymond(),
        "naimi-trehel" => naimi_trehel(),
        "voting" => voting(),
        _ => Vec::new(),
    }
}

fn solo(spec: Spec) -> Spec {
    Spec { load: Some(Load::Solo), ..spec }
}

/// One request at a time, by a random process, often enough for a mean.
fn solo_random(spec: Spec, entries: u64) -> Spec {
    Spec { load: Some(Load::SoloRandom), entries: Some(entries), ..spec }
}

fn exact(formula: &str, value: f64) -> Expectation {
    Expectation::exact(formula, value)
}

fn mean(formula: &str, value: f64) -> Expectation {
    Expectation::mean(formula, value)
}

fn messages(documents: &'static str, spec: Spec, claimed: Expectation) -> Said {
    figure(MESSAGES, documents, spec, Figure::MessagesPerEntry, claimed)
}

fn client_delay(documents: &'static str, spec: Spec, claimed: Expectation) -> Said {
    figure(CLIENT_DELAY, documents, spec, Figure::ClientDelay, claimed)
}

fn sync_delay(documents: &'static str, spec: Spec, claimed: Expectation) -> Said {
    figure(SYNC_DELAY, documents, spec, Figure::SyncDelay, claimed)
}

/// The crash stops the other processes. No detector reports it.
fn stops(documents: &'static str, spec: Spec, faults: &[&str]) -> Said {
    let spec = Spec { no_detector: true, ..with_faults(spec, faults) };
    finding(CRASH, documents, spec, Property::Liveness, Fails)
}

/// The other processes go on after these crashes, which the algorithm tolerates.
fn goes_on(documents: &'static str, spec: Spec, faults: &[&str]) -> Said {
    let spec = Spec { ignore_assumptions: false, ..with_faults(spec, faults) };
    finding(CRASH, documents, spec, Property::Liveness, Holds)
}

const ANY_CRASH: &str = "Any crash stops all processes.";
const DETECTED: &str = "Crashes can be overcome if they are detected reliably.";
const LEAVING: &str = "Leaving takes 1 message.";

fn central() -> Vec<Said> {
    vec![
        messages("3 messages per entry: request, grant, release.", sim("central", 5), exact("3", 3.0)),
        figure(
            MESSAGES,
            "The coordinator is a bottleneck: it handles every message.",
            sim("central", 5),
            Figure::Busiest,
            exact("3", 3.0),
        ),
        figure(MESSAGES, LEAVING, sim("central", 5), Figure::ExitMessages, exact("1", 1.0)),
        client_delay("2 T without competition: request and grant.", solo(sim("central", 5)), exact("2", 2.0)),
        sync_delay("2 T: release and grant.", sim("central", 5), exact("2", 2.0)),
        order("It is fair: all requests are served in order.", ("central", 2), Holds)
            .because("It serves in the order of arrival, and a later request may arrive first."),
        stops("It stops if the coordinator crashes.", sim("central", 3), &["crash 3 @ 10"]),
        stops("It stops if the holder crashes.", sim("central", 3), &["crash 0 @ 2.5"]),
    ]
}

fn central_elected() -> Vec<Said> {
    let spec = || sim("central-elected", 5);
    vec![
        messages("3 messages per entry; the coordinator itself needs none.", spec(), exact("3(n-1)/n", 2.4)),
        client_delay(
            "2 T without competition; 0 for the coordinator.",
            Spec { think: Some(2.0), ..solo(spec()) },
            exact("2(n-1)/n", 1.6),
        ),
        sync_delay("2 T, or 0 if the coordinator is next.", spec(), exact("2(n-1)/n", 1.6)),
        order("All requests are served in order.", ("central-elected", 2), Holds)
            .because("It serves in the order of arrival, as central does."),
        stops("The coordinator is a single point of failure.", spec(), &["crash 4 @ 20.5"]),
        goes_on("If crashes are detected, the others elect a new coordinator.", spec(), &["crash 4 @ 20.5"]),
    ]
}

fn token_ring() -> Vec<Said> {
    let spec = |n| sim("token-ring", n);
    let at_random = || Spec { load: Some(Load::Random), entries: Some(2_000), ..spec(10) };
    let rarely = || Spec { think: Some(1_000.0), entries: Some(1_000), ..at_random() };
    vec![
        messages("1 message per entry, if all want to enter.", spec(5), exact("1", 1.0)),
        messages(
            "Any number of messages, if requests are rare: the token never rests.",
            Spec { think: Some(100.0), ..solo(spec(5)) },
            Expectation::at_least("100 or more", 100.0),
        ),
        client_delay("n/2 T on average, if requests are rare.", rarely(), mean("n/2", 5.0)),
        figure(
            CLIENT_DELAY,
            "n-1 T in the worst case.",
            Spec { think: Some(1.0), ..solo(spec(10)) },
            Figure::ClientDelayMax,
            exact("n-1", 9.0),
        )
        .because("n T, if the token has just left the process."),
        sync_delay("n/2 T on average.", at_random(), mean("n/2", 5.0)).because(
            "About (n+1)/3 T, and less if several wait: a process that the token has just left rarely waits again. It is n/2 \
             only if the next process is any other with equal chance.",
        ),
        figure(SYNC_DELAY, "n-1 T in the worst case.", at_random(), Figure::SyncDelayMax, exact("n-1", 9.0)),
        sync_delay("1 T, if all want to enter.", spec(5), exact("1", 1.0)),
        figure(MESSAGES, LEAVING, spec(5), Figure::ExitMessages, exact("1", 1.0)),
        order("Not in order: the ring decides.", ("token-ring", 2), Fails),
        stops(ANY_CRASH, spec(5), &["crash 2 @ 4.5"]),
        goes_on(DETECTED, spec(5), &["crash 2 @ 4.5"]),
    ]
}

fn permission_ring() -> Vec<Said> {
    let spec = || sim("permission-ring", 5);
    vec![
        messages("n messages per entry: a request goes once round the ring.", spec(), exact("n", 5.0)),
        client_delay("n T without competition.", solo(spec()), exact("n", 5.0)),
        figure(
            SYNC_DELAY,
            "At most n-1 T: the request is parked somewhere on the ring.",
            spec(),
            Figure::SyncDelayMax,
            Expectation::at_most("at most n-1 = 4", 4.0),
        ),
        order("As described, the ring does not keep the order.", ("permission-ring-original", 3), Fails).because(
            "This is `permission-ring-original`: a request must pass every process that asked before it, and such a process \
             swallows it. With `--variant retry` it holds for n = 2; for n = 3, 20 million states do not decide it.",
        ),
        order("The repaired ring keeps the order.", ("permission-ring", 2), Holds)
            .because("It compares times, as Ricart and Agrawala do."),
        checked(
            PROMISE,
            "A process that loses tries again, so every request is granted.",
            ("permission-ring-original", 2),
            check_of(Property::Deadlock),
            Holds,
        )
        .because("No message tells the loser. The repaired ring parks requests instead."),
        stops("It must be changed for crashes: any crash stops it.", spec(), &["crash 2 @ 4.5"]),
    ]
}

fn lamport() -> Vec<Said> {
    let spec = || sim("lamport", 5);
    let unordered =
        CheckOptions { order: Some(LinkOrder::Unordered), ignore_assumptions: true, ..check_of(Property::Safety) };
    vec![
        messages("3(n-1) messages per entry: request, reply and release.", spec(), exact("3(n-1)", 12.0)),
        client_delay("2 T without competition: request and reply.", solo(spec()), exact("2", 2.0)),
        sync_delay("1 T: release.", spec(), exact("1", 1.0)),
        order("Requests enter in the order of their times.", ("lamport", 2), Holds),
        checked(PROMISE, "Links must keep the order of messages.", ("lamport", 2), unordered, Fails)
            .because("Without that, two processes are inside at once."),
        stops(ANY_CRASH, spec(), &["crash 2 @ 4.5"]),
        goes_on(DETECTED, spec(), &["crash 2 @ 4.5"]),
    ]
}

fn ricart_agrawala() -> Vec<Said> {
    let spec = || sim("ricart-agrawala", 5);
    vec![
        messages("2(n-1) messages per entry: request and reply.", spec(), exact("2(n-1)", 8.0)),
        client_delay("2 T without competition: 1 multicast and the replies.", solo(spec()), exact("2", 2.0)),
        sync_delay("1 T: the deferred reply.", spec(), exact("1", 1.0)),
        figure(
            CLIENT_DELAY,
            "Leaving takes 1 multicast + 1. The multicast: the deferred replies.",
            spec(),
            Figure::ExitMessages,
            exact("n-1, 1 multicast", 4.0),
        )
        .because("If all others wait. Alone a process sends nothing on leaving."),
        figure(
            CLIENT_DELAY,
            "Leaving takes 1 multicast + 1. The + 1: an answer to the multicast.",
            spec(),
            Figure::MessagesPerEntry,
            Expectation::at_least("more than 2(n-1) = 8, the requests and the replies", 9.0),
        )
        .because("No answer comes: a leaving process waits for nothing."),
        order("Requests enter in the order of their times.", ("ricart-agrawala", 2), Holds),
        checked(
            PROMISE,
            "It is enough to compare the times of two requests.",
            ("ricart-agrawala-time-only", 2),
            check_of(Property::Safety),
            Holds,
        )
        .because("Two requests may have the same time. Pairs (time, id) are a total order."),
        checked(
            PROMISE,
            "A waiting process defers a request whose time is later than its clock of now.",
            ("ricart-agrawala-current-clock", 2),
            check_of(Property::Safety),
            Holds,
        )
        .because(
            "Its clock has moved beyond the time of each request that has arrived. The time of its own request counts.",
        ),
        stops(ANY_CRASH, spec(), &["crash 2 @ 4.5"]),
        goes_on(DETECTED, spec(), &["crash 2 @ 4.5"]),
    ]
}

fn carvalho_roucairol() -> Vec<Said> {
    let spec = |n| sim("carvalho-roucairol", n);
    let twice = CheckOptions { entries: 2, ..check_of(Property::Order) };
    vec![
        messages("2(n-1) messages per entry at most.", spec(5), exact("2(n-1)", 8.0)),
        messages(
            "Fewer messages if few compete: a permission lasts until it is asked back. n on average.",
            solo_random(spec(10), 1_000),
            mean("n", 10.0),
        ),
        client_delay("2 T without competition, if another has entered since.", solo(spec(5)), exact("2", 2.0)),
        client_delay(
            "0 if no other has entered since: half of the rare requests of two processes.",
            Spec { load: Some(Load::Random), think: Some(1_000.0), entries: Some(2_000), ..spec(2) },
            mean("2 T for the other half", 1.0),
        ),
        sync_delay("1 T: the deferred reply.", spec(5), exact("1", 1.0)),
        checked(super::ORDER, "Requests enter in the order of their times.", ("carvalho-roucairol", 2), twice, Holds)
            .because("A process with a permission enters without asking, whatever it has not heard of."),
        stops("The crash of a process that is asked stops the others.", spec(5), &["crash 2 @ 4.5"]),
    ]
}

fn maekawa() -> Vec<Said> {
    let spec = |n| sim("maekawa", n);
    let dear = Spec {
        network: NetworkKind::Async,
        load: Some(Load::Random),
        think: Some(2.0),
        entries: Some(100),
        seed: Some(38),
        ..spec(7)
    };
    vec![
        messages("3 sqrt(n) messages per entry.", solo(spec(9)), exact("3 sqrt(n)", 9.0))
            .because("3(K-1), and on a grid K = 2 sqrt(n) - 1: about 6 sqrt(n). Only the voting sets of a projective plane are near sqrt(n)."),
        messages("3(K-1) messages per entry under light load.", solo(spec(13)), exact("3(K-1), K = 4", 9.0)),
        messages("4(K-1) messages per entry under contention.", spec(13), exact("4(K-1), K = 4", 12.0)),
        figure(
            MESSAGES,
            "5(K-1) messages per entry in the worst case.",
            dear,
            Figure::MessagesMax,
            Expectation::at_most("at most 5(K-1) = 10, K = 3", 10.0),
        )
        .because("A voter whose vote comes back must grant it again. The mean of a run stays below 5(K-1)."),
        figure(MESSAGES, "Leaving takes 1 multicast.", solo(spec(13)), Figure::ExitMessages, exact("K-1, K = 4", 3.0)),
        client_delay("2 T without competition.", solo(spec(13)), exact("2", 2.0)),
        sync_delay("2 T, because two voting sets overlap.", spec(13), exact("2", 2.0))
            .because("1 T if the leaving process is itself the voter that both sets share; never more than 2 T."),
        order("Requests enter in order.", ("maekawa", 3), Holds)
            .because("A voter that has not heard of the earlier request lets the later one in."),
        checked(
            PROMISE,
            "Without further messages, three processes can deadlock.",
            ("maekawa-no-inquire", 3),
            check_of(Property::Deadlock),
            Fails,
        ),
        stops("The crash of a voter stops all that need its vote.", spec(9), &["crash 4 @ 10.5"]),
    ]
}

fn generalized() -> Vec<Said> {
    let spec = |n, variant: &str| Spec { variant: Some(variant.into()), ..sim("generalized", n) };
    vec![
        messages(
            "With one coordinator as request and inform set it is central: 3 messages.",
            solo(spec(5, "central")),
            exact("2|R| + |I|", 3.0),
        ),
        messages(
            "With all as request set and oneself as inform set it is Ricart-Agrawala: 2(n-1) messages.",
            solo(spec(5, "ricart-agrawala")),
            exact("2(n-1)", 8.0),
        ),
        messages(
            "With voting sets for both it is Maekawa: 3(K-1) messages.",
            solo(sim("generalized", 13)),
            exact("3(K-1), K = 4", 9.0),
        ),
        client_delay("2 T without competition.", solo(sim("generalized", 13)), exact("2", 2.0)),
        sync_delay("2 T through a coordinator.", spec(5, "central"), exact("2", 2.0)),
        sync_delay("1 T, if all are asked.", spec(5, "ricart-agrawala"), exact("1", 1.0)),
        order("Whether it keeps the order depends on the sets; Maekawa's do not.", ("generalized", 3), Fails),
        stops("The crash of a member of the request set stops it.", sim("generalized", 9), &["crash 4 @ 10.5"]),
    ]
}

fn suzuki_kasami() -> Vec<Said> {
    let spec = || sim("suzuki-kasami", 5);
    vec![
        messages("n messages per entry: n-1 requests and the token.", spec(), exact("n", 5.0)),
        client_delay("2 T without competition: request and token.", solo(spec()), exact("2", 2.0)),
        sync_delay("1 T: the token.", spec(), exact("1", 1.0)),
        figure(
            PROMISE,
            "No process starves: the search for the next one starts at the own id.",
            spec(),
            Figure::BypassMax,
            Expectation::at_most("at most n-1 = 4", 4.0),
        ),
        order("Not in order: the ids decide.", ("suzuki-kasami", 2), Fails),
        stops("The crash of the token's holder stops it.", sim("suzuki-kasami", 4), &["crash 1 @ 2.5"]),
    ]
}

fn singhal() -> Vec<Said> {
    let spec = |n| sim("singhal", n);
    let twice = CheckOptions { entries: 2, order: Some(LinkOrder::Fifo), ..check_of(Property::Deadlock) };
    vec![
        messages(
            "n/2 requests on average and the token, if few compete.",
            solo_random(spec(10), 2_000),
            mean("n/2 + 1", 6.0),
        ),
        messages("Near n messages under contention.", spec(10), exact("n", 10.0)),
        client_delay("2 T without competition: request and token.", solo(spec(5)), exact("2", 2.0)),
        sync_delay("1 T: the token.", spec(5), exact("1", 1.0)),
        order("Not in order: the token decides.", ("singhal", 2), Fails),
        checked(PROMISE, "As published, every request is granted.", ("singhal-1989", 3), twice, Holds)
            .because("A token can overtake an older request through a third process. `singhal` is a repaired version."),
        stops("The crash of the token's holder stops it.", spec(4), &["crash 1 @ 2.5"]),
    ]
}

fn raymond() -> Vec<Said> {
    let chain = |n| Spec { variant: Some("chain".into()), ..sim("raymond", n) };
    vec![
        figure(
            MESSAGES,
            "2(n-1) messages in the worst case, if the tree is a chain.",
            Spec { load: Some(Load::SoloRandom), ..chain(5) },
            Figure::MessagesMax,
            exact("2(n-1)", 8.0),
        ),
        messages("Less than 4 messages, if all want to enter.", sim("raymond", 7), exact("4(n-1)/n", 24.0 / 7.0)),
        client_delay(
            "Twice the distance to the token: on a chain 2(n+1)/3 T on average.",
            solo_random(chain(10), 1_000),
            mean("2(n+1)/3", 22.0 / 3.0),
        ),
        sync_delay("2(n-1)/n T on average, if all want to enter.", sim("raymond", 7), exact("2(n-1)/n", 12.0 / 7.0)),
        figure(
            SYNC_DELAY,
            "At most the diameter of the tree.",
            sim("raymond", 7),
            Figure::SyncDelayMax,
            Expectation::at_most("at most 4", 4.0),
        ),
        order("Not in order: the tree decides.", ("raymond", 2), Fails),
        stops("The crash of an inner process stops those behind it.", sim("raymond", 7), &["crash 1 @ 4.5"]),
    ]
}

fn naimi_trehel() -> Vec<Said> {
    let random = || solo_random(sim("naimi-trehel", 10), 2_000);
    let path = || mean("n H(n-1)/(n-1)", 7_129.0 / 2_268.0);
    vec![
        messages("About log n messages on average, if random processes request.", random(), path()),
        figure(
            MESSAGES,
            "n messages in the worst case.",
            solo(sim("naimi-trehel", 5)),
            Figure::MessagesMax,
            exact("n", 5.0),
        ),
        client_delay("A T for each process on the way of the request, and one for the token.", random(), path()),
        sync_delay("1 T: the token goes straight to the next process.", sim("naimi-trehel", 5), exact("1", 1.0)),
        order("Not in order: the root that a request reaches first decides.", ("naimi-trehel", 2), Fails),
        stops("The crash of the process with the token stops all.", sim("naimi-trehel", 5), &["crash 0 @ 0.5"]),
        stops(
            "The crash of a father stops those that send it their requests.",
            solo(sim("naimi-trehel", 5)),
            &["crash 0 @ 3.5"],
        )
        .because("P0 has given the token away, and is the father of P2."),
        stops("The crash of a next stops all: the token goes to it.", sim("naimi-trehel", 5), &["crash 2 @ 2.5"])
            .because("P1 is inside, and P2 is its next."),
    ]
}

fn voting() -> Vec<Said> {
    let spec = |n| sim("voting", n);
    let five = || Spec { coordinators: Some(5), ..spec(3) };
    vec![
        messages("3m messages per entry alone, for m votes.", solo(spec(5)), exact("3m, m = 3", 9.0)),
        messages(
            "More under contention: each failed attempt costs up to 3m again.",
            spec(5),
            Expectation::at_least("9 or more", 9.0),
        ),
        client_delay("2 T without competition.", solo(spec(5)), exact("2", 2.0)),
        sync_delay("2 T and the back-off.", spec(5), Expectation::at_least("2 or more", 2.0)),
        order("Not in order: chance decides.", ("voting", 2), Fails),
        goes_on("It survives the crash of a minority of the coordinators.", five(), &["crash 3 @ 10", "crash 4 @ 15"]),
        stops(
            "It stops if a majority of the coordinators crashes.",
            five(),
            &["crash 3 @ 10", "crash 4 @ 15", "crash 5 @ 20"],
        ),
    ]
}
