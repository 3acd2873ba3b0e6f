package apply_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/must"
)

// Whatever others do to an object, and whatever Git wants of it: if no request was
// sent, an apply changes nothing, and if a change is certain it changes something.
func TestCertainIsCertain(t *testing.T) {
	archive := must.Get(txtar.ParseFile("testdata/common.txtar"))(t)
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	w := enter(t)
	w.defineWidgets()
	changes := 0
	for _, file := range archive.Files {
		switch file.Name {
		case "exact/deployment", "exact/service", "exact/ingress", "exact/configmap", "exact/secret", "exact/custom", "written/quantities", "asked/nulls":
		default:
			continue
		}
		t.Run(file.Name, func(t *testing.T) {
			w.t = t
			p := &property{world: w, random: rand.New(rand.NewPCG(7, uint64(len(file.Data)))), base: w.object(string(file.Data))}
			unstructured.RemoveNestedField(p.base.Object, "metadata", "finalizers")
			for round := range rounds {
				if round%10 == 9 { // so that what others did does not pile up
					must.Do(t, p.resource(p.base).Delete(p.context(), p.base.GetName(), metav1.DeleteOptions{}))
				}
				p.round(round)
			}
			t.Logf("%d times certain, %d times asked, %d changes were refused, %d were certain", p.certain, p.asked, p.refused, p.changes)
			changes += p.changes
			if p.certain == 0 || p.asked == 0 {
				t.Errorf("%d times certain and %d times asked say too little", p.certain, p.asked)
			}
		})
	}
	if changes == 0 {
		t.Error("no change was certain")
	}
}

// property is one object to which random things happen.
type property struct {
	*world
	random                  *rand.Rand
	base                    *unstructured.Unstructured
	certain, asked, refused int
	changes                 int
}

// round applies the object, has others change it, and compares it with what Git
// wants then.
func (p *property) round(round int) {
	p.t.Helper()
	desired := p.base
	if p.random.IntN(3) == 0 {
		desired = p.mutated(p.base, "spec", "data")
	}
	if _, err := p.Apply(p.context(), stepOf(desired, p.live(desired)), apply.Options{}); err != nil {
		p.refused++
		return
	}
	changed := "nothing"
	for range p.random.IntN(3) {
		changed = p.interfere()
	}
	// Without what the Applier remembers, and with it.
	by := p.Applier
	if p.random.IntN(2) == 0 {
		by = p.restarted()
	}
	wanted := desired
	if p.random.IntN(3) == 0 {
		wanted = p.mutated(desired, "spec", "data", "metadata")
	}
	is := p.live(desired)
	if is == nil {
		return
	}
	when := fmt.Sprintf("round %d, after %s", round, changed)
	if apply.CertainChange(desired, wanted, is) != nil {
		p.changes++
		p.confirmChange(when, desired, wanted)
	}
	for range 2 { // what was asked about may be known then
		requests := p.requests(func() {
			if _, err := by.Predict(p.context(), nil)(wanted, is); err != nil {
				p.refused++
			}
		})
		if len(requests) == 0 {
			p.certain++
			p.confirm(when, wanted, is)
			return
		}
		p.asked++
	}
}

// confirmChange makes the dry run that a certain change does without. One that is refused
// is no mistake: so is the apply.
func (p *property) confirmChange(when string, before, wanted *unstructured.Unstructured) {
	p.t.Helper()
	if after, now, err := p.compared(wanted); err == nil && equality.Semantic.DeepEqual(after.Object, now.Object) {
		p.t.Errorf("%s: a change was certain, and an apply changes nothing of\n%s\nbefore\n%s\nwanted\n%s", when,
			at(p.t, now, "spec"), at(p.t, before, "spec"), at(p.t, wanted, "spec"))
	}
}

// compared is an object after a dry run, and as it is now, without what others write.
func (p *property) compared(wanted *unstructured.Unstructured) (after, now *unstructured.Unstructured, err error) {
	p.t.Helper()
	after, err = p.dryRun(wanted)
	if err != nil {
		return nil, nil, err
	}
	now = p.live(wanted)
	for _, object := range []*unstructured.Unstructured{after, now} {
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}
		delete(object.Object, "status")
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "deployment.kubernetes.io/revision")
	}
	return after, now, nil
}

// confirm makes the dry run that was not made.
func (p *property) confirm(when string, wanted, is *unstructured.Unstructured) {
	p.t.Helper()
	after, now, err := p.compared(wanted)
	if err != nil {
		p.t.Errorf("%s: it was certain, and an apply fails: %v", when, err)
		return
	}
	if !equality.Semantic.DeepEqual(after.Object, now.Object) {
		p.t.Errorf("%s: it was certain, and an apply changes\n%s\nto\n%s\nwanted\n%s\nfields %v", when,
			at(p.t, now, "spec"), at(p.t, after, "spec"), at(p.t, wanted, "spec"), is.GetManagedFields())
	}
}

