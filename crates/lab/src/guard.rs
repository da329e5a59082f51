//! Which requests come from the lab's own page. A page of another site may send requests to this machine, too: directly,
//! or under its own name if that name leads to a loopback address. Such requests have a foreign `Origin` or `Host`.

use std::net::{IpAddr, SocketAddr};

use crate::Refusal;

/// Refuses a request that another site may have sent. `address` is the one that the lab listens on.
pub fn check(address: SocketAddr, host: Option<&str>, origin: Option<&str>) -> Result<(), Refusal> {
    let host = host.ok_or_else(|| Refusal::bad("the request has no Host"))?;
    if !is_own(address, host) {
        return Err(Refusal::foreign(
            "the lab answers only under its own address; use the one that `baton lab` printed",
        ));
    }
    match origin {
        // A page sends its own origin, and other programs send none.
        Some(origin) if origin.strip_prefix("http://").is_none_or(|site| site != host) => {
            Err(Refusal::foreign("the lab answers only to its own page, and this request comes from another one"))
        }
        _ => Ok(()),
    }
}

/// Whether `host`, with its port, names the lab. Names other than `localhost` could lead anywhere.
fn is_own(address: SocketAddr, host: &str) -> bool {
    let port = format!(":{}", address.port());
    let name = match host.strip_suffix(&port) {
        Some(name) => name,
        // Browsers leave out the default port.
        None if address.port() == 80 => host,
        None => return false,
    };
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    match bare.parse::<IpAddr>() {
        // With `0.0.0.0` every address of the machine is the lab's.
        Ok(ip) => ip.is_loopback() || ip == address.ip() || address.ip().is_unspecified(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_let_in(listen: &str, host: &str, origin: Option<&str>) -> bool {
        check(listen.parse().unwrap(), Some(host), origin).is_ok()
    }

    #[test]
    fn the_own_names_are_let_in() {
        for host in ["127.0.0.1:7421", "localhost:7421", "LocalHost:7421", "[::1]:7421"] {
            assert!(is_let_in("127.0.0.1:7421", host, None), "{host}");
            assert!(is_let_in("127.0.0.1:7421", host, Some(&format!("http://{host}"))), "{host}");
        }
        assert!(is_let_in("192.0.2.7:7421", "192.0.2.7:7421", None));
        assert!(is_let_in("0.0.0.0:7421", "192.0.2.7:7421", None));
        assert!(is_let_in("127.0.0.1:80", "localhost", None));
    }

    #[test]
    fn foreign_hosts_are_refused() {
        let foreign = [
            "example.org:7421",
            "localhost.example.org:7421",
            "127.0.0.1.example.org:7421",
            "localhost:80",
            "localhost",
            "localhost:17421",
            "192.0.2.7:7421",
            "[::1:7421",
            ":7421",
            "",
            "user@localhost:7421",
        ];
        for host in foreign {
            assert!(!is_let_in("127.0.0.1:7421", host, None), "{host}");
        }
        assert!(!is_let_in("0.0.0.0:7421", "rebound.example.org:7421", None));
        assert!(check("127.0.0.1:7421".parse().unwrap(), None, None).is_err());
    }

    #[test]
    fn foreign_origins_are_refused() {
        let foreign = [
            "http://example.org",
            "null",
            "",
            "https://localhost:7421",
            "http://localhost:7422",
            "http://127.0.0.1:7421",
            "http://localhost:7421.example.org",
        ];
        for origin in foreign {
            assert!(!is_let_in("127.0.0.1:7421", "localhost:7421", Some(origin)), "{origin}");
        }
    }
}
