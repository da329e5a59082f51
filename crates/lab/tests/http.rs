//! The lab through real sockets: what a browser, a foreign page or a hostile program may send.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use baton_lab::{Lab, serve};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A lab on a free port of the loopback interface. It ends with the test's process.
struct Server {
    address: SocketAddr,
    lab: Lab,
}

/// An answer.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The one sentence of a refusal.
    fn error(&self) -> String {
        let json = self.json();
        let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["error"]);
        json["error"].as_str().unwrap().to_owned()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let named = |line: &&str| line.to_ascii_lowercase().starts_with(&format!("{name}: "));
        self.head.lines().find(named).map(|line| &line[name.len() + 2..])
    }
}

impl Server {
    fn start() -> Self {
        let lab = Lab::default();
        let (sender, address) = mpsc::channel();
        let served = lab.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                serve(listener, served).await.unwrap();
            });
        });
        Server { address: address.recv().unwrap(), lab }
    }

    /// Sends bytes, and leaves the connection open.
    fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        // A server that refuses a large request may close the connection before it has read everything.
        _ = stream.write_all(bytes);
        stream
    }

    fn exchange(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.send(bytes);
        let mut answer = Vec::new();
        let mut part = [0; 65_536];
        while let Ok(read @ 1..) = stream.read(&mut part) {
            answer.extend_from_slice(&part[..read]);
        }
        let text = String::from_utf8(answer).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_owned() };
        Answer { status, head: head.to_owned(), body }
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let host = self.address.to_string();
        let mut all = vec![("host", host.as_str()), ("connection", "close")];
        all.extend(headers);
        self.raw(method, path, &all, body)
    }

    /// Only the given headers and the length.
    fn raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.exchange(head(method, path, headers, body).as_bytes())
    }

    fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], "")
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path, &[("content-type", "application/json")], &body.to_string())
    }

    fn refusal(&self, path: &str, body: &Value) -> String {
        let answer = self.post(path, body);
        assert_eq!(answer.status, 400, "{}", answer.body);
        answer.error()
    }

    fn wait_until_jobs_are(&self, wanted: usize) {
        let started = Instant::now();
        while self.lab.jobs_running() != wanted {
            assert!(started.elapsed() < Duration::from_secs(60), "{} jobs are running", self.lab.jobs_running());
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn head(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\n{lines}content-length: {}\r\n\r\n{body}", body.len())
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole += &rest[..length];
        body = &rest[length + 2..];
    }
    whole
}

#[test]
fn the_page_and_its_calls_are_served_with_strict_headers() {
    let server = Server::start();
    let about = server.get("/api/about");
    assert_eq!(about.status, 200);
    assert_eq!(about.header("cache-control"), Some("no-store"));
    assert!(about.json()["algorithms"].as_array().unwrap().len() > 30);
    let missing = server.get("/nothing.js");
    assert_eq!((missing.status, missing.error().as_str()), (404, "the lab has no such file"));
    for answer in [about, missing, server.get("/"), server.get("/api/nothing"), server.get("/api/run")] {
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{policy}");
    }
    assert_eq!(server.get("/api/nothing").status, 404);
    assert_eq!(server.get("/api/run").status, 405);
    assert_eq!(server.request("DELETE", "/api/about", &[], "").status, 405);
}

#[test]
fn foreign_hosts_and_origins_are_refused() {
    let server = Server::start();
    let own = server.address.to_string();
    let get =
        |headers: &[(&str, &str)]| server.raw("GET", "/api/about", &[headers, &[("connection", "close")]].concat(), "");
    for host in ["example.org", "rebound.example.org:80", "localhost:1", "127.0.0.1"] {
        let answer = get(&[("host", host)]);
        assert_eq!(answer.status, 403, "{host}");
        assert!(!answer.body.contains("algorithms"));
    }
    assert_eq!(get(&[]).status, 400, "HTTP/1.1 demands a host");
    assert_eq!(get(&[("host", &own), ("host", "example.org")]).status, 400);
    for origin in ["http://example.org", "null", "https://localhost", "http://localhost:1"] {
        assert_eq!(get(&[("host", &own), ("origin", origin)]).status, 403, "{origin}");
    }
    let localhost = format!("localhost:{}", server.address.port());
    assert_eq!(get(&[("host", &localhost), ("origin", &format!("http://{localhost}"))]).status, 200);
    // A foreign page that asks whether it may.
    let asked = server.request("OPTIONS", "/api/run", &[("origin", "http://example.org")], "");
    assert_eq!(asked.status, 403);
    assert_eq!(asked.header("access-control-allow-origin"), None);
    let line = format!("http://example.org{}", "/api/about");
    assert_eq!(server.raw("GET", &line, &[("host", &own), ("connection", "close")], "").status, 400);
}

/// A form or a script of a foreign page can send these types without asking.
#[test]
fn only_json_is_read_as_json() {
    let server = Server::start();
    let body = json!({"spec": {"algorithm": "central", "entries": 1}}).to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""] {
        let answer = server.request("POST", "/api/run", &[("content-type", kind)], &body);
        assert_eq!(
            (answer.status, answer.error().as_str()),
            (400, "the content-type of this call must be application/json")
        );
    }
    assert_eq!(server.request("POST", "/api/run", &[], &body).status, 400);
    let kind = [("content-type", "application/json; charset=utf-8")];
    assert_eq!(server.request("POST", "/api/run", &kind, &body).status, 200);
    let trace = server.request("POST", "/api/trace", &kind, "");
    assert_eq!(trace.error(), "the content-type of this call must be application/x-ndjson");
}

