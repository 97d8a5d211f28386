// What the generator of test vectors needs of this package and is not exported.

package topologymanager

// VectorsFixed is a topology manager that answers every container with the same hint.
func VectorsFixed(hint *TopologyHint, policy Policy) Manager {
	return &fakeManager{hint: hint, policy: policy}
}
