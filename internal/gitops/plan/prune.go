package plan

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// prune plans the deletion of what is no longer rendered.
func (b *builder) prune() {
	wanted := map[tracking.Key]bool{}
	same := map[types.UID]bool{}
	resources := 0
	for _, desired := range b.set.Objects {
		wanted[desired.Key] = true
		if live := b.Live[desired.Key]; live != nil && live.GetUID() != "" {
			same[live.GetUID()] = true
		}
		if desired.Hook == nil {
			resources++
		}
	}
	var doomed []*Step
	for _, key := range slices.SortedFunc(maps.Keys(b.Live), tracking.Key.Compare) {
		live := b.Live[key]
		if live == nil || wanted[key] || !b.isOwn(key, live) {
			continue
		}
		options, _ := b.Options.ObjectOptions.of(live)
		reason := b.keptAlways(key, live, same)
		kept := reason == ""
		if kept {
			reason = b.notPruned(options)
		}
		if reason != "" {
			b.plan.Skipped = append(b.plan.Skipped, Skipped{Key: key, Prune: true, Kept: kept, Reason: reason})
			continue
		}
		doomed = append(doomed, &Step{
			StepID: StepID{Phase: Sync, Key: key}, Wave: liveWave(live), Action: Remove, Live: live, last: options.PruneLast,
			Options: StepOptions{Confirm: options.Prune == Confirm, Propagation: b.Options.Propagation},
		})
	}
	if resources == 0 && len(doomed) > 0 && !b.Options.AllowEmpty {
		b.plan.Refusals = append(b.plan.Refusals, *refusal.New("", WouldWipe,
			"nothing was rendered, and the sync would wipe out all resources (%d); set allowEmpty if that is meant", len(doomed)))
		return
	}
	for _, step := range doomed {
		if b.allowed(step.Key, step.Live) {
			b.steps = append(b.steps, step)
		}
	}
}

// isOwn reports whether the Application made an object, so that it may delete it:
// it has both marks, and no controller made it of something else.
func (b *builder) isOwn(key tracking.Key, live *unstructured.Unstructured) bool {
	return key == tracking.KeyOf(live) && b.set.source.Tracker.Stamped(live, b.app()) && len(live.GetOwnerReferences()) == 0
}

// keptAlways returns why an object that is no longer rendered stays with any
// options, or an empty text.
func (b *builder) keptAlways(key tracking.Key, live *unstructured.Unstructured, same map[types.UID]bool) string {
	switch {
	case isHook(live):
		return "it is a hook, and its delete policy decides when it is deleted"
	case key == b.applicationKey():
		return "it is the Application itself"
	case same[live.GetUID()]:
		return "it is an object of the application under another group"
	case !selected(b.Options.Selection, key):
		return "it is not selected"
	}
	return ""
}

// notPruned returns which option keeps an object that is no longer rendered, or
// an empty text.
func (b *builder) notPruned(options ObjectOptions) string {
	switch {
	case !b.Options.AllowPrune:
		return "ignored (requires pruning)"
	case options.Prune == No:
		return "ignored (no prune)"
	}
	return ""
}

// applicationKey is the Application that is synced: one may contain itself.
func (b *builder) applicationKey() tracking.Key {
	return tracking.Key{Group: "argoproj.io", Kind: "Application", Namespace: b.app().Namespace, Name: b.app().Name}
}

// Deletion makes the plan of deleting an Application: its PreDelete hooks, then
// all that it made from the highest wave to the lowest, then its PostDelete
// hooks. The Set is of the last render, or an empty one, which has no hooks.
//
// CustomResourceDefinitions stay, as in Argo CD: deleting one deletes all
// objects of its kind, of all owners. So do objects with Delete=false or
// helm.sh/resource-policy: keep.
func Deletion(set *Set, in Input) (*Plan, error) {
	if in.Gate == nil {
		return nil, errGate
	}
	b := newBuilder(set, in)
	b.plan.deleting = true
	hooks := b.deleteHooks()
	// What cannot be rendered is a refusal, and does not keep an Application
	// from being deleted. A hook that may not run does.
	b.plan.Blocked = len(b.plan.Refusals) > len(set.Refusals)
	for _, key := range slices.SortedFunc(maps.Keys(b.Live), tracking.Key.Compare) {
		if live := b.Live[key]; live != nil && !hooks[key] && b.isOwn(key, live) {
			b.deleteLive(key, live)
		}
	}
	b.plan.arrange(b.steps)
	b.plan.stepwise = true
	return b.plan, nil
}

// deleteHooks plans the hooks of a deletion. It returns their keys.
func (b *builder) deleteHooks() map[tracking.Key]bool {
	keys := map[tracking.Key]bool{}
	for _, desired := range b.set.Objects {
		if desired.Hook == nil {
			continue
		}
		for _, phase := range desired.Hook.Phases {
			if phase != PreDelete && phase != PostDelete {
				continue
			}
			keys[desired.Key] = true
			live := b.Live[desired.Key]
			if b.mayTouch(desired, live) {
				options, _ := b.Options.ObjectOptions.of(desired.Object)
				b.steps = append(b.steps, newStep(phase, desired, live, options))
			}
		}
	}
	return keys
}

func (b *builder) deleteLive(key tracking.Key, live *unstructured.Unstructured) {
	options, _ := b.Options.ObjectOptions.of(live)
	switch {
	case isDefinition(key):
		b.skip(key, "definitions stay, because deleting one deletes all objects of its kind")
	case key == b.applicationKey():
		b.skip(key, "it is the Application itself")
	case options.Delete == No:
		b.skip(key, "its annotation keeps it when its application is deleted")
	case b.allowed(key, live):
		b.steps = append(b.steps, &Step{
			StepID: StepID{Phase: Delete, Key: key}, Wave: liveWave(live), Action: Remove, Live: live,
			Options: StepOptions{Confirm: options.Delete == Confirm, Propagation: b.Options.Propagation},
		})
	}
}
