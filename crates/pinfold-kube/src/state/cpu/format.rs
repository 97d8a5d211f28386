//! The formats of the CPU file as Go types. Names and order of the fields affect the checksum.

use pinfold_core::cpu_set::CpuSet;

use super::CpuManagerState;
use crate::go::json::Json;
use crate::go::record::{dump_of_pointer, go_named, go_struct};
use crate::go::value::{Decoder, GoValue, Map};
use crate::state::Checksum;

/// The printed type name of all formats, from before formats had numbers.
const TYPE_NAME: &str = "state.CPUManagerCheckpoint";

go_named! {
    /// The checksum of the other fields.
    struct CpuChecksumField(u64) = "checksum.Checksum"
}

go_struct! {
    /// Entries by container id.
    struct CpuFormat1 = "state"."CPUManagerCheckpointV1" {
        policy_name: String = "PolicyName" "policyName",
        default_cpu_set: String = "DefaultCPUSet" "defaultCpuSet",
        entries: Map<String, String> = "Entries" "entries" omitempty,
        checksum: CpuChecksumField = "Checksum" "checksum",
    }
}

go_struct! {
    /// Entries by pod and container.
    struct CpuFormat2 = "state"."CPUManagerCheckpointV2" {
        policy_name: String = "PolicyName" "policyName",
        default_cpu_set: String = "DefaultCPUSet" "defaultCpuSet",
        entries: Map<String, Map<String, String>> = "Entries" "entries" omitempty,
        checksum: CpuChecksumField = "Checksum" "checksum",
    }
}

go_struct! {
    /// Pod entries and container entries.
    struct CpuFormat3 = "state"."CPUManagerCheckpoint" {
        policy_name: String = "PolicyName" "policyName",
        default_cpu_set: String = "DefaultCPUSet" "defaultCpuSet",
        entries: Map<String, Map<String, String>> = "Entries" "entries" omitempty,
        pod_entries: CpuPodEntries = "PodEntries" "podEntries" omitempty,
        checksum: CpuChecksumField = "Checksum" "checksum",
    }
}

go_struct! {
    /// Format 3 for older kubelets, with checksum 0, and all fields once more as text.
    struct CpuFormat4 = "state"."CPUManagerCheckpoint" {
        policy_name: String = "PolicyName" "policyName",
        default_cpu_set: String = "DefaultCPUSet" "defaultCpuSet",
        entries: Map<String, Map<String, String>> = "Entries" "entries" omitempty,
        pod_entries: CpuPodEntries = "PodEntries" "podEntries" omitempty,
        checksum: CpuChecksumField = "Checksum" "checksum",
        data: String = "Data" "data",
        data_checksum: CpuChecksumField = "DataChecksum" "dataChecksum",
    }
}

go_struct! {
    /// The fields that all formats but the first have; as JSON it is the text inside format 4.
    struct CpuCheckpointData = "state"."CPUManagerCheckpointData" {
        policy_name: String = "PolicyName" "policyName",
        default_cpu_set: String = "DefaultCPUSet" "defaultCpuSet",
        entries: Map<String, Map<String, String>> = "Entries" "entries" omitempty,
        pod_entries: CpuPodEntries = "PodEntries" "podEntries" omitempty,
    }
}

go_named! {
    /// CPUs by pod.
    struct CpuPodEntries(Map<String, CpuPodEntry>) = "state.PodCPUAssignments"
}

go_struct! {
    /// The JSON of a pod entry.
    struct CpuPodEntryText = "state"."podEntryJSON" {
        cpu_set: String = "CPUSet" "cpuSet" omitempty,
    }
}

/// The CPUs of one pod: text in the file, a set in memory; the checksum covers the set.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CpuPodEntry {
    pub(crate) cpus: CpuSet,
}

impl GoValue for CpuPodEntry {
    fn type_name() -> String {
        "state.PodEntry".to_owned()
    }

    fn decode_as(&mut self, json: &Json, decoder: &mut Decoder, _name: fn() -> String) {
        let mut text = CpuPodEntryText::default();
        let mut own = Decoder::default();
        text.decode(json, &mut own);
        if let Some(error) = own.into_error() {
            return decoder.stop(error);
        }
        match CpuSet::parse(&text.cpu_set) {
            Ok(cpus) => self.cpus = cpus,
            Err(error) => decoder.stop(format!("failed to parse cpuset: {error}")),
        }
    }

    fn dump(&self, out: &mut String) {
        out.push_str("{CPUSet:(cpuset.CPUSet){elems:(map[int]struct {})map[");
        for (i, cpu) in self.cpus.iter().enumerate() {
            let separator = if i == 0 { "" } else { " " };
            out.push_str(&format!("{separator}{cpu}:{{}}"));
        }
        out.push_str("]}}");
    }