// dryRun asks the API server, as kubectl would.
func (p *property) dryRun(wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if wanted.GetKind() == "Secret" { // stringData is written as data
		return p.restarted().Apply(p.context(), stepOf(wanted, nil), apply.Options{DryRun: true})
	}
	sent := wanted.DeepCopy()
	unstructured.RemoveNestedField(sent.Object, "metadata", "creationTimestamp")
	return p.resource(sent).Apply(p.context(), sent.GetName(), sent, metav1.ApplyOptions{FieldManager: apply.Manager, Force: true, DryRun: []string{metav1.DryRunAll}})
}

// interfere changes the live object as another manager, by an update or an apply.
func (p *property) interfere() string {
	p.t.Helper()
	is := p.live(p.base)
	if is == nil {
		return "nothing"
	}
	changed := p.mutated(is, "spec", "data", "metadata")
	changed.SetName(is.GetName())
	var err error
	how := "an update"
	if p.random.IntN(3) == 0 {
		how = "an apply"
		changed.SetManagedFields(nil)
		changed.SetResourceVersion("")
		_, err = p.resource(is).Apply(p.context(), is.GetName(), changed, metav1.ApplyOptions{FieldManager: "robot", Force: true})
	} else {
		_, err = p.resource(is).Update(p.context(), changed, metav1.UpdateOptions{FieldManager: []string{"kubectl-edit", "robot", apply.Manager}[p.random.IntN(3)]})
	}
	if err != nil {
		if _, isAnswer := err.(apierrors.APIStatus); !isAnswer {
			p.t.Fatal(err)
		}
		p.refused++
		return "nothing"
	}
	return how
}

// mutated is an object with one or two things changed in some of its parts.
func (p *property) mutated(object *unstructured.Unstructured, parts ...string) *unstructured.Unstructured {
	changed := object.DeepCopy()
	for range 1 + p.random.IntN(2) {
		part := parts[p.random.IntN(len(parts))]
		if part == "metadata" {
			p.mutateMetadata(changed)
			continue
		}
		if content, has := changed.Object[part]; has {
			changed.Object[part] = p.mutate(content)
		}
	}
	return changed
}

func (p *property) mutateMetadata(object *unstructured.Unstructured) {
	field := []string{"labels", "annotations"}[p.random.IntN(2)]
	values, _, _ := unstructured.NestedMap(object.Object, "metadata", field)
	if values == nil {
		values = map[string]any{}
	}
	if p.random.IntN(2) == 0 {
		values["extra"] = fmt.Sprint(p.random.IntN(3))
	} else if keys := slices.Sorted(maps.Keys(values)); len(keys) > 0 {
		delete(values, keys[p.random.IntN(len(keys))])
	}
	_ = unstructured.SetNestedMap(object.Object, values, "metadata", field)
}

// mutate changes one place of a value: it goes down a random way, and adds,
// removes, changes or moves something there.
func (p *property) mutate(value any) any {
	switch value := value.(type) {
	case map[string]any:
		return p.mutateMap(value)
	case []any:
		return p.mutateList(value)
	case string:
		return []any{value + "x", "other", "250m", ""}[p.random.IntN(4)]
	case int64:
		return value + int64(p.random.IntN(3)) - 1
	case float64:
		return value * 2
	case bool:
		return !value
	}
	return value
}

func (p *property) mutateMap(value map[string]any) any {
	keys := slices.Sorted(maps.Keys(value))
	switch choice := p.random.IntN(8); {
	case len(keys) == 0 || choice == 0:
		value["extra"] = "added"
	case choice == 1:
		delete(value, keys[p.random.IntN(len(keys))])
	default:
		key := keys[p.random.IntN(len(keys))]
		value[key] = p.mutate(value[key])
	}
	return value
}

func (p *property) mutateList(value []any) any {
	if len(value) == 0 {
		return value
	}
	at := p.random.IntN(len(value))
	switch p.random.IntN(6) {
	case 0:
		return slices.Delete(slices.Clone(value), at, at+1)
	case 1:
		more := p.mutate(runtime.DeepCopyJSONValue(value[at]))
		return slices.Insert(slices.Clone(value), p.random.IntN(len(value)+1), more)
	case 2:
		other := p.random.IntN(len(value))
		value[at], value[other] = value[other], value[at]
	default:
		value[at] = p.mutate(value[at])
	}
	return value
}
