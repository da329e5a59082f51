use super::messages::{LOST, SHORT_OF};
use super::scale::UNIT;
use super::*;
use crate::{DatedBy, DropReason, Event, Unit, Workload, example};

fn header() -> Header {
    let (algorithm, variant) = ("a<b".into(), Some("v".into()));
    Header { algorithm, variant, processes: 2, clients: 1, seed: 1, ..example::header() }
}

fn records(events: impl IntoIterator<Item = (f64, usize, Event)>) -> Vec<Record> {
    (0..).zip(events).map(|(seq, (t, p, event))| Record { seq, t, p: Some(p), resource: None, event }).collect()
}

fn drawn(events: impl IntoIterator<Item = (f64, usize, Event)>) -> String {
    draw(&header(), &records(events), Extent::All)
}

fn send(msg: u64, kind: &str) -> Event {
    Event::Send { msg, to: 1, kind: kind.into(), bytes: 1, body: None }
}

fn deliver(msg: u64) -> Event {
    Event::Deliver { msg, from: 0, kind: String::new() }
}

fn end(reason: &str) -> Event {
    Event::End { reason: reason.into(), entries: 0, messages: 0 }
}

/// The part of the picture with this tooltip.
fn with_tooltip<'a>(svg: &'a str, tooltip: &str) -> &'a str {
    let from = svg.find(&format!("<title>{tooltip}")).unwrap_or_else(|| panic!("no tooltip {tooltip} in {svg}"));
    svg[from..].split("</g>").next().unwrap()
}

/// The texts of a class.
fn texts<'a>(svg: &'a str, class: &str) -> Vec<&'a str> {
    let lines = svg.lines().filter(|line| line.starts_with(&format!("<text class=\"{class}\"")));
    lines.map(|line| line.split('>').nth(1).unwrap().trim_end_matches("</text")).collect()
}

#[test]
fn what_does_not_arrive_ends_before_its_receiver() {
    let crashed = Event::Drop { msg: 4, reason: DropReason::Crashed };
    let svg = drawn([
        (0.0, 0, send(0, "ARRIVED")),
        (0.0, 0, send(1, "OVERTAKEN")),
        (0.0, 0, send(2, "LOST")),
        (0.0, 0, Event::AppSend { msg: 3, to: 1 }),
        (0.0, 0, send(4, "CRASHED")),
        (1.0, 1, deliver(0)),
        (1.0, 1, Event::Drop { msg: 2, reason: DropReason::Loss }),
        (1.0, 1, crashed),
    ]);
    let (sender, receiver) = (50.0 + HEAD, 50.0 + HEAD + LANE);
    for (kind, class, y, fate) in [
        ("ARRIVED", "message", receiver, "arrives 1 T"),
        ("OVERTAKEN", "message under-way", receiver - SHORT_OF, "still under way"),
        ("LOST", "message lost", sender + LOST * LANE, "lost by the network, 1 T"),
        ("app", "message app under-way", receiver - SHORT_OF, "still under way"),
        ("CRASHED", "message lost", receiver, "lost because P1 is down, 1 T"),
    ] {
        let arrow = with_tooltip(&svg, &format!("{kind}\nP0 to P1: sent 0 T, {fate}<"));
        let is_line = |line: &str| line.contains(&format!("\"{class}\"")) && line.contains(&format!("y2=\"{y:.1}\""));
        assert!(arrow.lines().any(is_line), "{kind}: {arrow}");
    }
}

#[test]
fn a_time_without_events_is_cut_and_says_how_much() {
    let [short, long] = [3.0, 60.0].map(|t| drawn([(0.0, 0, Event::Crash), (t, 0, Event::Recover { memory: true })]));
    assert!(!short.contains("class=\"break\"") && !short.contains(" cut"), "{short}");
    assert_eq!(long.matches("class=\"break\"").count(), 1, "{long}");
    assert!(texts(&long, "time").contains(&"59 T cut"), "{long}");
    assert!(long.contains("time without events, cut</text>"), "the legend explains it: {long}");
    let recovers = format!("translate({:.1} ", LEFT + GAP_MIN + UNIT);
    assert!(with_tooltip(&long, "P0 recover: 60 T").contains(&recovers), "{long}");
}

