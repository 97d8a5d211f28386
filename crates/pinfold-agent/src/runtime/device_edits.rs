//! Converts the device plugins' answers to NRI container adjustments.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use nri::api::{ContainerAdjustment, LinuxDevice, LinuxDeviceCgroup, Mount};
use pinfold_devices::ContainerEdits;
use rustix::fs::{major, minor};

/// A device plugin named a path that is not a device file.
#[derive(Debug, thiserror::Error)]
#[error("the device plugin named {path}, which is not a device file: {error}")]
pub(super) struct NoDevice {
    path: String,
    #[source]
    error: io::Error,
}

/// Adds the plugins' environment, annotations, mounts, devices and CDI devices to an adjustment.
pub(super) fn adjust(
    mut adjustment: ContainerAdjustment,
    edits: &ContainerEdits,
) -> Result<ContainerAdjustment, NoDevice> {
    for (name, value) in &edits.envs {
        adjustment = adjustment.env(name, value);
    }
    for (key, value) in &edits.annotations {
        adjustment = adjustment.annotation(key, value);
    }
    for mount in &edits.mounts {
        let access = if mount.read_only { "ro" } else { "rw" };
        adjustment = adjustment.mount(Mount {
            destination: mount.container_path.clone(),
            r#type: "bind".to_owned(),
            source: mount.host_path.clone(),
            options: ["rbind", "rprivate", access].map(str::to_owned).into(),
        });
    }
    for device in &edits.devices {
        let found = device_file(&device.host_path, &device.container_path);
        let found = found.map_err(|error| NoDevice {
            path: device.host_path.clone(),
            error,
        })?;
        let rule = LinuxDeviceCgroup {
            allow: true,
            r#type: found.r#type.clone(),
            major: Some(found.major),
            minor: Some(found.minor),
            access: device.permissions.clone(),
        };
        adjustment = adjustment.device(found).resources(|mut resources| {
            resources.devices.push(rule);
            resources
        });
    }
    for device in &edits.cdi_devices {
        adjustment = adjustment.cdi_device(&device.name);
    }
    Ok(adjustment)
}

fn device_file(host: &str, inside: &str) -> io::Result<LinuxDevice> {
    let found = fs::metadata(host)?;
    let kind = found.file_type();
    let word = match () {
        () if kind.is_char_device() => "c",
        () if kind.is_block_device() => "b",
        () => return Err(io::Error::other("neither a character nor a block device")),
    };
    Ok(LinuxDevice {
        path: inside.to_owned(),
        r#type: word.to_owned(),
        major: i64::from(major(found.rdev())),
        minor: i64::from(minor(found.rdev())),
        file_mode: Some(found.mode() & 0o777),
        uid: Some(found.uid()),
        gid: Some(found.gid()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubelet_api::device_plugin::DeviceSpec;

    fn device(host: &str) -> ContainerEdits {
        ContainerEdits {
            devices: vec![DeviceSpec {
                container_path: "/dev/inside".to_owned(),
                host_path: host.to_owned(),
                permissions: "rw".to_owned(),
            }],
            ..ContainerEdits::default()
        }
    }

    #[test]
    fn a_device_file_is_passed_with_its_major_and_minor_number() {
        let adjusted = adjust(ContainerAdjustment::new(), &device("/dev/null"));
        let linux = adjusted.expect("it is there").linux.expect("devices");
        let file = &linux.devices[0];
        assert_eq!((file.r#type.as_str(), file.major, file.minor), ("c", 1, 3));
        assert_eq!(file.path, "/dev/inside");
        let resources = linux.resources.expect("a rule");
        assert_eq!(resources.devices[0].access, "rw");
    }

    #[test]
    fn a_path_that_is_not_a_device_file_is_an_error_with_the_path() {
        for path in ["/dev/no-such-device", "/etc/hostname"] {
            let error = adjust(ContainerAdjustment::new(), &device(path)).expect_err("none");
            assert!(error.to_string().contains(path));
        }
    }
}
