package appset

import (
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/gitops/window"
)

// appState is what the status of an Application reports to its set. It can be
// compared with ==.
type appState struct {
	sync   v1alpha1.SyncStatusCode
	health v1alpha1.HealthCode
	// targets are the compared revisions, with commas.
	targets string
	// compared means that the sync status is that of the spec as it is now.
	compared bool
	// requested means that a sync was requested and has not started.
	requested bool
	// started and phase are those of the last sync.
	started time.Time
	phase   v1alpha1.OperationPhase
	// blocked means that a sync window refused the last sync.
	blocked bool
	// failing means that the spec is refused, so that no sync can succeed.
	failing bool
}

// newAppState reads the status of a live Application.
func newAppState(object map[string]any) appState {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(object, fields...)
		return value
	}
	state := appState{
		sync: v1alpha1.SyncStatusCode(text("status", "sync", "status")), health: v1alpha1.HealthCode(text("status", "health", "status")),
		targets: text("status", "sync", "revision"), phase: v1alpha1.OperationPhase(text("status", "operationState", "phase")),
		compared: isCompared(object), requested: object["operation"] != nil,
	}
	state.blocked = strings.HasPrefix(text("status", "operationState", "message"), window.InTheWay)
	if revisions, _, _ := unstructured.NestedStringSlice(object, "status", "sync", "revisions"); len(revisions) > 0 {
		state.targets = strings.Join(revisions, ",")
	}
	if started, err := time.Parse(time.RFC3339, text("status", "operationState", "startedAt")); err == nil {
		state.started = started.UTC()
	}
	conditions, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		switch condition["type"] {
		case v1alpha1.ConditionInvalidSpecError, v1alpha1.ConditionUnknownError:
			state.failing = true
		}
	}
	return state
}

// isCompared reports whether the last comparison was that of the sources and
// the destination that the spec has now.
func isCompared(object map[string]any) bool {
	spec, _ := object["spec"].(map[string]any)
	compared, found, _ := unstructured.NestedMap(object, "status", "sync", "comparedTo")
	if !found {
		return false
	}
	for _, field := range []string{"source", "sources", "destination"} {
		is, was := spec[field], compared[field]
		if !reflect.DeepEqual(is, was) && !reflect.DeepEqual(withoutEmpty(is), withoutEmpty(was)) {
			return false
		}
	}
	return true
}

// withoutEmpty removes empty fields, which a status leaves out. It returns nil
// for nothing.
func withoutEmpty(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, content := range v {
			if content = withoutEmpty(content); !generate.IsEmpty(content) {
				kept[name] = content
			}
		}
		value = kept
	case []any:
		kept := make([]any, len(v))
		for i, content := range v {
			kept[i] = withoutEmpty(content)
		}
		value = kept
	}
	if generate.IsEmpty(value) {
		return nil
	}
	return value
}

// revisions returns the compared revisions. It is never nil, as the status of
// Argo CD's ApplicationSets requires the field.
func (s appState) revisions() []string {
	if s.targets == "" {
		return []string{}
	}
	return strings.Split(s.targets, ",")
}

// isRunning reports whether a sync runs.
func (s appState) isRunning() bool {
	return s.phase == v1alpha1.OperationRunning || s.phase == v1alpha1.OperationTerminating
}
