package plan

import (
	"cmp"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// Input is what a plan is built of besides the desired objects.
type Input struct {
	// Live are the objects under the keys of the desired ones, also those of
	// other owners, all that have the Application's label, and the
	// destination's Namespace if it is to be created. A desired one may be left out
	// if no object with our label has its key: its step then creates it, or finds
	// that it exists.
	Live map[tracking.Key]*unstructured.Unstructured
	// Synced are the resources that are as desired.
	Synced map[tracking.Key]bool
	// Gate decides about every object that would be touched.
	Gate    Gate
	Options Options
}

// errGate is an error of the program, not of an Application.
var errGate = errors.New("a plan cannot be built without a gate")

// builder is one plan that is being built.
type builder struct {
	Input
	set   *Set
	plan  *Plan
	steps []*Step
}

// Build makes the plan of a sync. The same input gives the same plan. The error
// means that the input is not complete.
func Build(set *Set, in Input) (*Plan, error) {
	if in.Gate == nil {
		return nil, errGate
	}
	b := newBuilder(set, in)
	for _, desired := range set.Objects {
		b.desired(desired)
	}
	b.createNamespace()
	b.prune()
	b.depend()
	b.plan.arrange(b.steps)
	b.plan.Blocked = len(b.plan.Refusals) > 0
	return b.plan, nil
}

func newBuilder(set *Set, in Input) *builder {
	in.Options.Propagation = cmp.Or(in.Options.Propagation, metav1.DeletePropagationForeground)
	b := &builder{Input: in, set: set, plan: &Plan{DryRun: in.Options.DryRun}}
	b.plan.Refusals = append(b.plan.Refusals, set.Refusals...)
	b.plan.Warnings = append(b.plan.Warnings, set.Warnings...)
	return b
}

func (b *builder) app() tracking.App { return b.set.source.App }

func (b *builder) skip(key tracking.Key, format string, args ...any) {
	b.plan.Skipped = append(b.plan.Skipped, Skipped{Key: key, Reason: fmt.Sprintf(format, args...)})
}

func (b *builder) refuse(key tracking.Key, reason refusal.Reason, format string, args ...any) {
	b.plan.Refusals = append(b.plan.Refusals, refusal.New("", reason, format, args...).Of(refusal.Object(key)))
}

// allowed checks an object with the gate, and records the refusal.
func (b *builder) allowed(key tracking.Key, object *unstructured.Unstructured) bool {
	refused := b.Gate.Allows(key, object, b.app().Namespace)
	if refused != nil {
		b.plan.Refusals = append(b.plan.Refusals, refused.Of(refusal.Object(key)))
	}
	return refused == nil
}

// desired plans one object that should be there.
func (b *builder) desired(desired *Desired) {
	if reason := b.leftOut(desired); reason != "" {
		b.skip(desired.Key, "%s", reason)
		return
	}
	options, _ := b.Options.ObjectOptions.of(desired.Object)
	live := b.Live[desired.Key]
	if !b.mayTouch(desired, live) {
		return
	}
	if desired.unknown && b.set.definitions[desired.Key.GroupKind()] == nil && !options.SkipDryRunOnMissingResource {
		b.refuse(desired.Key, UnknownKind,
			"the cluster does not have the kind, and nothing in the application defines it; if something else does, set SkipDryRunOnMissingResource=true")
		return
	}
	if desired.Hook == nil && b.Options.ApplyOutOfSyncOnly && live != nil && b.Synced[desired.Key] {
		b.skip(desired.Key, "it is as desired")
		return
	}
	phases := []PhaseName{Sync}
	if desired.Hook != nil {
		phases = syncPhases(desired.Hook)
	}
	for _, phase := range phases {
		b.steps = append(b.steps, newStep(phase, desired, live, options))
	}
}

// mayTouch checks an object that is applied, or run as a hook. The live object
// counts as well: the desired one can be of this project, and the one that it
// would overwrite, or a hook delete before it is created, of another.
func (b *builder) mayTouch(desired *Desired, live *unstructured.Unstructured) bool {
	return b.allowed(desired.Key, desired.Object) && (live == nil || b.allowed(desired.Key, live)) && b.isFreeOrOwn(desired, live)
}

// leftOut returns why an object has no step, or an empty text.
func (b *builder) leftOut(desired *Desired) string {
	switch {
	case desired.Skip != "":
		return desired.Skip
	case desired.Hook != nil && len(syncPhases(desired.Hook)) == 0:
		return "the hook runs when the Application is deleted"
	case desired.Hook != nil && b.Options.withoutHooks():
		return "hooks do not run in a sync of some resources, nor with the strategy apply"
	case desired.Hook != nil:
		return ""
	case !selected(b.Options.Selection, desired.Key):
		return "it is not selected"
	case b.Options.SelfHeal && b.Synced[desired.Key]:
		return "it is as desired"
	}
	return ""
}

// syncPhases are the phases of a hook that are part of a sync.
func syncPhases(hook *Hook) []PhaseName {
	var phases []PhaseName
	for _, phase := range hook.Phases {
		if phase != PreDelete && phase != PostDelete {
			phases = append(phases, phase)
		}
	}
	return phases
}

// isFreeOrOwn checks whether another Application owns the live object. A
// resource is taken over with a warning, as in Argo CD, unless
// FailOnSharedResource is set. A hook is refused: it would be deleted before it
// is created.
func (b *builder) isFreeOrOwn(desired *Desired, live *unstructured.Unstructured) bool {
	if live == nil {
		return true
	}
	owner, owned := b.set.source.Tracker.OwnerOf(live)
	if !owned || owner == b.app() {
		return true
	}
	if refused := b.Gate.TakesOver(desired.Key); refused != nil {
		b.plan.Refusals = append(b.plan.Refusals, refused.Of(refusal.Object(desired.Key)))
		return false
	}
	message := fmt.Sprintf("it is part of applications %s and %s", b.app(), owner)
	if desired.Hook != nil || b.Options.FailOnSharedResource {
		b.refuse(desired.Key, Shared, "%s", message)
		return false
	}
	b.plan.Warnings = append(b.plan.Warnings, warning(SharedResourceWarning, desired.Key, message))
	return true
}

func newStep(phase PhaseName, desired *Desired, live *unstructured.Unstructured, options ObjectOptions) *Step {
	step := &Step{
		StepID: StepID{Phase: phase, Key: desired.Key}, Wave: desired.Wave, Action: Apply,
		Object: desired.Object, Live: live, Hook: desired.Hook,
		Options: StepOptions{
			Replace: options.Replace, Force: options.Force, SkipValidation: options.SkipValidation,
			SkipDryRun: desired.unknown, RespectIgnoreDifferences: options.RespectIgnoreDifferences,
			Create: live == nil && desired.Hook == nil,
		},
	}
	if isDefinition(desired.Key) || isNamespace(desired.Key) {
		step.Options.Force = false
	}
	switch {
	case desired.Hook != nil:
		step.Action = RunHook
	case options.Replace && live == nil:
		step.Action = CreateOnly
	case options.Replace:
		step.Action = Replace
	}
	return step
}

func isNamespace(key tracking.Key) bool { return key.Group == "" && key.Kind == "Namespace" }

// createNamespace plans the destination's namespace, before everything else. It
// is not marked as the Application's, because others may use it too.
func (b *builder) createNamespace() {
	name := b.set.source.Namespace
	if !b.Options.CreateNamespace || name == "" || len(b.steps) == 0 {
		return
	}
	key := tracking.Key{Kind: "Namespace", Name: name}
	for _, desired := range b.set.Objects {
		if desired.Key == key {
			return // the rendered one goes before the options
		}
	}
	live := b.Live[key]
	if live != nil && !b.Options.ManageNamespace {
		return
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	object.SetName(name)
	if len(b.Options.NamespaceLabels) > 0 {
		object.SetLabels(b.Options.NamespaceLabels)
	}
	if len(b.Options.NamespaceAnnotations) > 0 {
		object.SetAnnotations(b.Options.NamespaceAnnotations)
	}
	if !b.allowed(key, object) {
		return
	}
	wave := 0
	for _, step := range b.steps {
		if step.Phase == PreSync {
			wave = min(wave, step.Wave)
		}
	}
	b.steps = append(b.steps, &Step{StepID: StepID{Phase: PreSync, Key: key}, Wave: wave, Action: Apply, Object: object, Live: live,
		Options: StepOptions{Create: live == nil}})
}
