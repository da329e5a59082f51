//! A headless Chromium that looks at a lab of its own. The driver and the browser end with the test.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use axum::Router;
use baton_lab::{Lab, serve};
use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::elements::Element;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use futures::FutureExt;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Against hanging only. Everything that a test waits for comes within seconds on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);

/// At the end of a test, the browser must not have complained.
pub struct Page {
    pub client: Client,
    /// Of the server, as in `http://127.0.0.1:1234`.
    pub origin: String,
    complaints: Mutex<Vec<String>>,
}

/// Runs a test in a browser with a lab.
pub fn in_lab(test: impl AsyncFnOnce(&Page)) {
    in_browser(async |listener| serve(listener, Lab::default()).await.unwrap(), test);
}

/// Runs a test in a browser with a server of its own.
pub fn with_server(router: Router, test: impl AsyncFnOnce(&Page)) {
    in_browser(async |listener| axum::serve(listener, router).await.unwrap(), test);
}

fn in_browser(server: impl AsyncFnOnce(TcpListener), test: impl AsyncFnOnce(&Page)) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let looked = look(address, test).boxed_local();
        let result = tokio::select! {
            result = looked => result,
            () = server(listener) => panic!("the server has stopped"),
        };
        // The browser has been closed by now, whatever came of the test.
        result.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

async fn look(address: SocketAddr, test: impl AsyncFnOnce(&Page)) -> std::thread::Result<()> {
    let profile = tempfile::tempdir().unwrap();
    let driver = Driver::start();
    let client = driver.browser(profile.path().to_str().unwrap()).await;
    let page = Page { client, origin: format!("http://{address}"), complaints: Mutex::default() };
    let result = AssertUnwindSafe(async {
        test(&page).await;
        page.assert_no_complaint().await;
        page.assert_no_foreign_request().await;
    })
    .catch_unwind()
    .await;
    if result.is_err() {
        page.tell().await;
    }
    page.client.close().await.unwrap();
    result
}

impl Page {
    /// Loads the lab anew at an address such as `#/run`.
    pub async fn open(&self, hash: &str) {
        // Without this, only the part after `#` would change, and the old content would be there for a while.
        self.client.goto("about:blank").await.unwrap();
        self.client.goto(&format!("{}/{hash}", self.origin)).await.unwrap();
    }

