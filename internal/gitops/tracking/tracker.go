package tracking

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// Annotation is Argo CD's, and names the Application that owns an object.
	Annotation = "argocd.argoproj.io/tracking-id"
	// Label is ours, and is what watches are filtered by.
	Label = "slipway.dev/app"
)

// App is the identity of an Application.
type App struct {
	Namespace string
	Name      string
}

// String is the Application for people.
func (a App) String() string { return a.Namespace + "/" + a.Name }

// ParseApp parses NAME or NAMESPACE/NAME. Home is the namespace of a bare name,
// and may be empty; a written namespace may not.
func ParseApp(home, text string) (App, error) {
	app := App{Namespace: home, Name: text}
	namespace, name, qualified := strings.Cut(text, "/")
	if qualified {
		app = App{Namespace: namespace, Name: name}
	}
	if qualified && app.Namespace == "" || app.Name == "" || strings.Contains(app.Name, "/") {
		return app, fmt.Errorf("%q is no name of an Application: write NAME, or NAMESPACE/NAME", text)
	}
	return app, nil
}

// Label is the value of the label that the objects of the Application have: a
// hash, because both names together are longer than a label may be. Neither name
// can have a slash, so no two Applications hash the same text.
func (a App) Label() string {
	sum := sha256.Sum256([]byte(a.Namespace + "/" + a.Name))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// Tracker writes and reads the marks of ownership.
type Tracker struct {
	// ControlNamespace is the namespace whose Applications are known by their
	// name alone. It is where Argo CD would be installed: argocd.
	ControlNamespace string
}

// Instance is the Application as the annotation spells it.
func (t Tracker) Instance(app App) string {
	if app.Namespace == t.ControlNamespace {
		return app.Name
	}
	return app.Namespace + "_" + app.Name
}

// App is the Application that an annotation spells. No Kubernetes name has an
// underscore.
func (t Tracker) App(instance string) App {
	if namespace, name, ok := strings.Cut(instance, "_"); ok {
		return App{Namespace: namespace, Name: name}
	}
	return App{Namespace: t.ControlNamespace, Name: instance}
}

// Stamp marks an object as one of the Application, replacing the marks it had
// before. The object must have its namespace already.
func (t Tracker) Stamp(object *unstructured.Unstructured, app App) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[Annotation] = ID{Instance: t.Instance(app), Key: KeyOf(object)}.String()
	object.SetAnnotations(annotations)

	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[Label] = app.Label()
	object.SetLabels(labels)
}

// OwnerOf is the Application that owns an object, by its annotation.
func (t Tracker) OwnerOf(object *unstructured.Unstructured) (App, bool) {
	text, ok := object.GetAnnotations()[Annotation]
	if !ok {
		return App{}, false
	}
	id, err := ParseID(text)
	if err != nil || !id.Names(KeyOf(object)) {
		return App{}, false
	}
	return t.App(id.Instance), true
}

// Stamped reports whether an object has both marks of the Application: that is
// what we wrote, and what we may prune.
func (t Tracker) Stamped(object *unstructured.Unstructured, app App) bool {
	owner, ok := t.OwnerOf(object)
	return ok && owner == app && object.GetLabels()[Label] == app.Label()
}
