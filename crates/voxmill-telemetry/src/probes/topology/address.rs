//! Where a device sits on the PCI bus: the one name that the kernel, the drivers and the tensor
//! library share for it. Their numbers for devices differ.

use std::fmt;
use std::str::FromStr;

/// `0000:01:00.0`
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct PciAddress {
    /// Some machines count past 65,535 with domains that a driver invented.
    pub domain: u32,
    pub bus: u8,
    pub device: u8,
    pub function: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no PCI address; one looks like 0000:01:00.0")]
pub struct InvalidPciAddress(String);

impl FromStr for PciAddress {
    type Err = InvalidPciAddress;

    /// As sysfs writes it, as NVML does (eight digits for the domain, in capitals), and without a
    /// domain as `lspci` does.
    fn from_str(text: &str) -> Result<PciAddress, InvalidPciAddress> {
        parse(text).ok_or_else(|| InvalidPciAddress(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<PciAddress> {
    let (slot, function) = text.trim().rsplit_once('.')?;
    let (bus, device) = slot.rsplit_once(':')?;
    let (domain, bus) = bus.rsplit_once(':').unwrap_or(("0", bus));
    Some(PciAddress {
        domain: hexadecimal(domain, 8, u32::MAX)?,
        bus: hexadecimal(bus, 2, 0xff)?.try_into().ok()?,
        device: hexadecimal(device, 2, 0x1f)?.try_into().ok()?,
        function: hexadecimal(function, 1, 7)?.try_into().ok()?,
    })
}

/// The standard library alone would take a sign, too.
fn hexadecimal(text: &str, digits: usize, largest: u32) -> Option<u32> {
    let is_plain = text.len() <= digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u32::from_str_radix(text, 16).ok().filter(|_| is_plain)?;
    (number <= largest).then_some(number)
}

impl TryFrom<String> for PciAddress {
    type Error = InvalidPciAddress;

    fn try_from(text: String) -> Result<PciAddress, InvalidPciAddress> {
        text.parse()
    }
}

impl From<PciAddress> for String {
    fn from(address: PciAddress) -> String {
        address.to_string()
    }
}

/// As sysfs writes it.
impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PciAddress {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_is_written_as_in_sysfs() {
        for (text, expected) in [
            ("0000:01:00.0", "0000:01:00.0"),
            ("00000000:01:00.0", "0000:01:00.0"),
            ("00010000:AF:1F.7", "10000:af:1f.7"),
            ("c4:00.0\n", "0000:c4:00.0"),
        ] {
            let address: PciAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            ".",
            ":.",
            "::.",
            "0000:01:00",
            "01.0",
            "0000:01:20.0",
            "0000:01:00.8",
            "0000:001:00.0",
            "000000000:01:00.0",
            "0000:+1:00.0",
            "0000:01:-0.0",
            "1:0000:01:00.0",
            "pci0000:00",
            "virtio0",
        ] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
        assert_eq!(
            "card0".parse::<PciAddress>().unwrap_err().to_string(),
            "\"card0\" is no PCI address; one looks like 0000:01:00.0"
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            domain: u32, bus: u8, device in 0u8..32, function in 0u8..8,
        ) {
            let address = PciAddress { domain, bus, device, function };
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }

        #[test]
        fn no_text_makes_it_panic(text: String) {
            let _ = text.parse::<PciAddress>();
        }
    }
}
