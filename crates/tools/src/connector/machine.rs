//! Which addresses this machine has itself, public ones too: whatever listens at them may trust who is inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// What such an address is called.
pub(super) const NAMED: &str = "this machine";

/// Whether this machine has the address. Only a machine can bind its own.
pub(super) fn has(address: IpAddr) -> bool {
    let address = address.to_canonical();
    binds(address) && (!binds(nobodys(address)) || is_source(address))
}

fn binds(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// An address of documentation. If even that can be bound, the kernel lets programs bind every address.
fn nobodys(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 1).into(),
    }
}

/// Whether a datagram to that address would come from there, too. None is sent.
fn is_source(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip().to_canonical() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_its_own_addresses_and_no_others() {
        let own = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.connect("192.0.2.1:9")?;
            socket.local_addr()
        });
        let own = own.map(|own| own.ip()).into_iter();
        for address in own.chain([Ipv4Addr::LOCALHOST.into(), "::ffff:127.0.0.1".parse().unwrap()]) {
            assert!(has(address), "{address}");
            assert!(is_source(address.to_canonical()), "{address}");
        }
        for other in ["93.184.216.34", "192.0.2.1", "2606:4700:4700::1111", "::ffff:1.1.1.1"] {
            assert!(!has(other.parse().unwrap()) && !is_source(other.parse().unwrap()), "{other}");
        }
    }
}
