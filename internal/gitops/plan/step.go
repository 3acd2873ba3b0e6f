package plan

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// Action is what a step does.
type Action string

// The actions.
const (
	// Apply writes the object server-side.
	Apply Action = "apply"
	// Replace writes a live object as it is.
	Replace Action = "replace"
	// CreateOnly is a Replace of what does not exist.
	CreateOnly Action = "create"
	// Remove deletes the live object.
	Remove Action = "delete"
	// RunHook applies the object of a hook.
	RunHook Action = "hook"
)

// StepID is the identity of a step in its plan, and between plans that are built
// of the same operation: a hook can be in several phases.
type StepID struct {
	Phase PhaseName
	Key   tracking.Key
}

// String is the step for people.
func (id StepID) String() string { return string(id.Phase) + " " + id.Key.String() }

// Step is one thing to do with one object.
type Step struct {
	StepID
	Wave   int
	Action Action
	// Object is what should be there, nil for what is deleted.
	Object *unstructured.Unstructured
	// Live is what was there when the plan was built, or nil.
	Live *unstructured.Unstructured
	// Hook is nil for a resource.
	Hook    *Hook
	Options StepOptions

	// last is a prune with PruneLast.
	last bool
	// rank is the place of the kind.
	rank int
	// needs are the definitions that must be established before.
	needs []StepID
}

// Leaving reports whether the object of a deletion is being deleted already, so
// that no request is needed.
func (s *Step) Leaving() bool {
	return s.Action == Remove && s.Live.GetDeletionTimestamp() != nil
}

// StepOptions are the sync options that matter for one step.
type StepOptions struct {
	// Replace and Force are for hooks too. Force is never set for namespaces and
	// definitions: deleting one deletes all that is in it.
	Replace bool
	Force   bool
	// SkipValidation does not ask for strict validation of fields.
	SkipValidation bool
	// SkipDryRun: the kind is not known yet, so a dry run cannot succeed.
	SkipDryRun bool
	// RespectIgnoreDifferences leaves ignored fields of a live object alone.
	RespectIgnoreDifferences bool
	// Create: the object was not there when the plan was built, or was not read.
	// It is written only if it does not exist: another one has not been checked.
	Create bool
	// Confirm: the deletion has to be confirmed by a user.
	Confirm bool
	// Propagation is how dependents of what is deleted go.
	Propagation metav1.DeletionPropagation
}

// Wave is a set of steps between which only the kind decides.
type Wave struct {
	Number int
	// Prune: the wave deletes. PruneLast: it is the last one.
	Prune     bool
	PruneLast bool
	Steps     []*Step
}

// Phase is an ordered list of waves.
type Phase struct {
	Name  PhaseName
	Waves []Wave
}

// Skipped is an object that is not touched.
type Skipped struct {
	Key tracking.Key
	// Prune: it is no longer rendered, and would be pruned otherwise.
	Prune bool
	// Kept: the options alone keep it from being pruned, which Argo CD reports
	// in the results as PruneSkipped.
	Kept   bool
	Reason string
}

// Plan is what a sync does. It does not change once it is built.
type Plan struct {
	Phases   []Phase
	Refusals []refusal.Refusal
	Warnings []finding.Finding
	Skipped  []Skipped
	// Blocked: nothing is done because of the refusals.
	Blocked bool
	DryRun  bool

	// stepwise: there is more than one wave or phase, so each is waited for.
	stepwise bool
	// deleting: the plan is that of a deletion, and over when all is gone.
	deleting bool
}

// Steps are all steps, in order.
func (p *Plan) Steps() []*Step {
	var all []*Step
	for _, phase := range p.Phases {
		for _, wave := range phase.Waves {
			all = append(all, wave.Steps...)
		}
	}
	return all
}

// kindRank is the place of a kind within a wave. Kinds that are not listed, which
// are mostly custom ones, come last.
func kindRank(kind string) int {
	kinds := [...]string{
		"Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "PodSecurityPolicy", "PodDisruptionBudget",
		"ServiceAccount", "Secret", "SecretList", "ConfigMap", "StorageClass", "PersistentVolume", "PersistentVolumeClaim",
		"CustomResourceDefinition", "ClusterRole", "ClusterRoleList", "ClusterRoleBinding", "ClusterRoleBindingList",
		"Role", "RoleList", "RoleBinding", "RoleBindingList", "Service", "DaemonSet", "Pod", "ReplicationController",
		"ReplicaSet", "Deployment", "HorizontalPodAutoscaler", "StatefulSet", "Job", "CronJob", "IngressClass", "Ingress",
		"APIService",
	}
	if rank := slices.Index(kinds[:], kind); rank >= 0 {
		return rank
	}
	return len(kinds)
}

// class orders what a phase does: apply, prune, prune last.
func (s *Step) class() int {
	switch {
	case s.last:
		return 2
	case s.Action == Remove:
		return 1
	}
	return 0
}

// compare is the order of steps. It is total: two steps of a plan never tie.
func (s *Step) compare(other *Step) int {
	if order := cmp.Or(cmp.Compare(s.Phase.order(), other.Phase.order()), cmp.Compare(s.class(), other.class())); order != 0 {
		return order
	}
	wave := cmp.Compare(s.Wave, other.Wave)
	kind := cmp.Or(cmp.Compare(s.rank, other.rank), cmp.Compare(s.Key.Kind, other.Key.Kind))
	switch s.class() {
	case 1:
		wave, kind = -wave, -kind // what was made last goes first
	case 2:
		wave, kind = 0, -kind
	}
	return cmp.Or(wave, kind, cmp.Compare(s.Key.Name, other.Key.Name), s.Key.Compare(other.Key))
}

// sameWave reports whether two steps that follow each other are in one wave.
func (s *Step) sameWave(other *Step) bool {
	return s.Phase == other.Phase && s.class() == other.class() && (s.last || s.Wave == other.Wave)
}

// arrange puts steps into phases and waves.
func (p *Plan) arrange(steps []*Step) {
	for _, step := range steps {
		step.rank = kindRank(step.Key.Kind)
	}
	slices.SortFunc(steps, (*Step).compare)
	type spot struct {
		phase PhaseName
		wave  int
		last  bool
	}
	spots := map[spot]bool{}
	for i, step := range steps {
		if step.last {
			spots[spot{phase: step.Phase, last: true}] = true
		} else {
			spots[spot{phase: step.Phase, wave: step.Wave}] = true
		}
		if len(p.Phases) == 0 || p.Phases[len(p.Phases)-1].Name != step.Phase {
			p.Phases = append(p.Phases, Phase{Name: step.Phase})
		}
		phase := &p.Phases[len(p.Phases)-1]
		if len(phase.Waves) == 0 || !steps[i-1].sameWave(step) {
			phase.Waves = append(phase.Waves, Wave{Number: step.Wave, Prune: step.Action == Remove, PruneLast: step.last})
		}
		wave := &phase.Waves[len(phase.Waves)-1]
		wave.Steps = append(wave.Steps, step)
	}
	p.stepwise = len(spots) > 1
}
