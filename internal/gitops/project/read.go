package project

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
)

// Read returns the project of an Application, which has to allow it, from the control
// namespace. Controllers that write to Git call it for every run, so that a right that
// is withdrawn takes effect at once. A project that cannot be used is a
// *[refusal.Refusal].
func Read(ctx context.Context, client dynamic.Interface, control string, app *v1alpha1.Application) (*Project, error) {
	name := app.Spec.ProjectName()
	compiled, refused, err := Load(ctx, client, control, name)
	if err != nil {
		return nil, err
	}
	if len(refused) > 0 {
		return nil, refusal.New("spec.project", refusal.NotAllowed, "the AppProject %s: %s", name, refusal.Summary(refused))
	}
	if app.Namespace != control && !compiled.AllowsNamespace(app.Namespace) {
		return nil, refusal.New("spec.project", refusal.NotAllowed, "project %s does not allow Applications in the namespace %s", name, app.Namespace)
	}
	return compiled, nil
}

// Load returns a project with its global projects from the control namespace, and what is
// refused of them. The project default exists even if it was not created, as in Argo CD.
func Load(ctx context.Context, client dynamic.Interface, control, name string) (*Project, []refusal.Refusal, error) {
	globals, err := LoadGlobals(ctx, client, control)
	if err != nil {
		return nil, nil, err
	}
	given, err := loadDecoded(ctx, client, control, name)
	if apierrors.IsNotFound(err) && name == v1alpha1.DefaultProject {
		given, err = &Decoded{AppProject: DefaultObject(control)}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	found := map[string]*Decoded{}
	for _, global := range globals.Of(given.AppProject) {
		if found[global], err = loadDecoded(ctx, client, control, global); err != nil && !apierrors.IsNotFound(err) {
			return nil, nil, err
		}
	}
	compiled, refused := globals.Compile(*given, func(global string) *Decoded { return found[global] })
	return compiled, refused, nil
}

// LoadGlobals returns the setting of global projects from the control namespace. It lists, as the
// roles of the runtime have no get on ConfigMaps.
func LoadGlobals(ctx context.Context, client dynamic.Interface, control string) (*Globals, error) {
	configMaps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(control)
	found, err := configMaps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + globalsConfigMap})
	if err != nil {
		return nil, fmt.Errorf("read the ConfigMap %s/%s: %w", control, globalsConfigMap, err)
	}
	text := ""
	for _, one := range found.Items {
		text, _, _ = unstructured.NestedString(one.Object, "data", GlobalsKey)
	}
	return ReadGlobals(text), nil
}

// loadDecoded returns an AppProject of the control namespace.
func loadDecoded(ctx context.Context, client dynamic.Interface, control, name string) (*Decoded, error) {
	object, err := client.Resource(v1alpha1.ProjectResource()).Namespace(control).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the AppProject %s: %w", name, err)
	}
	given, refused, err := v1alpha1.DecodeProject(object.Object)
	if err != nil {
		return nil, fmt.Errorf("read the AppProject %s: %w", name, err)
	}
	return &Decoded{AppProject: given, Refused: refused}, nil
}
