package tenancy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// attempt is one row of a table. NAME in its texts stands for its name, which is
// also that of the object that is applied and whose reason is awaited.
type attempt struct {
	name string
	// git is committed to the folder NAME of evil's repository: one file, or an
	// archive of several.
	git string
	// applies is the object that evil applies. Without it it is an Application of
	// the folder, in namespace evil and project evil. One that is in the control
	// namespace is applied by the administrator, who gave evil the folder.
	applies string
	// then is a merge patch of the object when the agent has seen it, and thenStatus one
	// of its status. With deletes it is deleted after that. With once it has to be
	// Synced before.
	then, thenStatus string
	deletes, once    bool
	// prepares is what the administrator or bank applies before.
	prepares string
	// reason is what is read on the object, or on another one that readOn names as
	// "Application bank/site"; with apiServer in front the API server refuses it.
	reason, readOn string
	// proof returns the effect; nil if there is none.
	proof proof
}

// apiServer is the reason of what the API server itself refuses.
const apiServer = "API server: "

// proof looks for the effect of an attempt. An error describes it.
type proof func(w *world) error

// none has no effect to look for beside its reason.
func none(*world) error { return nil }

// fill puts the name of the attempt into its texts.
func (a attempt) fill() attempt {
	if a.applies == "" {
		a.applies = app{}.yaml()
	}
	for _, text := range []*string{&a.git, &a.applies, &a.then, &a.thenStatus, &a.prepares} {
		*text = strings.ReplaceAll(*text, "NAME", a.name)
	}
	return a
}

// object is what is applied.
func (a *attempt) object() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(a.applies), &object.Object); err != nil {
		panic(a.name + ": " + err.Error())
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(evil)
	}
	return object
}

// key names what is applied, as "Application evil/NAME".
func (a *attempt) key() string { return keyOf(a.object()) }

// keyOf names an object.
func keyOf(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// apply applies the object of an attempt. It does not wait for what becomes of
// it.
func (w *world) apply(t *testing.T, a *attempt) {
	t.Helper()
	err := w.as(a.object()).apply(t, a.applies)
	want, refuses := strings.CutPrefix(a.reason, apiServer)
	switch {
	case refuses && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: the API server does not refuse it with %q: %v", a.name, want, err)
	case !refuses && err != nil:
		t.Fatalf("%s: %v", a.name, err)
	}
}

// followUp makes the second part of an attempt, when the agent has seen the
// first.
func (w *world) followUp(t *testing.T, a *attempt) {
	t.Helper()
	if a.then == "" && a.thenStatus == "" && !a.deletes {
		return
	}
	object := a.object()
	resource := w.as(object).resource(object)
	w.eventually(t, a.name+" is seen", func(ctx context.Context) error {
		found, err := resource.Get(ctx, a.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status, _, _ := unstructured.NestedString(found.Object, "status", "sync", "status")
		if status == "" || a.once && status != "Synced" {
			return fmt.Errorf("it is %q", status)
		}
		return nil
	})
	for _, patch := range []string{a.then, strings.NewReplacer("NOW", now(0), "BEFORE", now(-2*time.Hour)).Replace(a.thenStatus)} {
		if patch != "" {
			kubetest.Patch(t, resource, a.name, patch)
		}
	}
	if a.deletes {
		if err := resource.Delete(t.Context(), a.name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("%s: %v", a.name, err)
		}
	}
}

// lookAgain is the pause between two looks at everything.
const lookAgain = 250 * time.Millisecond

// awaitReasons waits until tenants and the administrator see why attempts are
// refused. It returns what is missing by the name of the attempt.
func (w *world) awaitReasons(t *testing.T, tried []attempt) map[string]error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programs.Timeout)
	defer cancel()
	missing := map[string]error{}
	_ = w.agent.Await(ctx, lookAgain, func(ctx context.Context) error { // what is missing at last is returned
		seen, err := w.look(ctx)
		if err != nil {
			return err
		}
		clear(missing)
		for _, a := range tried {
			if err := w.missingReason(&a, seen); err != nil {
				missing[a.name] = err
			}
		}
		if len(missing) > 0 {
			return errors.New("some are missing")
		}
		return nil
	})
	return missing
}

// missingReason returns what is missing until the reason of an attempt is seen.
func (w *world) missingReason(a *attempt, seen *view) error {
	if strings.HasPrefix(a.reason, apiServer) {
		return nil
	}
	has := func(text string) bool { return strings.Contains(text, a.reason) }
	object := a.readOn
	if object == "" {
		object = a.key()
	}
	_, name, _ := strings.Cut(object, "/")
	switch {
	case !slices.ContainsFunc(seen.texts[object], has):
		return fmt.Errorf("the tenant does not read %q on %s:\n%s", a.reason, object, strings.Join(seen.texts[object], "\n"))
	case strings.HasPrefix(object, "Ingress ") && slices.ContainsFunc(seen.refusals[object], has), seen.logged(name, a.reason):
		return nil
	case slices.ContainsFunc(gatewayKinds, func(kind string) bool { return strings.HasPrefix(object, kind+" ") }):
		return nil // the administrator reads the same conditions
	}
	return fmt.Errorf("the administrator does not read %q on %s", a.reason, object)
}

// user is a connection with the rights of its user.
type user struct{ *kube.Cluster }

// apply applies objects. The error is that of the API server.
func (u user) apply(t *testing.T, manifest string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programs.Timeout)
	defer cancel()
	_, err := u.Apply(ctx, kube.Target{Namespace: evil, Manager: "user"}, manifest)
	return err
}

// must applies objects that are no attempt.
func (u user) must(t *testing.T, manifest string) {
	t.Helper()
	must.Do(t, u.apply(t, manifest))
}
