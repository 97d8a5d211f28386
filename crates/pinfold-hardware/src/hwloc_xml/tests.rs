use super::read;
use crate::error::HardwareError;
use crate::hardware::CacheKind;
use crate::numa_id::NumaId;
use crate::pci::PciKind;

const VERSION_1: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc.dtd">
<topology>
 <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000001f" online_cpuset="0x0000000f"
   allowed_cpuset="0x00000007" nodeset="0x3" allowed_nodeset="0x3" local_memory="0">
  <info name="DMIProductName" value="Two &amp; Two"/>
  <distances nbobjs="2" relative_depth="1" latency_base="10.000000">
   <latency value="1.000000"/><latency value="2.100000"/><latency value="2.100000"/><latency value="1.000000"/>
  </distances>
  <object type="NUMANode" os_index="0" cpuset="0x00000003" nodeset="0x1" local_memory="1024">
   <page_type size="4096" count="1"/><page_type size="2097152" count="7"/>
   <object type="Socket" os_index="0" cpuset="0x00000003" nodeset="0x1">
    <object type="Cache" cpuset="0x00000003" nodeset="0x1" cache_size="4096" depth="3" cache_type="0">
     <object type="Core" os_index="0" cpuset="0x00000003" nodeset="0x1">
      <object type="PU" os_index="0" cpuset="0x00000001" nodeset="0x1"/>
      <object type="PU" os_index="1" cpuset="0x00000002" nodeset="0x1"/>
     </object>
    </object>
    <object type="Bridge" os_index="1" bridge_type="0-1" depth="0" bridge_pci="0000:[00-01]">
     <object type="PCIDev" os_index="4096" pci_busid="0000:01:00.0" pci_type="0302 [10de:1db8] [10de:131d] a1"/>
    </object>
   </object>
  </object>
  <object type="NUMANode" os_index="1" cpuset="0x0000000c" nodeset="0x2" local_memory="2048">
   <object type="Socket" os_index="1" cpuset="0x0000000c" nodeset="0x2">
    <object type="Core" os_index="0" cpuset="0x0000000c" nodeset="0x2">
     <object type="PU" os_index="2" cpuset="0x00000004" nodeset="0x2"/>
     <object type="PU" os_index="3" cpuset="0x00000008" nodeset="0x2"/>
    </object>
   </object>
  </object>
 </object>
</topology>"#;

#[test]
fn version_1_is_parsed() {
    let hardware = read(VERSION_1).expect("a topology");
    assert_eq!(hardware.name, "Two & Two");
    assert_eq!(hardware.sockets.len(), 2);
    assert_eq!(hardware.cores.len(), 2);
    assert_eq!(hardware.cpus.online.to_string(), "0-3");
    assert_eq!(hardware.cpus.offline.to_string(), "4");
    let distances: Vec<&[u32]> = hardware.nodes.iter().map(|node| &*node.distances).collect();
    assert_eq!(distances, [[10, 21], [21, 10]]);
    let pages = &hardware.nodes[0].hugepages;
    assert_eq!((pages[0].size_kib, pages[0].count), (2048, 7));
    let l3 = hardware.caches_of_level(3).next().expect("an L3");
    assert_eq!((l3.kind, l3.size), (CacheKind::Unified, Some(4096)));
    let gpu = &hardware.devices[0];
    assert_eq!(
        (gpu.kind, gpu.node.map(NumaId::get)),
        (PciKind::Gpu, Some(0))
    );
    let allowed = hardware.allowed.expect("a part is not allowed");
    assert_eq!(allowed.cpus.to_string(), "0-2");
}

#[test]
fn a_memory_only_node_has_no_cpus() {
    let xml = r#"<topology version="2.0"><object type="Machine" cpuset="0x3" nodeset="0x00000007">
      <object type="NUMANode" os_index="2" cpuset="0x3" gp_index="9" local_memory="8"/>
      <object type="Package" os_index="0" cpuset="0x3" nodeset="0x3">
        <object type="MemCache" cpuset="0x3" cache_size="77" depth="1">
          <object type="NUMANode" os_index="1" cpuset="0x3" gp_index="8" local_memory="4"/>
        </object>
        <object type="NUMANode" os_index="0" cpuset="0x3" gp_index="7" local_memory="2"/>
        <object type="L1iCache" cpuset="0x3" depth="1" cache_type="2" cache_size="5"/>
        <object type="PU" os_index="0" cpuset="0x1"/><object type="PU" os_index="1" cpuset="0x2"/>
      </object></object>
      <memattr name="ReadBandwidth"><memattr_value target_obj_gp_index="9" value="20" initiator_cpuset="0x3"/></memattr>
      <memattr name="Latency"><memattr_value target_obj_gp_index="9" value="90" initiator_cpuset="0x3"/></memattr>
      <distances2 type="NUMANode" nbobjs="3" kind="5" indexing="gp"><indexes>9 8 7 </indexes>
        <u64values>10 30 20 30 10 </u64values><u64values>15 20 15 10 </u64values></distances2></topology>"#;
    let hardware = read(xml).expect("a topology");
    let cpus: Vec<String> = hardware
        .nodes
        .iter()
        .map(|node| node.cpus.to_string())
        .collect();
    assert_eq!(cpus, ["0-1", "", ""]);
    assert_eq!(hardware.nodes[0].distances, [10, 15, 20]);
    assert_eq!(hardware.nodes[2].distances, [20, 30, 10]);
    assert_eq!(hardware.nodes[1].memory_side_caches, [77]);
    let access = &hardware.nodes[2].accesses[0];
    assert_eq!(access.initiators[0].get(), 0);
    assert_eq!(
        (access.read_bandwidth, access.write_bandwidth),
        (Some(20), None)
    );
    assert_eq!(
        (access.read_latency, access.write_latency),
        (Some(90), Some(90))
    );
    assert_eq!(hardware.caches[0].kind, CacheKind::Instruction);
}

#[test]
fn a_file_that_is_not_a_topology_is_rejected() {
    let deep = format!("<topology>{}", "<object>".repeat(100_000));
    for (xml, says) in [
        ("", "ends before </topology>"),
        ("<html></html>", "expected <topology>, found <html>"),
        ("<topology><object", "at byte"),
        ("<topology></object></topology>", "at byte"),
        ("<topology/>", "no object of type PU"),
        (
            "<topology><object type=\"PU\" cpuset=\"0xzz\"/></topology>",
            "no object of type PU",
        ),
        (
            &deep,
            "levels of nested XML: 257 is beyond the limit of 256",
        ),
    ] {
        let error = read(xml).expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
    }
    let malformed = read("<topology>").expect_err("it does not end");
    assert!(matches!(malformed, HardwareError::Xml { .. }));
}
