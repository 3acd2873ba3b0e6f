package operation

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

const (
	// maxText bounds the message of one object. A status has one for each, and
	// all of it must fit into one object of the API server.
	maxText = 500
	// maxMessage bounds the message of the operation.
	maxMessage = 2000
	// maxNames is how many objects of a group are named.
	maxNames = 5
)

// What becomes of an object, with kubectl's words.
const (
	created    = "created"
	configured = "configured"
	unchanged  = "unchanged"
	replaced   = "replaced"
	pruned     = "pruned"
	deleted    = "deleted"
	// untested is what a dry run cannot know.
	untested = "not tried"
)

// verb is what the write of an object did. Without a response there was no
// write.
func verb(desired, before, after *unstructured.Unstructured) string {
	switch {
	case after == nil:
		return untested
	case before == nil:
		return created
	case before.GetUID() != after.GetUID():
		return replaced
	case isUnchanged(desired, before, after):
		return unchanged
	}
	return configured
}

// isUnchanged reports whether our write changed nothing: we own the same fields,
// and those that we want are as they were. That others write meanwhile, such as
// a controller the status, is no change of ours. The version alone would not do:
// what was before may be known late, and a dry run gives no new version.
func isUnchanged(desired, before, after *unstructured.Unstructured) bool {
	if !slices.EqualFunc(ownFields(before), ownFields(after), bytes.Equal) {
		return false
	}
	if desired.GetKind() == "Secret" && !reflect.DeepEqual(before.Object["data"], after.Object["data"]) {
		return false // what is written as stringData is kept as data
	}
	return sameWhere(desired.Object, before.Object, after.Object)
}

// ownFields are the sets of fields that we own.
func ownFields(object *unstructured.Unstructured) [][]byte {
	var sets [][]byte
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == apply.Manager && entry.Subresource == "" && entry.FieldsV1 != nil {
			sets = append(sets, entry.FieldsV1.GetRawBytes())
		}
	}
	return sets
}

// sameWhere reports whether two objects are the same where a third has fields.
func sameWhere(mask, first, second map[string]any) bool {
	for name, inner := range mask {
		deeper, isMap := inner.(map[string]any)
		a, isFirst := first[name].(map[string]any)
		b, isSecond := second[name].(map[string]any)
		if isMap && isFirst && isSecond {
			if !sameWhere(deeper, a, b) {
				return false
			}
		} else if !reflect.DeepEqual(first[name], second[name]) {
			return false
		}
	}
	return true
}

// removal is the verb of a deletion: pruned in a sync, deleted with the
// Application.
func removal(step *plan.Step) string {
	if step.Phase == plan.Delete {
		return deleted
	}
	return pruned
}

// message is what happened to an object in the form of kubectl:
// deployment.apps/web configured.
func (r *Run) message(step *plan.Step, verb string) string {
	text := messageFor(step.Key, verb)
	if r.Plan.DryRun {
		text += dryRun
	}
	return bounded(text, maxText)
}

// messageFor is message without regard to the operation.
func messageFor(key tracking.Key, verb string) string {
	kind := strings.ToLower(key.Kind)
	if key.Group != "" {
		kind += "." + key.Group
	}
	return kind + "/" + key.Name + " " + verb
}

const dryRun = " (dry run)"

// resultCounts has the names of the objects of each group.
type resultCounts struct {
	groups map[string][]string
}

// The groups of a tally besides the verbs.
const (
	hooksRun = "ran as hook"
	failed   = "failed"
	kept     = "not pruned"
)

// order is the order of the groups in a message: changes first.
func order() []string {
	return []string{created, configured, replaced, pruned, deleted, hooksRun, failed, kept, untested, unchanged}
}

// count groups results.
func count(results []v1alpha1.ResourceResult) resultCounts {
	counted := resultCounts{groups: map[string][]string{}}
	for _, result := range results {
		group := groupOf(result)
		if group == "" {
			continue
		}
		key := tracking.Key{Group: result.Group, Kind: result.Kind, Namespace: result.Namespace, Name: result.Name}
		counted.groups[group] = append(counted.groups[group], key.String())
	}
	return counted
}

// groupOf derives from a result what was done to the object. The message
// carries the verb, so that it survives a restart.
func groupOf(result v1alpha1.ResourceResult) string {
	switch {
	case result.Status == v1alpha1.ResultPruneSkipped:
		return kept
	case result.HookPhase == v1alpha1.OperationFailed || result.HookPhase == v1alpha1.OperationError:
		return failed
	case result.HookType != "" && result.HookPhase == "":
		return ""
	}
	text, isDry := strings.CutSuffix(result.Message, dryRun)
	if result.HookType != "" && !isDry {
		return hooksRun
	}
	for _, verb := range order() {
		if strings.HasSuffix(text, " "+verb) {
			return verb
		}
	}
	return configured // the reason of a failure has replaced the message
}

// Describe returns one line for the log about what an operation did: how many
// objects were created, configured or pruned, and up to five names of each.
// Unchanged objects are only counted.
func Describe(results []v1alpha1.ResourceResult) string {
	return count(results).text(func(group string, names []string) string {
		if group == unchanged {
			return fmt.Sprintf("%d %s", len(names), group)
		}
		return fmt.Sprintf("%d %s (%s)", len(names), group, strings.Join(shorten(names, maxNames), ", "))
	})
}

func (t resultCounts) text(each func(group string, names []string) string) string {
	var texts []string
	for _, group := range order() {
		if names := t.groups[group]; len(names) > 0 {
			texts = append(texts, each(group, names))
		}
	}
	if len(texts) == 0 {
		return "nothing to do"
	}
	return strings.Join(texts, ", ")
}

// success is the message of an operation that went well.
func (r *Run) success() string {
	counts := count(r.Results()).text(func(group string, names []string) string {
		return fmt.Sprintf("%d %s", len(names), group)
	})
	isDeletion := slices.ContainsFunc(r.Plan.Phases, func(phase plan.Phase) bool {
		return phase.Name == plan.Delete || phase.Name == plan.PreDelete || phase.Name == plan.PostDelete
	})
	switch {
	case r.Plan.DryRun:
		return "dry run, nothing was changed: " + counts
	case isDeletion:
		return "deletion finished: " + counts
	}
	return "synced: " + counts
}

// shorten keeps the first texts and counts the rest.
func shorten(texts []string, most int) []string {
	if len(texts) <= most {
		return texts
	}
	return append(slices.Clone(texts[:most]), fmt.Sprintf("and %d more", len(texts)-most))
}

// bounded cuts a text at a length and makes it UTF-8.
func bounded(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most-len("...")], "") + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