    fn encode(&self, out: &mut String) {
        let cpu_set = self.cpus.to_string();
        CpuPodEntryText { cpu_set }.encode(out);
    }

    fn is_empty(&self) -> bool {
        false
    }
}

impl CpuFormat1 {
    /// The value that the kubelet decodes into.
    pub(crate) fn new() -> Self {
        Self {
            entries: Map::empty(),
            ..Self::default()
        }
    }

    pub(crate) fn checksum(&self) -> Checksum {
        let cleared = Self {
            checksum: CpuChecksumField(0),
            ..self.clone()
        };
        Checksum {
            stored: self.checksum.0,
            text: dump_of_pointer(&cleared, TYPE_NAME),
        }
    }
}

impl CpuFormat2 {
    /// The value that the kubelet decodes into.
    pub(crate) fn new() -> Self {
        Self {
            entries: Map::empty(),
            ..Self::default()
        }
    }

    pub(crate) fn checksum(&self) -> Checksum {
        self.checksum_under(TYPE_NAME)
    }

    /// The checksum with the format number in the type name.
    pub(crate) fn numbered_checksum(&self) -> Checksum {
        self.checksum_under(&Self::type_name())
    }

    fn checksum_under(&self, name: &str) -> Checksum {
        let cleared = Self {
            checksum: CpuChecksumField(0),
            ..self.clone()
        };
        Checksum {
            stored: self.checksum.0,
            text: dump_of_pointer(&cleared, name),
        }
    }
}

impl CpuFormat3 {
    /// The value that the kubelet decodes into.
    pub(crate) fn new() -> Self {
        Self {
            entries: Map::empty(),
            pod_entries: CpuPodEntries(Map::empty()),
            ..Self::default()
        }
    }

    pub(crate) fn checksum(&self) -> Checksum {
        let cleared = Self {
            checksum: CpuChecksumField(0),
            ..self.clone()
        };
        Checksum {
            stored: self.checksum.0,
            text: dump_of_pointer(&cleared, TYPE_NAME),
        }
    }
}

impl CpuFormat4 {
    /// The checksum of the text inside.
    pub(crate) fn data_checksum(&self) -> Checksum {
        Checksum {
            stored: self.data_checksum.0,
            text: format!("(string){}", self.data),
        }
    }
}

impl CpuCheckpointData {
    /// The value that the kubelet decodes into.
    pub(crate) fn new() -> Self {
        Self {
            entries: Map::empty(),
            pod_entries: CpuPodEntries(Map::empty()),
            ..Self::default()
        }
    }
}

impl From<CpuFormat2> for CpuCheckpointData {
    fn from(file: CpuFormat2) -> Self {
        Self {
            policy_name: file.policy_name,
            default_cpu_set: file.default_cpu_set,
            entries: file.entries,
            pod_entries: CpuPodEntries(Map::empty()),
        }
    }
}

impl From<CpuFormat3> for CpuCheckpointData {
    fn from(file: CpuFormat3) -> Self {
        Self {
            policy_name: file.policy_name,
            default_cpu_set: file.default_cpu_set,
            entries: file.entries,
            pod_entries: file.pod_entries,
        }
    }
}

impl From<&CpuManagerState> for CpuFormat2 {
    fn from(state: &CpuManagerState) -> Self {
        let data = CpuCheckpointData::from(state);
        Self {
            policy_name: data.policy_name,
            default_cpu_set: data.default_cpu_set,
            entries: data.entries,
            checksum: CpuChecksumField(0),
        }
    }
}

impl From<&CpuManagerState> for CpuFormat3 {
    fn from(state: &CpuManagerState) -> Self {
        let data = CpuCheckpointData::from(state);
        Self {
            policy_name: data.policy_name,
            default_cpu_set: data.default_cpu_set,
            entries: data.entries,
            pod_entries: data.pod_entries,
            checksum: CpuChecksumField(0),
        }
    }
}

impl From<&CpuManagerState> for CpuFormat4 {
    fn from(state: &CpuManagerState) -> Self {
        let data = CpuCheckpointData::from(state);
        let mut text = String::new();
        data.encode(&mut text);
        let mut file = Self {
            policy_name: data.policy_name,
            default_cpu_set: data.default_cpu_set,
            entries: data.entries,
            pod_entries: data.pod_entries,
            checksum: CpuChecksumField(0),
            data: text,
            data_checksum: CpuChecksumField(0),
        };
        file.data_checksum.0 = file.data_checksum().computed().into();
        file
    }
}
