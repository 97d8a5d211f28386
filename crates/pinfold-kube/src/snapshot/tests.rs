//! What a snapshot keeps, and that scrambled names still match.

use super::*;
use crate::manifest;

const POD_YAML: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: web-7
  namespace: shop
  uid: 11-22
  labels: {app: web, koordinator.sh/qosClass: LSR}
  annotations: {secret: token, scheduling.koordinator.sh/resource-status: '{\"cpuset\":\"1\",\"pod\":\"web-7\"}'}
  ownerReferences: [{kind: ReplicaSet, name: web, uid: 33}]
spec:
  nodeName: rack-3
  nodeSelector: {kubernetes.io/hostname: rack-3, disk: fast}
  containers:
  - {name: php, image: registry/shop, env: [{name: PASSWORD, value: x}], resources: {requests: {cpu: 1}}}
  volumes: [{name: data, persistentVolumeClaim: {claimName: web-7}}, {name: tmp, emptyDir: {}}]
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: zone, labelSelector: {matchLabels: {app: web}, matchExpressions: [{key: app, operator: In, values: [web]}]}}
status: {phase: Running, podIP: 10.0.0.1, conditions: [{type: PodScheduled, status: 'False', message: no rack-3}]}
";

const NODE_YAML: &str = "
apiVersion: v1
kind: Node
metadata: {name: rack-3, labels: {kubernetes.io/hostname: rack-3, disk: fast, kubernetes.io/os: linux}}
spec: {taints: [{key: team, value: shop, effect: NoSchedule}], podCIDR: 10.0.0.0/24}
status:
  allocatable: {cpu: 8}
  images: [{names: [registry/shop]}]
  nodeInfo: {kubeletVersion: v1.36.4, machineID: secret}
  conditions: [{type: PinfoldReady, status: 'True', message: rack-3 works}]
";

fn reduced(text: &str) -> JsonValue {
    let documents = manifest::read("test", text.as_bytes()).expect("an object");
    reduce(&documents[0]).expect("a kind that is read")
}

#[test]
fn a_snapshot_keeps_what_decisions_read_and_nothing_else() {
    assert_eq!(
        reduced(POD_YAML).to_json(),
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"web-7\",\"namespace\":\"shop\",\"uid\":\"11-22\",\
         \"labels\":{\"app\":\"web\",\"koordinator.sh/qosClass\":\"LSR\"},\
         \"annotations\":{\"scheduling.koordinator.sh/resource-status\":\"{\\\"cpuset\\\":\\\"1\\\",\\\"pod\\\":\\\"web-7\\\"}\"},\
         \"ownerReferences\":[{\"kind\":\"ReplicaSet\"}]},\"spec\":{\"nodeName\":\"rack-3\",\
         \"nodeSelector\":{\"kubernetes.io/hostname\":\"rack-3\",\"disk\":\"fast\"},\
         \"containers\":[{\"name\":\"php\",\"resources\":{\"requests\":{\"cpu\":1}}}],\
         \"volumes\":[{\"persistentVolumeClaim\":{}}],\
         \"affinity\":{\"podAntiAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":[{\"topologyKey\":\"zone\",\
         \"labelSelector\":{\"matchLabels\":{\"app\":\"web\"},\
         \"matchExpressions\":[{\"key\":\"app\",\"operator\":\"In\",\"values\":[\"web\"]}]}}]}}},\
         \"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\
         \"message\":\"no rack-3\"}]}}"
    );
    assert_eq!(
        reduced(NODE_YAML).to_json(),
        "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"rack-3\",\
         \"labels\":{\"kubernetes.io/hostname\":\"rack-3\",\"disk\":\"fast\",\"kubernetes.io/os\":\"linux\"}},\
         \"spec\":{\"taints\":[{\"key\":\"team\",\"value\":\"shop\",\"effect\":\"NoSchedule\"}]},\
         \"status\":{\"allocatable\":{\"cpu\":8},\"nodeInfo\":{\"kubeletVersion\":\"v1.36.4\"},\
         \"conditions\":[{\"type\":\"PinfoldReady\",\"status\":\"True\"}]}}"
    );
    let other = "{apiVersion: v1, kind: Secret, metadata: {name: s}}";
    let documents = manifest::read("test", other.as_bytes()).expect("an object");
    assert_eq!(reduce(&documents[0]), None);
}

#[test]
fn scrambled_names_are_the_same_everywhere_and_the_old_ones_are_gone() {
    let mut objects = [reduced(POD_YAML), reduced(NODE_YAML)];
    let mut scrambler = Scrambler::default();
    objects
        .iter_mut()
        .for_each(|object| scrambler.collect(object));
    scrambler.choose();
    objects
        .iter_mut()
        .for_each(|object| scrambler.scramble(object));
    let [pod, node] = objects.map(|object| object.to_json());
    for old in ["rack-3", "shop", "web-7", "php", "\"web\"", "fast", "11-22"] {
        assert!(!format!("{pod}{node}").contains(old), "{old}: {pod} {node}");
    }
    for part in [
        "\"nodeName\":\"node-1\"",
        "\"nodeSelector\":{\"kubernetes.io/hostname\":\"node-1\",\"disk\":\"value-1\"}",
        "\"labels\":{\"app\":\"value-4\",\"koordinator.sh/qosClass\":\"LSR\"}",
        "\"matchLabels\":{\"app\":\"value-4\"}",
        "\"values\":[\"value-4\"]",
        "{\\\"cpuset\\\":\\\"1\\\",\\\"pod\\\":\\\"pod-1\\\"}",
    ] {
        assert!(pod.contains(part), "{part}: {pod}");
    }
    for part in [
        "\"labels\":{\"kubernetes.io/hostname\":\"node-1\",\"disk\":\"value-1\",\"kubernetes.io/os\":\"linux\"}",
        "\"value\":\"namespace-1\"",
    ] {
        assert!(node.contains(part), "{part}: {node}");
    }
}