#[test]
fn a_leader_has_a_bar_until_it_resigns_or_crashes() {
    let elected = |leader, term| Event::Elected { leader, term };
    let svg = drawn([
        (0.0, 0, elected(Some(0), Some(3))),
        (0.0, 1, elected(Some(0), Some(3))),
        (1.0, 0, elected(Some(0), Some(3))),
        (2.0, 0, elected(None, None)),
        (2.0, 1, elected(Some(1), None)),
        (3.0, 1, Event::Crash),
    ]);
    assert!(with_tooltip(&svg, "P0 leads, term 3: 0 T to 2 T, 2 T<").contains("class=\"leads\""), "{svg}");
    assert!(with_tooltip(&svg, "P1 leads: 2 T to 3 T, 1 T<").contains("class=\"leads\""), "{svg}");
    assert_eq!(svg.matches("<rect class=\"leads\"").count(), 3, "two bars, and one in the legend: {svg}");
    assert_eq!(texts(&svg, "on-bar"), ["leads, term 3", "leads"]);
}

#[test]
fn who_waits_does_so_until_it_crashes_gives_up_or_learns_of_a_leader() {
    let elected = Event::Elected { leader: Some(1), term: None };
    for ends in [Event::Crash, Event::Cancel { req: 0 }, elected] {
        let svg = drawn([(0.0, 0, Event::Request { req: 0, lamport: 1 }), (1.0, 0, ends), (2.0, 0, end("finished"))]);
        let bar = with_tooltip(&svg, "P0 waits: 0 T to 1 T, 1 T<");
        assert!(bar.contains("class=\"waiting\"") && bar.contains(&format!("width=\"{UNIT:.1}\"")), "{svg}");
    }
    let svg = drawn([(0.0, 0, Event::Request { req: 0, lamport: 1 }), (1.0, 0, end("deadlock"))]);
    with_tooltip(&svg, "P0 waits: from 0 T on<");
}

#[test]
fn messages_that_go_together_are_counted_where_their_bodies_are_too_long() {
    let request = |msg| {
        let body = Some(serde_json::json!({ "stamp": { "process": msg, "time": 1 }, "time": 1 }));
        (0.0, 0, Event::Send { msg, to: 1, kind: "REQUEST".into(), bytes: 1, body })
    };
    for (count, expected) in [(2, "REQUEST P0, REQUEST P1"), (5, "REQUEST (5)")] {
        let arrivals = (0..count).map(|msg| (3.0, 1, deliver(msg)));
        assert_eq!(texts(&drawn((0..count).map(request).chain(arrivals)), "kind"), [expected]);
    }
}

/// The text on bars is as light as the surface: on a thin bar nobody could read it. Here the bar's middle is cut, too.
#[test]
fn the_label_of_a_thin_bar_stands_below_it() {
    let append = Event::Append { req: 1 };
    let svg = drawn([(0.0, 0, append), (4.0, 0, Event::Appended { req: 1, offset: 7 })]);
    assert_eq!(texts(&svg, "on-bar"), [""; 0], "{svg}");
    assert_eq!(texts(&svg, "note"), ["offset 7"], "{svg}");
}

