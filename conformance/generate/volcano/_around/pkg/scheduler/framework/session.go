// Package framework stands in for Volcano's package of the same name: a session that keeps the functions that the plugin
// registers.
package framework

import "volcano.sh/volcano/pkg/scheduler/api"

type (
	// Plugin is a plugin.
	Plugin interface {
		Name() string
		OnSessionOpen(*Session)
		OnSessionClose(*Session)
	}
	// Event is that a task was bound to a node.
	Event struct{ Task *api.TaskInfo }
	// EventHandler is called then.
	EventHandler struct{ AllocateFunc, DeallocateFunc func(*Event) }
	// Session is one round of the scheduler.
	Session struct {
		Nodes     map[string]*api.NodeInfo
		Handler   *EventHandler
		Predicate func(*api.TaskInfo, *api.NodeInfo) error
		Order     func(*api.TaskInfo, []*api.NodeInfo) (map[string]float64, error)
	}
)

// AddEventHandler keeps the handler.
func (s *Session) AddEventHandler(handler *EventHandler) { s.Handler = handler }

// AddPredicateFn keeps the predicate.
func (s *Session) AddPredicateFn(_ string, predicate func(*api.TaskInfo, *api.NodeInfo) error) {
	s.Predicate = predicate
}

// AddBatchNodeOrderFn keeps the order.
func (s *Session) AddBatchNodeOrderFn(_ string, order func(*api.TaskInfo, []*api.NodeInfo) (map[string]float64, error)) {
	s.Order = order
}

// UpdateSchedulerNumaInfo is what the plugin calls with the sum of its decisions.
func (s *Session) UpdateSchedulerNumaInfo(map[string]api.ResNumaSets) {}
