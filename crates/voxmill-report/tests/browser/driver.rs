//! A browser that is driven through chromedriver, and only as much of its protocol as is needed here.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

pub(crate) struct Browser {
    driver: Child,
    session: String,
}

impl Browser {
    /// Fails where there is none: `cargo xtask test --page` installs it.
    pub(crate) fn open() -> Browser {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is installed");
        // It says which port it was given.
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        let root = format!("http://127.0.0.1:{}", port.expect("chromedriver started"));
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let mut browser = Browser {
            driver,
            session: String::new(),
        };
        let begun = browser.post(&format!("{root}/session"), &capabilities);
        browser.session = format!("{root}/session/{}", begun["sessionId"].as_str().unwrap());
        browser
    }

    pub(crate) fn go(&self, address: &str) {
        self.ask("url", &json!({"url": address}));
    }

    pub(crate) fn resize(&self, width: u32, height: u32) {
        // A window has a least width; what it shows has not.
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let command = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": size});
        self.ask("goog/cdp/execute", &command);
    }

    /// What a script in the page returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.ask("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Keys for the element that has the focus. Arrows and the like have characters of their own there.
    pub(crate) fn press(&self, keys: &str) {
        let keys = keys.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|action| json!({"type": action, "value": key.to_string()}))
        });
        let keys: Vec<Value> = keys.collect();
        self.ask(
            "actions",
            &json!({"actions": [{"type": "key", "id": "keys", "actions": keys}]}),
        );
    }

    /// Presses at one place of the window, moves to another and lets go.
    pub(crate) fn drag(&self, (x, y): (i64, i64), to: (i64, i64)) {
        let at =
            |(x, y): (i64, i64)| json!({"type": "pointerMove", "x": x, "y": y, "duration": 50});
        let button = |what: &str| json!({"type": what, "button": 0});
        let actions = [
            at((x, y)),
            button("pointerDown"),
            at(to),
            button("pointerUp"),
        ];
        let pointer = json!({"type": "pointer", "id": "mouse", "actions": actions});
        self.ask("actions", &json!({"actions": [pointer]}));
    }

    /// Lines of a log since it was last asked for.
    pub(crate) fn log(&self, kind: &str) -> Vec<String> {
        let lines = self.ask("se/log", &json!({"type": kind}));
        let lines = lines.as_array().unwrap().iter();
        lines
            .map(|line| line["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Addresses that the page asked for.
    pub(crate) fn requests(&self) -> Vec<String> {
        let messages = self.log("performance").into_iter();
        let sent = messages.filter_map(|message| {
            let message: Value = serde_json::from_str(&message).unwrap();
            let message = &message["message"];
            let is_request = message["method"] == "Network.requestWillBeSent";
            let url = message["params"]["request"]["url"].as_str()?;
            is_request.then(|| url.to_owned())
        });
        sent.collect()
    }

    fn ask(&self, what: &str, with: &Value) -> Value {
        self.post(&format!("{}/{what}", self.session), with)
    }

    fn post(&self, address: &str, with: &Value) -> Value {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build();
        let agent = ureq::Agent::from(agent);
        let sent = agent
            .post(address)
            .header("content-type", "application/json")
            .send(with.to_string());
        let text = sent.unwrap().body_mut().read_to_string().unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert!(answer["value"]["error"].is_null(), "{address}: {answer}");
        answer["value"].clone()
    }
}

impl Drop for Browser {
    /// The session first: with it, the browser ends.
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = ureq::delete(&self.session).call();
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