#[test]
fn bodies_are_in_the_tooltip_and_short_ones_in_the_label() {
    let body = |msg, kind: &str, body| Event::Send {
        msg,
        to: 1,
        kind: kind.into(),
        bytes: 1,
        body: Some(serde_json::from_str(body).unwrap()),
    };
    let long = r#"{"served":[0,0,0,0,0,0,0,0]}"#;
    let svg = drawn([
        (0.0, 0, body(0, "ELECTION", r#"{"Election":{"id":4,"number":1}}"#)),
        (1.0, 1, deliver(0)),
        (1.0, 0, body(1, "TOKEN", long)),
        (2.0, 1, deliver(1)),
        (2.0, 0, body(2, "REPLY", r#"{"time":3,"request":2}"#)),
        (3.0, 1, deliver(2)),
        (3.0, 0, body(3, "GRANT", r#"{"fence":7}"#)),
        (4.0, 1, deliver(3)),
    ]);
    assert_eq!(texts(&svg, "kind"), ["ELECTION 4", "TOKEN", "REPLY", "GRANT 7"]);
    for tooltip in [r#"ELECTION {"Election":{"id":4,"number":1}}"#, &format!("TOKEN {long}"), "REPLY {"] {
        with_tooltip(&svg, &tooltip.replace('"', "&quot;"));
    }
}

#[test]
fn the_legend_explains_what_occurs_and_nothing_else() {
    let words = |svg: &str| -> Vec<String> {
        let lines = svg.lines().filter(|line| line.starts_with("<g class=\"legend\">"));
        lines.map(|line| line.trim_end_matches("</text></g>").rsplit('>').next().unwrap().to_owned()).collect()
    };
    assert_eq!(words(&drawn([(0.0, 0, Event::Crash)])), ["down", "crash"]);
    let request = [(0.0, 0, Event::Request { req: 0, lamport: 1 }), (0.0, 0, send(0, "REQUEST")), (1.0, 1, deliver(0))];
    assert_eq!(words(&drawn(request)), ["waits", "message"]);
    assert_eq!(words(&drawn([(0.0, 0, end("finished"))])), [""; 0]);
}

/// The four corners of the text of an arrow, which is turned.
fn corners(label: &str) -> [(f64, f64); 4] {
    let numbers: Vec<f64> =
        label.split(['(', ')', ' ', '"']).filter_map(|word| word.parse().ok()).take(3).collect::<Vec<f64>>();
    let (x, y, (sin, cos)) = (numbers[0], numbers[1], numbers[2].to_radians().sin_cos());
    let text = label.split('>').nth(1).unwrap().trim_end_matches("</text");
    let (a, b) = (text_width(text) / 2.0, SMALL_HEIGHT / 2.0);
    [(-a, -b), (a, -b), (a, b), (-a, b)].map(|(u, v)| (x + u * cos - v * sin, y + u * sin + v * cos))
}

/// Whether two convex figures are apart along a side of one of them.
fn are_apart(one: &[(f64, f64); 4], other: &[(f64, f64); 4]) -> bool {
    let outside = |one: &[(f64, f64); 4], other: &[(f64, f64); 4]| {
        (0..4).any(|i| {
            let ((x1, y1), (x2, y2)) = (one[i], one[(i + 1) % 4]);
            other.iter().all(|(x, y)| (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1) <= 0.1)
        })
    };
    outside(one, other) || outside(other, one)
}

#[test]
fn labels_do_not_overlap_and_without_room_are_in_the_tooltip() {
    let mut header = header();
    header.processes = 6;
    let mut events = Vec::new();
    let pairs = || (0..6).flat_map(|from| (0..6).filter(move |to| *to != from).map(move |to| (from, to)));
    for (msg, (from, to)) in (0..).zip(pairs()) {
        events.push((0.0, from, Event::Send { msg, to, kind: "REQUEST".into(), bytes: 1, body: None }));
    }
    for (msg, (from, to)) in (0..).zip(pairs()) {
        events.push((0.5, to, Event::Deliver { msg, from, kind: "REQUEST".into() }));
    }
    let svg = draw(&header, &records(events), Extent::All);
    let labels: Vec<&str> = svg.lines().filter(|line| line.starts_with("<text class=\"kind\"")).collect();
    assert!((5..30).contains(&labels.len()), "{} of 30 labels are drawn", labels.len());
    for (index, label) in labels.iter().enumerate() {
        for other in &labels[..index] {
            assert!(are_apart(&corners(label), &corners(other)), "{label} covers {other}");
        }
    }
    assert_eq!(svg.matches("<title>REQUEST").count(), 30);
}

#[test]
fn no_label_covers_the_cross_of_a_lost_message() {
    let header = Header { processes: 4, clients: 4, ..header() };
    let lost = |msg| Event::Drop { msg, reason: DropReason::Partition };
    let send = |msg, to| Event::Send { msg, to, kind: "COORDINATOR".into(), bytes: 1, body: None };
    let to = |msg: u64| msg as usize;
    let sends = (0..3).map(|msg| (0.0, 3, send(msg, to(msg))));
    let drops = (0..3).map(|msg| (0.0, to(msg), lost(msg)));
    let svg = draw(&header, &records(sends.chain(drops)), Extent::All);
    let crosses = svg.lines().filter(|line| line.contains("class=\"cross\"") && !line.contains("legend"));
    let crosses: Vec<[(f64, f64); 4]> = crosses
        .map(|line| {
            let at: Vec<f64> = line.split(['(', ')', ' ']).filter_map(|word| word.parse().ok()).take(2).collect();
            [(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)].map(|(x, y)| (at[0] + x, at[1] + y))
        })
        .collect();
    assert_eq!(crosses.len(), 3, "{svg}");
    let labels: Vec<&str> = svg.lines().filter(|line| line.starts_with("<text class=\"kind\"")).collect();
    assert!(!labels.is_empty(), "{svg}");
    for label in labels {
        assert!(crosses.iter().all(|cross| are_apart(&corners(label), cross)), "{label} covers a cross in {crosses:?}");
    }
}

/// The arrow of the second message crosses the first where its label would be without it.
#[test]
fn a_label_stands_where_no_arrow_crosses_it() {
    let back = Event::Send { msg: 1, to: 0, kind: "ACK".into(), bytes: 1, body: None };
    let svg = drawn([
        (0.0, 0, send(0, "REQUEST")),
        (0.2, 1, back),
        (0.4, 0, Event::Deliver { msg: 1, from: 1, kind: "ACK".into() }),
        (1.0, 1, deliver(0)),
    ]);
    let lines = svg.lines().filter(|line| line.starts_with("<line class=\"message\""));
    let ends: Vec<Vec<f64>> =
        lines.map(|line| line.split('"').filter_map(|word| word.parse().ok()).collect()).collect();
    let mut arrows = places::Segments::default();
    ends.iter().for_each(|ends| arrows.add(((ends[0], ends[1]), (ends[2], ends[3]))));
    assert_eq!(ends.len(), 2, "{svg}");
    for label in svg.lines().filter(|line| line.starts_with("<text class=\"kind\"")) {
        let [(x1, y1), _, (x2, y2), _] = corners(label);
        let (x, y) = ((x1 + x2) / 2.0, (y1 + y2) / 2.0);
        let angle = label.split("rotate(").nth(1).unwrap().split(')').next().unwrap().parse::<f64>().unwrap();
        let text = label.split('>').nth(1).unwrap().trim_end_matches("</text");
        let place = Place { x, y, width: text_width(text), height: SMALL_HEIGHT, angle: angle.to_radians() };
        assert_eq!(arrows.crossing(&place), 0, "{label}");
    }
}

#[test]
fn of_a_long_run_the_first_30_t_are_drawn_unless_somebody_asks_for_more() {
    let long: Vec<_> = (0..100).map(|t| (f64::from(t), 0, Event::Timer { name: format!("n{t}") })).collect();
    let note = |at| format!("drawn until {at} T of 99 T; --svg-until all draws the whole run");
    for (extent, last) in [(Extent::Beginning, 30), (Extent::Until(70.0), 70), (Extent::All, 99)] {
        let svg = draw(&header(), &records(long.clone()), extent);
        assert!(svg.contains(&format!("n{last}<")) && !svg.contains(&format!("n{}<", last + 1)), "{extent:?}");
        assert_eq!((svg.contains("drawn until"), svg.contains(&note(last))), (last < 99, last < 99), "{extent:?}");
    }
    let counterexample = long.iter().cloned().chain([(99.0, 0, end("violation"))]);
    for whole in [records(counterexample), records(long[50..].iter().cloned())] {
        let svg = draw(&header(), &whole, Extent::Beginning);
        assert!(svg.contains(">timer n99<") && !svg.contains("drawn until"), "{svg}");
    }
    let sparse = (0..100).map(|t| (10.0 * f64::from(t), 0, Event::Timer { name: "x".into() }));
    let svg = draw(&header(), &records(sparse), Extent::Beginning);
    assert!(svg.contains("drawn until 300 T of 990 T") && svg.matches("9 T cut<").count() == 30, "{svg}");
    let dense = (0..1000).map(|t| (f64::from(t) / 1000.0, 0, Event::Timer { name: "x".into() }));
    assert!(draw(&header(), &records(dense), Extent::Beginning).contains("drawn until 0.399 T of 0.999 T"));
}

#[test]
fn an_extent_is_a_time_or_all() {
    let read = |text: &str| text.parse::<Extent>().ok();
    assert_eq!(
        (read("12.5"), read("all"), read("0")),
        (Some(Extent::Until(12.5)), Some(Extent::All), Some(Extent::Until(0.0)))
    );
    assert_eq!(["", "-1", "inf", "NaN", "everything"].map(read), [None; 5]);
}

#[test]
fn the_title_tells_a_seed_and_the_axis_its_unit_where_they_have_one() {
    let steps = |reason| records([(1.0, 0, end(reason))]);
    let peers = Header { unit: Unit::Seconds, ..header() };
    let workload = Workload { dated_by: Some(DatedBy::Ticks), ..Workload::default() };
    let beats = Header { workload, ..header() };
    for (header, reason, seed, unit) in [
        (header(), "finished", true, ">T<"),
        (header(), "violation", false, ">step<"),
        (beats, "violation", false, ">tick<"),
        (peers, "finished", false, ">s<"),
    ] {
        let svg = draw(&header, &steps(reason), Extent::All);
        assert_eq!((svg.contains(", seed 1"), svg.contains(unit)), (seed, true), "{svg}");
    }
}

#[test]
fn what_happens_again_and_again_is_marked() {
    let all = records([(1.0, 0, Event::Crash), (2.0, 0, Event::Resume), (2.0, 0, end("violation"))]);
    let cycle = |first| Header { workload: Workload { cycle_from: Some(first), ..Workload::default() }, ..header() };
    let svg = draw(&cycle(1), &all, Extent::All);
    let x = LEFT + GAP_MIN + UNIT - GAP_MIN / 2.0;
    assert!(svg.contains(&format!("class=\"cycle\" x=\"{x:.1}\"")) && svg.contains("again and again"), "{svg}");
    assert!(!draw(&header(), &all, Extent::All).contains("again and again"));
    assert!(!draw(&cycle(9), &all, Extent::All).contains("again and again"));
}

#[test]
fn long_text_is_broken_into_lines_that_fit() {
    let detail = "so ".repeat(200) + &"x".repeat(500);
    let svg = drawn([(0.0, 0, Event::Violation { property: "safety".into(), detail })]);
    let lines = texts(&svg, "wrong");
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap();
    assert!(lines.len() > 5 && 2.0 * MARGIN + LETTER * longest as f64 <= WIDTH_MIN, "{lines:?}");
    let all: String = lines.concat();
    assert_eq!((all.matches("so ").count(), all.matches('x').count()), (200, 500));
}

#[test]
fn a_violation_that_is_not_promised_is_not_red() {
    let violation = |property: &str| Event::Violation { property: property.into(), detail: "d".into() };
    let header = Header { algorithm: "central".into(), ..header() };
    let svg = draw(&header, &records([(0.0, 0, violation("order")), (1.0, 0, violation("safety"))]), Extent::All);
    assert_eq!(texts(&svg, "wrong"), ["safety: d"]);
    assert_eq!(texts(&svg, "harmless"), ["order, which is not promised: d"]);
    assert!(svg.contains("violates safety: 1 T") && !svg.contains("violates order"), "{svg}");
}

#[test]
fn violations_that_are_not_drawn_are_only_counted() {
    let violation = |property: &str| Event::Violation { property: property.into(), detail: "d".into() };
    let all = records([(0.0, 0, violation("safety")), (4.0, 0, violation("fence")), (5.0, 0, violation("fence"))]);
    let until = |t| draw(&header(), &all, Extent::Until(t));
    assert_eq!(texts(&until(1.0), "wrong"), ["safety: d", "2 violations later, not drawn: fence"]);
    assert_eq!(texts(&until(4.0), "wrong"), ["safety: d", "fence: d", "1 violation later, not drawn: fence"]);
    assert_eq!(texts(&until(5.0), "wrong"), ["safety: d", "fence: d", "fence: d"]);
    let central = Header { algorithm: "central".into(), ..header() };
    let many = (0..9).map(|t| (f64::from(t), 0, violation(if t == 8 { "safety" } else { "order" })));
    let many = records(many);
    let svg = draw(&central, &many, Extent::Until(4.0));
    let order = "order, which is not promised: d";
    assert_eq!(texts(&svg, "harmless"), [order, order, order, "and 2 more"]);
    let later = "4 violations later, not drawn: order, which is not promised; safety";
    assert_eq!(texts(&svg, "wrong"), [later]);
}

/// The two times and the length of the cut are so long that they do not fit beside each other.
#[test]
fn the_length_of_a_cut_covers_no_time() {
    let svg = drawn([(99_999.0, 0, Event::Crash), (12_345_678_901.25, 0, Event::Recover { memory: true })]);
    let place = |text: &str| {
        let line =
            svg.lines().find(|line| line.contains(&format!(">{text}<"))).unwrap_or_else(|| panic!("{text}: {svg}"));
        let number = |name: &str| line.split(&format!(" {name}=\"")).nth(1).unwrap().split('"').next().unwrap();
        let width = text_width(text);
        Place {
            x: number("x").parse().unwrap(),
            y: number("y").parse().unwrap(),
            width,
            height: SMALL_HEIGHT,
            angle: 0.0,
        }
    };
    let mut taken = Places::default();
    taken.take(place("12345678901.25"));
    taken.take(place("99999"));
    assert!(taken.is_free(&place("12345578901.25 T cut")), "{svg}");
}

#[test]
fn no_text_is_on_the_mark_that_the_run_goes_on() {
    let enter = Event::Enter { req: 0, fence: 4711 };
    let all = records([(0.0, 0, Event::Crash), (1.0, 1, enter), (2.0, 1, Event::Exit { req: 0 })]);
    let svg = draw(&header(), &all, Extent::Until(1.0));
    let label = svg.lines().find(|line| line.contains(">fence 4711<")).unwrap_or_else(|| panic!("{svg}"));
    let x: f64 = label.split(" x=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
    let end = LEFT + GAP_MIN + UNIT + GAP_MIN;
    assert!(x + text_width("fence 4711") / 2.0 <= end - 8.0, "{label} reaches to {end}");
}

#[test]
fn everything_that_happens_is_drawn() {
    let events = [
        (0.0, Event::Request { req: 0, lamport: 1 }),
        (0.0, send(0, "REQUEST")),
        (0.0, send(1, "MORE")),
        (2.0, Event::Enter { req: 0, fence: 7 }),
        (2.5, Event::StoreWrite { fence: 7, accepted: false, value: serde_json::Value::Null }),
        (3.0, Event::Exit { req: 0 }),
        (3.0, Event::Suspect { peer: 1 }),
        (3.0, Event::Suspect { peer: 0 }),
        (4.0, Event::Crash),
        (4.0, Event::Partition { groups: vec![vec![0], vec![1]], oneway: None }),
        (4.5, Event::Heal),
        (4.5, Event::Partition { groups: Vec::new(), oneway: Some((0, 1)) }),
        (5.0, Event::Violation { property: "safety".into(), detail: "wrong".into() }),
    ];
    let mut records = records(events.map(|(t, event)| (t, 0, event)));
    for record in &mut records {
        record.p = record.p.filter(|_| !matches!(record.event, Event::Partition { .. } | Event::Heal));
    }
    for msg in [0, 1] {
        let event = deliver(msg);
        records.insert(3 + msg as usize, Record { seq: 2, t: 1.0, p: Some(1), resource: None, event });
    }
    let svg = draw(&header(), &records, Extent::All);
    let drawn = [
        "a&lt;b (v), 2 processes",
        ">REQUEST, MORE<",
        "fence 7",
        "class=\"inside\"",
        ">write 7 refused<",
        ">suspects P1, P0<",
        ">crash<",
        "safety: wrong",
        ">partition 0|1<",
        ">heal<",
        ">cut 0-&gt;1<",
    ];
    for part in drawn {
        assert!(svg.contains(part), "{part} is missing in {svg}");
    }
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(draw(&header(), &[], Extent::All).contains("P1"), "even nothing can be drawn");
}

#[test]
fn hostile_text_stays_text() {
    let events = records([(0.0, 0, Event::Timer { name: "<script>\u{1}&".into() })]);
    let svg = draw(&Header { algorithm: "\"><script>".into(), ..header() }, &events, Extent::All);
    assert!(svg.contains("timer &lt;script&gt;\u{fffd}&amp;") && !svg.contains("<script>"), "{svg}");
}

/// The colours of a block of the palette.
fn colours(block: &str) -> BTreeMap<&str, u32> {
    let declarations = block.split([';', '\n', '{']).filter_map(|text| text.split_once(": #"));
    declarations.map(|(name, colour)| (name.trim(), u32::from_str_radix(colour, 16).unwrap())).collect()
}

/// The contrast of two colours as WCAG 2 defines it.
fn contrast(one: u32, other: u32) -> f64 {
    let luminance = |colour: u32| {
        let part = |shift: u32| {
            let part = f64::from(colour >> shift & 0xff) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(16) + 0.7152 * part(8) + 0.0722 * part(0)
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn both_themes_have_all_colours_with_enough_contrast() {
    let blocks: Vec<_> = PALETTE.split('}').map(colours).filter(|block| !block.is_empty()).collect();
    let [light, by_system, by_choice] = blocks.as_slice() else { panic!("not three blocks: {blocks:?}") };
    assert_eq!(by_system, by_choice, "dark is dark, whoever chooses it");
    assert!(light.keys().eq(by_system.keys()), "{light:?} {by_system:?}");
    for theme in [light, by_system] {
        // Backgrounds, and lines that carry no meaning.
        let backs = ["--surface", "--card", "--repeat", "--line", "--on-accent"];
        for (name, colour) in theme.iter().filter(|(name, _)| !backs.contains(name)) {
            // WCAG AA: 3 for shapes, 4.5 for text.
            let least = if ["--axis", "--waiting"].contains(name) { 3.0 } else { 4.5 };
            for back in ["--surface", "--card"] {
                let found = contrast(*colour, theme[back]);
                assert!(found >= least, "{name} on {back}: {found:.2} is less than {least}");
            }
        }
        assert!(contrast(theme["--on-accent"], theme["--accent"]) >= 4.5);
    }
    let used = STYLE.split("var(").skip(1).map(|rest| rest.split(')').next().unwrap());
    for name in used {
        assert!(light.contains_key(name), "{name} is not in the palette");
    }
    let svg = drawn([]);
    assert!(svg.contains("fill: #1c1b19"), "a program without custom properties draws the light theme");
}
