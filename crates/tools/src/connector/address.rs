//! Which addresses lead inside: to this machine, its network or its cloud's metadata. Pure; must not know who asks or what
//! an operator allows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// To the public internet.
    Public,
    /// To this machine or a private network. An allowed name or an allowed address permits it.
    Private(&'static str),
    /// Nowhere that a name should lead, such as the metadata of a cloud. Only an allowed address permits it.
    Special(&'static str),
}

use Reach::{Private, Public, Special};

/// The first matching net decides.
const NETS_V4: &[(Ipv4Net, Reach)] = &[
    (net4([0, 0, 0, 0], 8), Special("an address of this very network")),
    (net4([10, 0, 0, 0], 8), Private("a private address")),
    (net4([100, 100, 100, 200], 32), Special("a cloud's metadata service")),
    (net4([100, 64, 0, 0], 10), Private("an address behind a carrier's translation")),
    (net4([127, 0, 0, 0], 8), Private("this machine")),
    (net4([168, 63, 129, 16], 32), Special("a cloud's metadata service")),
    (net4([169, 254, 0, 0], 16), Special("a link-local address, such as a cloud's metadata service")),
    (net4([172, 16, 0, 0], 12), Private("a private address")),
    (net4([192, 0, 0, 0], 24), Special("an address reserved for protocols")),
    (net4([192, 0, 2, 0], 24), Special("an address of documentation")),
    (net4([192, 88, 99, 0], 24), Special("an address reserved for relays")),
    (net4([192, 168, 0, 0], 16), Private("a private address")),
    (net4([198, 18, 0, 0], 15), Special("an address reserved for benchmarks")),
    (net4([198, 51, 100, 0], 24), Special("an address of documentation")),
    (net4([203, 0, 113, 0], 24), Special("an address of documentation")),
    (net4([224, 0, 0, 0], 4), Special("a multicast address")),
    (net4([255, 255, 255, 255], 32), Special("the broadcast address")),
    (net4([240, 0, 0, 0], 4), Special("a reserved address")),
];

/// The first matching net decides; without one the address is not public. Addresses that carry an IPv4 address which is
/// not public were refused before.
const NETS_V6: &[(Ipv6Net, Reach)] = &[
    (net6([0, 0, 0, 0, 0, 0, 0, 1], 128), Private("this machine")),
    (net6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254], 128), Special("a cloud's metadata service")),
    (net6([0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254], 128), Special("a cloud's metadata service")),
    (net6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Private("a private address")),
    (net6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Private("a private address")),
    (net6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Special("a link-local address")),
    (net6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Special("a multicast address")),
    (net6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), Special("an address reserved for protocols")),
    (net6([0x2001, 0x0db8, 0, 0, 0, 0, 0, 0], 32), Special("an address of documentation")),
    (net6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Special("an address of documentation")),
    (net6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3), Public),
    // Names have such addresses in networks that have only IPv6.
    (net6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), Public),
];

const NOT_PUBLIC: &str = "no address of the public internet";

const fn net4(octets: [u8; 4], prefix: u8) -> Ipv4Net {
    let [a, b, c, d] = octets;
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn net6(segments: [u16; 8], prefix: u8) -> Ipv6Net {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix)
}

/// Where the address leads. An IPv4 address that is written as an IPv6 address leads where that one leads.
pub(super) fn reach(address: IpAddr) -> Reach {
    match address.to_canonical() {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let found = NETS_V4.iter().find(|(net, _)| net.contains(&address));
    found.map_or(Public, |(_, reach)| *reach)
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    if carried(address).iter().any(|inner| reach_v4(*inner) != Public) {
        return Special("an address that carries one which is not public");
    }
    let found = NETS_V6.iter().find(|(net, _)| net.contains(&address));
    found.map_or(Special(NOT_PUBLIC), |(_, reach)| *reach)
}

/// The IPv4 addresses to which the network could translate this one.
fn carried(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let parts = address.segments();
    let at = |index: usize| {
        let bits = u32::from(parts[index]) << 16 | u32::from(parts[index + 1]);
        Ipv4Addr::from_bits(bits)
    };
    match parts {
        // The loopback address and the unspecified one only look like compatible addresses.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Vec::new(),
        // IPv4-compatible, IPv4-translated, NAT64.
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![at(6)],
        // 6to4.
        [0x2002, ..] => vec![at(1)],
        // Teredo: the server, and the client with its bits inverted.
        [0x2001, 0, ..] => vec![at(2), Ipv4Addr::from_bits(!at(6).to_bits())],
        // ISATAP, in any net.
        [_, _, _, _, 0 | 0x0200, 0x5efe, ..] => vec![at(6)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        let public = [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "126.0.0.1",
            "128.0.0.1",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.0.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450:4001::200e",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:0101:0101::1",
        ];
        for text in public {
            assert_eq!(reach(text.parse().unwrap()), Public, "{text}");
        }
        let inside = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "169.254.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "::10.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::",
            "2001:0:7f00:1::1",
            "2001:0:101:101::80ff:fffe",
            "2001:db8::1",
            "2001:10::1",
            "2001:2::1",
            "3fff::1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd12:3456::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "ff0e::1",
            "5f00::1",
            "2001:0:101:101::fefe:fefe",
            "::1.1.1.1",
            "fe80::5efe:1.1.1.1",
            "2606:4700::5efe:10.0.0.1",
            "2606:4700::200:5efe:127.0.0.1",
        ];
        for text in inside {
            assert_ne!(reach(text.parse().unwrap()), Public, "{text}");
        }
    }

    #[test]
    fn a_name_never_leads_to_metadata_or_through_a_translation() {
        for text in
            ["169.254.169.254", "fd00:ec2::254", "100.100.100.200", "64:ff9b::10.0.0.1", "fe80::1", "0.0.0.0"]
        {
            assert!(matches!(reach(text.parse().unwrap()), Special(_)), "{text}");
        }
        for text in ["10.0.0.1", "127.0.0.1", "::1", "fd12::1", "::ffff:192.168.0.1"] {
            assert!(matches!(reach(text.parse().unwrap()), Private(_)), "{text}");
        }
    }
}
