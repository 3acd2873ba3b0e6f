package migration

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/argosetting"
	"slipway.dev/slipway/internal/gitops/migrate"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// Report is what an installation becomes.
type Report struct {
	// Namespace is that of Argo CD.
	Namespace string    `json:"namespace"`
	Objects   []*Object `json:"objects"`
	// Warnings are parts that could not be read.
	Warnings []string `json:"warnings,omitempty"`
}

// Object is what one object becomes.
type Object struct {
	refusal.Object
	// Effect is the worst of the fields and of the proof.
	Effect argosetting.Effect `json:"effect"`
	Fields []Field            `json:"fields"`
	// Obstacles are what stops, or would disturb, taking it over.
	Obstacles []finding.Finding `json:"obstacles,omitempty"`
	// Proof is set for Applications that were rendered, and for ApplicationSets
	// that were generated; the resources of these are Applications.
	Proof *Proof `json:"proof,omitempty"`

	// copied is what the runtime would get of it; nil if it is not copied.
	copied *unstructured.Unstructured
}

// Field is what one field becomes. Its value is not part of the report.
type Field struct {
	// Name is a path, or the key of a ConfigMap or Secret; empty for the object
	// as a whole.
	Name   string             `json:"name"`
	Effect argosetting.Effect `json:"effect"`
	// Text is the reason and what to do.
	Text string `json:"text,omitempty"`
}

// Proof compares an Application of Argo CD with what the runtime makes of it.
type Proof struct {
	// Revisions are those that Argo CD has compared, and that were rendered.
	Revisions []string `json:"revisions,omitempty"`
	// Resources are the objects of both.
	Resources []Resource `json:"resources"`
	// ArgoHealth and Health are those of the Application.
	ArgoHealth v1alpha1.HealthCode `json:"argoHealth,omitempty"`
	Health     v1alpha1.HealthCode `json:"health,omitempty"`
	// Orphaned are objects with the mark of the Application that neither its
	// status nor Git has.
	Orphaned []string `json:"orphaned,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Failed is why there is no comparison.
	Failed string `json:"failed,omitempty"`
}

// Resource is one object of an Application.
type Resource struct {
	Name   string             `json:"name"`
	Effect argosetting.Effect `json:"effect"`
	Text   string             `json:"text,omitempty"`
	// Diff is what the first sync would change, without values of Secrets.
	Diff       string              `json:"diff,omitempty"`
	ArgoHealth v1alpha1.HealthCode `json:"argoHealth,omitempty"`
	Health     v1alpha1.HealthCode `json:"health,omitempty"`
	// SharedWith are other Applications that list it.
	SharedWith []string `json:"sharedWith,omitempty"`
}

// Applications returns the Applications of the report.
func (r *Report) Applications() []*Object {
	return slices.DeleteFunc(slices.Clone(r.Objects), func(o *Object) bool { return o.Kind != v1alpha1.KindApplication })
}

// Copies returns the Secrets and ConfigMaps that the runtime lacks and that can be
// copied.
func (r *Report) Copies() []*unstructured.Unstructured {
	var copies []*unstructured.Unstructured
	for _, object := range r.Objects {
		if object.copied != nil {
			copies = append(copies, object.copied)
		}
	}
	return copies
}

// Ready reports whether an Application can be taken over without a change of
// what it delivers. Force is for Applications with differences and warnings; no
// force moves one with refused fields.
func (o *Object) Ready(force bool) bool {
	if o.Effect == argosetting.Refused || finding.HasErrors(o.Obstacles) {
		return false
	}
	return force || o.Effect != argosetting.Differs && len(o.Obstacles) == 0
}

// NotReady returns what keeps a set and its Applications from being taken over
// together. The report has to be that of the Applications of the set.
func (r *Report) NotReady(set tracking.App, force bool) []*Object {
	var found []*Object
	for _, object := range r.Objects {
		if object.Kind == v1alpha1.KindApplicationSet && object.ID() != set || object.Kind != v1alpha1.KindApplicationSet && object.Kind != v1alpha1.KindApplication {
			continue
		}
		with := *object
		with.Obstacles = slices.DeleteFunc(slices.Clone(object.Obstacles), func(f finding.Finding) bool { return f.Code == migrate.CodeGenerated })
		if !with.Ready(force) {
			found = append(found, &with)
		}
	}
	return found
}

// ID returns the identity of an Application or ApplicationSet.
func (o *Object) ID() tracking.App { return tracking.App{Namespace: o.Namespace, Name: o.Name} }

// newObject returns an object without fields.
func newObject(group, kind, namespace, name string) *Object {
	return &Object{Object: refusal.Object{Group: group, Kind: kind, Namespace: namespace, Name: name}, Effect: argosetting.Same, Fields: []Field{}}
}

// add adds a field.
func (o *Object) add(name string, effect argosetting.Effect, text string) {
	o.Fields = append(o.Fields, Field{Name: name, Effect: effect, Text: text})
}

// refusesAField reports whether one of the fields is refused.
func (o *Object) refusesAField() bool {
	return slices.ContainsFunc(o.Fields, func(f Field) bool { return f.Effect == argosetting.Refused })
}

// finish sorts the fields and computes the effect of all.
func (o *Object) finish() *Object {
	slices.SortStableFunc(o.Fields, func(x, y Field) int {
		return cmp.Or(-compareEffects(x.Effect, y.Effect), strings.Compare(x.Name, y.Name))
	})
	for _, field := range o.Fields {
		o.Effect = worse(o.Effect, field.Effect)
	}
	if o.Proof != nil {
		o.Effect = worse(o.Effect, o.Proof.effect())
	}
	return o
}

// effect is Same if the comparison has shown it.
func (p *Proof) effect() argosetting.Effect {
	result := argosetting.Same
	if p.Failed != "" || !sameHealth(p.ArgoHealth, p.Health) {
		result = argosetting.Differs
	}
	for _, resource := range p.Resources {
		result = worse(result, resource.Effect)
	}
	return result
}

// effects lists the effects, the best first.
func effects() []argosetting.Effect {
	return []argosetting.Effect{argosetting.Same, argosetting.NoEffect, argosetting.Differs, argosetting.Refused}
}

// compareEffects orders effects, the best first.
func compareEffects(x, y argosetting.Effect) int {
	return cmp.Compare(slices.Index(effects(), x), slices.Index(effects(), y))
}

// worse returns the worse of two effects.
func worse(x, y argosetting.Effect) argosetting.Effect {
	if compareEffects(x, y) < 0 {
		return y
	}
	return x
}

// Counts returns how many objects have each effect.
func (r *Report) Counts() map[argosetting.Effect]int {
	counts := map[argosetting.Effect]int{}
	for _, object := range r.Objects {
		counts[object.Effect]++
	}
	return counts
}
