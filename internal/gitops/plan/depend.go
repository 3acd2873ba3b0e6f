package plan

import (
	"cmp"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// place is where in a sync a step is.
type place struct {
	phase PhaseName
	wave  int
}

func (p place) before(other place) bool {
	return cmp.Or(cmp.Compare(p.phase.order(), other.phase.order()), cmp.Compare(p.wave, other.wave)) < 0
}

// depend moves namespaces and definitions to where they are first needed, and
// notes which steps must wait until a definition is established.
func (b *builder) depend() {
	inNamespace := map[string]place{}
	ofKind := map[schema.GroupKind]place{}
	for _, step := range b.steps {
		// SyncFail hooks run after a failure, for which nothing is moved.
		if step.Action == Remove || step.Phase == SyncFail {
			continue
		}
		here := place{step.Phase, step.Wave}
		if first, ok := inNamespace[step.Key.Namespace]; !ok || here.before(first) {
			inNamespace[step.Key.Namespace] = here
		}
		if first, ok := ofKind[step.Key.GroupKind()]; !ok || here.before(first) {
			ofKind[step.Key.GroupKind()] = here
		}
	}
	definitions := map[schema.GroupKind]StepID{}
	for _, step := range b.steps {
		if step.Action == Remove || step.Hook != nil {
			continue
		}
		if isNamespace(step.Key) {
			step.moveTo(inNamespace[step.Key.Name])
		}
		if kind, ok := definedKind(step.Object); ok {
			step.moveTo(ofKind[kind])
			definitions[kind] = step.StepID
		}
	}
	for _, step := range b.steps {
		// SkipDryRun marks kinds that the cluster does not serve yet.
		if id, ok := definitions[step.Key.GroupKind()]; ok && step.Options.SkipDryRun {
			step.needs = append(step.needs, id)
		}
	}
}

// moveTo moves a step if that is earlier.
func (s *Step) moveTo(first place) {
	if first.phase != "" && first.before(place{s.Phase, s.Wave}) {
		s.Phase, s.Wave = first.phase, first.wave
	}
}