#[test]
fn large_and_malformed_bodies_are_refused() {
    let server = Server::start();
    let json = [("content-type", "application/json")];
    let huge = server.request("POST", "/api/hand", &json, &" ".repeat(3 << 20));
    assert_eq!((huge.status, huge.error().as_str()), (413, "the request is too large for this call"));
    let trace =
        server.request("POST", "/api/trace", &[("content-type", "application/x-ndjson")], &" ".repeat(65 << 20));
    assert_eq!(trace.status, 413);
    let spec = |fields: &str| format!(r#"{{"spec":{{"algorithm":"central",{fields}}}}}"#);
    let bodies = [
        String::new(),
        "null".into(),
        "[]".into(),
        "{".into(),
        "\u{0}".into(),
        "[".repeat(100_000),
        "{\"spec\":".repeat(100_000),
        r#"{"spec":{}}"#.into(),
        r#"{"spec":{"algorithm":1}}"#.into(),
        r#"{"spec":{"algorithm":"central"},"more":1}"#.into(),
        spec(r#""n":-1"#),
        spec(r#""n":1.5"#),
        spec(r#""n":1e400"#),
        spec(r#""n":NaN"#),
        spec(r#""hold":NaN"#),
        spec(r#""hold":1e400"#),
        spec(r#""entries":-1"#),
        spec(r#""seed":99999999999999999999999"#),
        spec(r#""faults":"crash""#),
        spec(r#""unknown":1"#),
    ];
    for body in bodies {
        let answer = server.request("POST", "/api/run", &json, &body);
        assert_eq!(answer.status, 400, "{:.60}: {:.200}", body, answer.body);
        assert!(answer.error().len() < 500);
    }
}

/// As many as there are jobs, and a few more.
#[test]
fn requests_that_are_half_sent_hold_up_nobody() {
    let server = Server::start();
    let host = server.address.to_string();
    let mut half_sent = Vec::new();
    for (path, kind) in [("/api/moment", "application/json"), ("/api/trace", "application/x-ndjson")] {
        for _ in 0..6 {
            let whole = head("POST", path, &[("host", &host), ("content-type", kind)], &" ".repeat(1 << 20));
            half_sent.push(server.send(&whole.as_bytes()[..whole.len() - 1]));
        }
    }
    let answer = server.post("/api/run", &json!({"spec": {"algorithm": "central", "entries": 1}}));
    assert_eq!(answer.status, 200, "{}", answer.body);
    // The half-sent requests have no job.
    server.wait_until_jobs_are(0);
}

/// The lab reads a large request only at the place of a job. Nobody sends the rest of these.
#[test]
fn large_requests_that_are_half_sent_are_no_more_than_the_jobs() {
    let server = Server::start();
    let host = server.address.to_string();
    let large = "connection: close\r\ncontent-type: application/json\r\ncontent-length: 100000000";
    let half = format!("POST /api/moment HTTP/1.1\r\nhost: {host}\r\n{large}\r\n\r\n{{");
    let half_sent: Vec<_> = (0..4).map(|_| server.send(half.as_bytes())).collect();
    server.wait_until_jobs_are(4);
    let answer = server.exchange(half.as_bytes());
    assert_eq!(answer.status, 429, "{}", answer.body);
    assert!(answer.error().starts_with("the lab is busy"), "{}", answer.error());
    drop(half_sent);
    server.wait_until_jobs_are(0);
}

/// Every call names the field, its value and what would be right.
#[test]
fn a_wrong_field_is_named_with_its_value_and_the_right_one() {
    let server = Server::start();
    let spec = json!({"algorithm": "central", "n": 2});
    let number = "it must be a whole number";
    let cases = [
        (
            "/api/run",
            json!({"spec": {"algorithm": "central", "n": -1}}),
            format!("`spec.n` is -1; {number}, 0 or larger"),
        ),
        (
            "/api/run",
            json!({"spec": {"algorithm": ["central"]}}),
            "`spec.algorithm` is [\"central\"]; it must be a text".into(),
        ),
        (
            "/api/run",
            json!({"spec": {"algorithm": "central", "hold": "long"}}),
            "`spec.hold` is \"long\"; it must be a number".into(),
        ),
        (
            "/api/run",
            json!({"spec": {"algorithm": "central", "load": "heavy"}}),
            "`spec.load` is \"heavy\"; it must be one of `solo`".into(),
        ),
        ("/api/run", json!({"spec": spec, "seed": 1}), "`seed` is unknown; the known fields are spec".into()),
        ("/api/run", json!({}), "`spec` is missing".into()),
        (
            "/api/hand",
            json!({"spec": spec, "rules": {"losses": -1}}),
            format!("`rules.losses` is -1; {number} from 0 to 4294967295"),
        ),
        (
            "/api/hand",
            json!({"spec": spec, "actions": [{"drop": {"message": 0}}, {"drop": {"message": true}}]}),
            format!("`actions[1].drop.message` is true; {number}"),
        ),
        (
            "/api/hand",
            json!({"spec": spec, "actions": {"drop": 1}}),
            "`actions` is {\"drop\":1}; it must be a list".into(),
        ),
        (
            "/api/distance",
            json!({"spec": spec, "entries": 1.5}),
            format!("`entries` is 1.5; {number} from 0 to 4294967295"),
        ),
        ("/api/distance", json!({"spec": spec, "property": 3}), "`property` is 3; it must be a text".into()),
        ("/api/moment", json!({"spec": spec, "seq": "last"}), format!("`seq` is \"last\"; {number}")),
        ("/api/moment", json!({"spec": spec}), "`seq` is missing".into()),
        (
            "/api/check",
            json!({"spec": spec, "options": {"crash": 256}}),
            format!("`options.crash` is 256; {number} from 0 to 255"),
        ),
        (
            "/api/check",
            json!({"spec": spec, "options": {"order": "lifo"}}),
            "`options.order` is \"lifo\"; it must be `fifo` or `unordered`".into(),
        ),
        ("/api/compare", json!({"loads": ["all"], "n": [3, -4]}), format!("`n[1]` is -4; {number}")),
        ("/api/compare", json!({"loads": ["all"]}), "`n` is missing".into()),
    ];
    for (path, body, expected) in cases {
        let refusal = server.refusal(path, &body);
        assert!(refusal.starts_with(&expected), "{path} {body}: {refusal}");
        assert!(!refusal.contains("usize") && !refusal.contains("struct "), "{refusal}");
    }
    let json = [("content-type", "application/json")];
    for path in ["/api/run", "/api/hand", "/api/distance", "/api/moment", "/api/check", "/api/compare"] {
        let answer = server.request("POST", path, &json, "{\n");
        assert_eq!(answer.error(), "the request is no JSON: it breaks off at line 2, column 0", "{path}");
    }
}

#[test]
fn absurd_runs_are_refused_in_a_sentence() {
    let server = Server::start();
    let refusal = |spec: Value| server.refusal("/api/run", &json!({ "spec": spec }));
    assert!(
        refusal(json!({"algorithm": "central", "n": 1_000_000_000})).starts_with("1000000000 processes are too many")
    );
    assert!(refusal(json!({"algorithm": "central", "n": u64::MAX})).starts_with("18446744073709551615 processes"));
    assert!(refusal(json!({"algorithm": "central", "n": 0})).starts_with("a group of 0 is too small"));
    let entries = json!({"algorithm": "central", "entries": 1_000_000_000_000_000_000_u64});
    assert!(refusal(entries).starts_with("1000000000000000000 entries are too many"));
    for delay in
        ["const:NaN", "const:inf", "const:-1", "uniform:2,1", "exp:0", "pareto:NaN,NaN", "const:1e308", "\u{202e}"]
    {
        refusal(json!({"algorithm": "central", "delay": delay}));
    }
    for number in ["hold", "think", "patience", "delay-max", "loss", "duplicate", "drift"] {
        for value in [-1.0, 1e300] {
            refusal(json!({"algorithm": "central", number: value}));
        }
    }
    for fault in [
        "crash",
        "crash 9 @ 1",
        "crash 0 @ NaN",
        "crash 0 @ -1",
        "partition @ 1",
        "pause 0 @ 1 for inf",
        "crash 99999999999999999999 @ 1",
    ] {
        refusal(json!({"algorithm": "central", "faults": [fault], "ignore-assumptions": true}));
    }
    assert!(refusal(json!({"algorithm": "nothing"})).starts_with("there is no algorithm `nothing`"));
    server.wait_until_jobs_are(0);
}

#[test]
fn absurd_groups_by_hand_are_refused() {
    let server = Server::start();
    let refusal = |request: Value| server.refusal("/api/hand", &request);
    assert!(refusal(json!({"spec": {"algorithm": "central", "n": 17}})).starts_with("17 processes are too many"));
    let many = vec![json!({"choose": {"script": [0]}}); 2_001];
    assert!(
        refusal(json!({"spec": {"algorithm": "central"}, "actions": many})).starts_with("2001 actions are too many")
    );
    let actions = [
        json!({"deliver": {"message": u64::MAX}}),
        json!({"user": {"process": u64::MAX, "wish": "request"}}),
        json!({"user": {"process": 3, "wish": "request"}}),
        json!({"user": {"process": 0, "wish": "elect"}}),
        json!({"user": {"process": 0, "wish": {"append": 255}}}),
        json!({"timer": {"process": 99, "name": "\u{202e}<b>"}}),
        json!({"suspect": {"by": 0, "of": 0}}),
        json!({"trust": {"by": 77, "of": 0}}),
        json!({"recover": {"process": 0, "memory": false}}),
        json!({"app": {"from": 0, "to": 0}}),
        json!({"forge": {"from": 0, "to": 99, "like": 7}}),
    ];
    let rules = json!({"losses": u32::MAX, "crashes": u32::MAX, "mistakes": u32::MAX, "app_messages": u32::MAX});
    for action in actions {
        let answer = server
            .post("/api/hand", &json!({"spec": {"algorithm": "central", "n": 3}, "rules": rules, "actions": [action]}));
        assert_eq!(answer.status, 200, "{action}: {}", answer.body);
        assert_eq!(answer.json()["refused"]["index"], 0, "{action}");
    }
    // Unknown choices are as large as they like.
    let choices = json!([{"choose": {"script": [usize::MAX, 7]}}, {"user": {"process": 0, "wish": "request"}}]);
    for algorithm in ["voting", "central", "maekawa"] {
        let answer = server.post("/api/hand", &json!({"spec": {"algorithm": algorithm, "n": 3}, "actions": choices}));
        assert!([200, 400].contains(&answer.status), "{algorithm}: {}", answer.body);
    }
    // No report reaches a process that is a detector itself.
    let report = json!([{"suspect": {"by": 0, "of": 1}}]);
    let detector = json!({"spec": {"algorithm": "phi-accrual"}, "rules": rules, "actions": report});
    assert_eq!(server.post("/api/hand", &detector).json()["refused"]["index"], 0);
}

/// Names come back as JSON text, with nothing added to them, and never as a header or as HTML.
#[test]
fn hostile_names_are_text() {
    let server = Server::start();
    let hostile = "<img src=x onerror=alert(1)>\u{202e}\u{7}\r\nx: y\u{0}\"'`";
    let specs = [
        json!({"algorithm": hostile}),
        json!({"algorithm": "central", "variant": hostile}),
        json!({"algorithm": "central", "faults": [hostile]}),
        json!({"algorithm": "central", "delay": hostile}),
    ];
    for spec in specs {
        for path in ["/api/run", "/api/hand", "/api/distance", "/api/moment"] {
            let answer = server.post(path, &json!({"spec": spec, "seq": 1}));
            assert_eq!(answer.header("content-type"), Some("application/json"), "{path}");
            assert_eq!(answer.header("x"), None);
            assert!([200, 400].contains(&answer.status), "{path}: {}", answer.body);
            answer.json();
        }
    }
    let page = server.get("/api/algorithms/%3Cscript%3Ealert(1)%3C%2Fscript%3E");
    assert_eq!(page.status, 404);
    assert!(page.error().contains("<script>alert(1)</script>"));
    assert_eq!(page.header("content-type"), Some("application/json"));
    let check = server.post("/api/check", &json!({"spec": {"algorithm": hostile}}));
    let line: Value = serde_json::from_str(check.body.trim()).unwrap();
    assert!(line["error"].as_str().unwrap().starts_with("there is no algorithm"), "{line}");
}

#[test]
fn broken_traces_are_refused_or_shown_as_text() {
    let server = Server::start();
    let upload = |text: &str| server.request("POST", "/api/trace", &[("content-type", "application/x-ndjson")], text);
    for text in ["", "\n", "x", "{}", "{}\n{}", "\u{0}\u{0}", "<html>", &"[".repeat(100_000)] {
        let answer = upload(text);
        assert_eq!(answer.status, 400, "{text:.20}");
        answer.error();
    }
    let trace = |algorithm: &str, processes: &str, record: &str| {
        format!(
            "{{\"baton_trace\":1,\"algorithm\":\"{algorithm}\",\"processes\":{processes},\"clients\":2,\"seed\":1,\
             \"network\":{{}},\"workload\":{{}},\"params\":{{\"delay_max\":1}},\"unit\":\"T\"}}\n{record}\n"
        )
    };
    let violation = r#"{"seq":0,"t":1,"event":"violation","property":"<b>safety</b>","detail":"\u202e"}"#;
    let answer = upload(&trace("<script>", "3", violation));
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.json()["scene"]["violations"][0]["property"], "<b>safety</b>");
    assert_eq!(answer.json()["replayable"], false);
    for record in [
        r#"{"seq":0,"t":1e308,"p":0,"event":"send","msg":18446744073709551615,"to":1,"kind":"X","bytes":0}"#,
        r#"{"seq":18446744073709551615,"t":-1e308,"p":0,"event":"deliver","msg":7,"from":1,"kind":"X"}"#,
        r#"{"seq":0,"t":0,"event":"partition","groups":[[9,99999]]}"#,
        r#"{"seq":0,"t":0,"p":0,"event":"view","epoch":1,"members":[99999]}"#,
        r#"{"seq":0,"t":0,"p":0,"event":"choice","of":0,"chosen":9}"#,
        r#"{"seq":0,"t":0,"p":0,"event":"exit","req":9}"#,
        r#"{"seq":0,"t":0,"p":2,"event":"request","req":9,"lamport":0}"#,
        r#"{"seq":0,"t":0,"p":0,"event":"recover"}"#,
    ] {
        for algorithm in ["central", "bully", "heartbeat", "maekawa"] {
            for processes in ["2", "3"] {
                let answer = upload(&trace(algorithm, processes, record));
                assert!([200, 400].contains(&answer.status), "{algorithm}, {record}: {}", answer.body);
            }
        }
    }
    assert_eq!(upload(&trace("central", "1000000", violation)).status, 400);
    let forgotten = server.post("/api/moment", &json!({"upload": "x", "seq": 0}));
    assert_eq!(forgotten.status, 404);
}

#[test]
fn a_trace_that_was_uploaded_can_be_looked_at_record_by_record() {
    let server = Server::start();
    let check = server.post("/api/check", &json!({"spec": {"algorithm": "ricart-agrawala-time-only", "n": 2}}));
    assert_eq!(check.header("content-type"), Some("application/x-ndjson"));
    let last: Value = serde_json::from_str(check.body.trim().lines().last().unwrap()).unwrap();
    let text = last["result"]["trace"].as_str().unwrap();
    let uploaded = server.request("POST", "/api/trace", &[("content-type", "application/x-ndjson")], text).json();
    assert_eq!(
        (&uploaded["replayable"], &uploaded["report"]["resources"][0]["properties"][0]["property"]),
        (&json!(true), &json!("safety"))
    );
    let by_id = server.post("/api/moment", &json!({"upload": uploaded["id"], "seq": 3})).json();
    let by_text = server.post("/api/moment", &json!({"trace": text, "seq": 3})).json();
    assert_eq!(by_id, by_text);
    assert_eq!(by_id["processes"].as_array().unwrap().len(), 2);
}

#[test]
fn no_path_leads_to_other_files() {
    let server = Server::start();
    for path in [
        "/../Cargo.toml",
        "/../../../../etc/passwd",
        "/%2e%2e/Cargo.toml",
        "/..%2fCargo.toml",
        "/lib/../../Cargo.toml",
        "//etc/passwd",
        "/.git/config",
        "/lib/%00.js",
        "/package.json",
        "/tests/lib.test.js",
        "/lib/",
        "/lib",
        "/api/algorithms/..%2f..%2fREADME",
        "/api/algorithms/%2e%2e%2fverdicts",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}: {:.200}", answer.body);
    }
}

/// The thread of a job ends soon after its page has gone.
#[test]
fn a_run_stops_when_its_connection_closes() {
    let server = Server::start();
    let host = server.address.to_string();
    let headers = [("host", host.as_str()), ("content-type", "application/json")];
    let endless = json!({"spec": {"algorithm": "ricart-agrawala", "n": 100, "entries": 1_000_000}}).to_string();
    let stream = server.send(head("POST", "/api/run", &headers, &endless).as_bytes());
    server.wait_until_jobs_are(1);
    drop(stream);
    server.wait_until_jobs_are(0);

    let large = json!({"spec": {"algorithm": "maekawa", "n": 9}, "options": {"entries": 3}}).to_string();
    let mut stream = server.send(head("POST", "/api/check", &headers, &large).as_bytes());
    let mut first = [0; 200];
    assert!(stream.read(&mut first).unwrap() > 0, "the check tells its progress");
    assert_eq!(server.lab.jobs_running(), 1);
    drop(stream);
    server.wait_until_jobs_are(0);

    let stream = server.send(head("GET", "/api/algorithms/maekawa/claims", &headers[..1], "").as_bytes());
    server.wait_until_jobs_are(1);
    drop(stream);
    server.wait_until_jobs_are(0);
}

#[test]
fn a_distance_and_a_comparison_are_answered() {
    let server = Server::start();
    let distance = json!({"spec": {"algorithm": "maekawa-no-inquire", "n": 3}, "property": "deadlock"});
    let distance = server.post("/api/distance", &distance).json();
    assert_eq!((&distance["result"], &distance["steps"]), (&json!("violated"), &json!(6)));
    let compare = server.post("/api/compare", &json!({"algorithms": ["central"], "loads": ["solo"], "n": [4]}));
    let last: Value = serde_json::from_str(compare.body.trim().lines().last().unwrap()).unwrap();
    assert_eq!(last["result"]["rows"][0]["messages_per_entry"], 3.0);
    let claims = server.get("/api/algorithms/no-lock/claims").json();
    assert!(!claims["claims"].as_array().unwrap().is_empty());
}