    /// The value of an expression in the page.
    pub async fn value(&self, expression: &str) -> Value {
        let script = format!("return ({expression});");
        self.client.execute(&script, Vec::new()).await.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    pub async fn string(&self, expression: &str) -> String {
        let value = self.value(expression).await;
        value.as_str().unwrap_or_else(|| panic!("{expression} is {value}")).to_owned()
    }

    pub async fn number(&self, expression: &str) -> u64 {
        let value = self.value(expression).await;
        value.as_u64().unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    /// Waits until an expression in the page is true.
    pub async fn until(&self, expression: &str) {
        let started = Instant::now();
        // An element that is not there yet is no error.
        let script = format!("try {{ return Boolean({expression}); }} catch (error) {{ return String(error); }}");
        loop {
            let value = self.client.execute(&script, Vec::new()).await.unwrap();
            if value == true {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "after {PATIENCE:?} this is not true: {expression} ({value})");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The element of a selector, once it is there and can be seen.
    pub async fn find(&self, css: &str) -> Element {
        self.until(&format!("document.querySelector({css:?}).checkVisibility()")).await;
        self.client.find(Locator::Css(css)).await.unwrap()
    }

    /// Clicks as a person does: the element must be visible, and nothing may cover it.
    pub async fn click(&self, css: &str) {
        self.find(css).await.click().await.unwrap_or_else(|error| panic!("{css}: {error}"));
    }

    /// Clicks the first visible element of a selector with exactly this text.
    pub async fn click_text(&self, css: &str, text: &str) {
        let found =
            format!("[...document.querySelectorAll({css:?})].findIndex((one) => one.innerText?.trim() === {text:?})");
        self.until(&format!("{found} >= 0")).await;
        let at = usize::try_from(self.number(&found).await).unwrap();
        self.client.find_all(Locator::Css(css)).await.unwrap()[at].click().await.unwrap();
    }

    /// Chooses an option of a select, by its value.
    pub async fn select(&self, css: &str, value: &str) {
        self.find(css).await.select_by_value(value).await.unwrap();
    }

    /// Writes into a field in place of what it holds.
    pub async fn fill(&self, css: &str, text: &str) {
        let field = self.find(css).await;
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Presses and releases a key. It goes to whatever has the focus.
    pub async fn press(&self, key: impl Into<char>) {
        let value = key.into();
        let keys = KeyActions::new("keyboard".into()).then(KeyAction::Down { value }).then(KeyAction::Up { value });
        self.client.perform_actions(keys).await.unwrap();
    }

    pub async fn text(&self, css: &str) -> String {
        self.string(&format!("document.querySelector({css:?}).innerText")).await
    }

    pub async fn until_text(&self, css: &str, part: &str) {
        self.until(&format!("document.querySelector({css:?}).innerText.includes({part:?})")).await;
    }

    /// Everything after the host in the address bar.
    pub async fn address(&self) -> String {
        self.string("location.hash").await
    }

    /// Goes on in a new, empty tab.
    pub async fn new_tab(&self) {
        let tab = self.client.new_window(true).await.unwrap();
        self.client.switch_to_window(tab.handle).await.unwrap();
    }

    /// A command of the developer tools.
    pub async fn devtools(&self, name: &'static str, params: Value) {
        self.client.issue_cmd(DevTools(name, params)).await.unwrap();
    }

    /// Reads the console. Expects that the server has refused this many calls since the last look; the browser complains about each.
    pub async fn assert_refused(&self, calls: usize) {
        self.read_console().await;
        let complaints = std::mem::take(&mut *self.complaints.lock().unwrap());
        let is_refusal =
            |line: &String| line.contains("/api/") && line.contains("the server responded with a status of 4");
        let (refused, others): (Vec<_>, Vec<_>) = complaints.into_iter().partition(is_refusal);
        assert_eq!(refused.len(), calls, "{refused:?}");
        self.complaints.lock().unwrap().extend(others);
    }

    async fn assert_no_complaint(&self) {
        self.read_console().await;
        let complaints = self.complaints.lock().unwrap().clone();
        assert_eq!(complaints, [""; 0]);
    }

    async fn read_console(&self) {
        let lines = self.client.issue_cmd(Log("browser")).await.unwrap();
        let told = lines.as_array().unwrap().iter().map(|line| format!("{} {}", line["level"], line["message"]));
        self.complaints.lock().unwrap().extend(told);
    }

    /// The browser's own record of what it has asked for, also from pages that have been left.
    async fn assert_no_foreign_request(&self) {
        let lines = self.client.issue_cmd(Log("performance")).await.unwrap();
        let mut own = 0;
        for line in lines.as_array().unwrap() {
            let event: Value = serde_json::from_str(line["message"].as_str().unwrap()).unwrap();
            let event = &event["message"];
            if event["method"] != "Network.requestWillBeSent" {
                continue;
            }
            let url = event["params"]["request"]["url"].as_str().unwrap();
            // Other schemes, such as `chrome:` of an empty tab, reach no host.
            if !["http", "ws", "ftp"].iter().any(|network| url.starts_with(network)) {
                continue;
            }
            assert!(url.starts_with(&format!("{}/", self.origin)), "a request to {url}");
            own += 1;
        }
        assert!(own > 0, "the record is empty");
    }

    /// What the page shows, for whoever has to find out why a test failed.
    async fn tell(&self) {
        self.read_console().await;
        let shown = self.client.execute("return [location.href, document.body.innerText];", Vec::new()).await;
        let shown = shown.map(|shown| format!("{}\n{}", shown[0], shown[1].as_str().unwrap_or_default()));
        eprintln!("the console: {:?}\nthe page: {}", self.complaints.lock().unwrap(), shown.unwrap_or_default());
    }
}

/// How often chromedriver is started until it has a port.
const STARTS_MAX: usize = 5;

/// The program that drives the browser.
struct Driver {
    program: Child,
    address: String,
}

impl Driver {
    /// chromedriver takes any free port of IPv4, and ends if another process has the same port of IPv6. Then another start
    /// takes another port.
    fn start() -> Self {
        (0..STARTS_MAX).find_map(|_| Driver::start_once()).expect("chromedriver tells its port")
    }

    fn start_once() -> Option<Self> {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut program = command.spawn().unwrap_or_else(|error| {
            panic!("chromedriver cannot be started: {error}. On Debian, install chromium and chromium-driver")
        });
        let started = "ChromeDriver was started successfully on port ";
        let mut lines = BufReader::new(program.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
        let Some(line) = lines.find(|line| line.starts_with(started)) else {
            // Its output has ended, so it ends by itself.
            program.wait().unwrap();
            return None;
        };
        let address = format!("http://127.0.0.1:{}", line[started.len()..].trim_end_matches('.'));
        Some(Driver { program, address })
    }

    async fn browser(&self, profile: &str) -> Client {
        let profile = format!("--user-data-dir={profile}");
        let flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,940",
            &profile,
        ];
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": { "args": flags },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        let Value::Object(wanted) = wanted else { unreachable!() };
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(wanted).connect(&self.address).await.expect("chromedriver starts a browser")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
    }
}

/// Reads a log of the browser, and empties it. Chromium has this command beside the standard.
#[derive(Debug)]
struct Log(&'static str);

/// Executes a command of the developer tools.
#[derive(Debug)]
struct DevTools(&'static str, Value);

impl WebDriverCompatibleCommand for Log {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/se/log", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (axum::http::Method, Option<String>) {
        (axum::http::Method::POST, Some(json!({ "type": self.0 }).to_string()))
    }
}

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (axum::http::Method, Option<String>) {
        (axum::http::Method::POST, Some(json!({ "cmd": self.0, "params": self.1 }).to_string()))
    }
}
