package project

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	object, err := client.Resource(v1alpha1.ProjectResource()).Namespace(control).Get(ctx, name, metav1.GetOptions{})
	compiled := Default()
	switch {
	case apierrors.IsNotFound(err) && name == v1alpha1.DefaultProject:
	case err != nil:
		return nil, fmt.Errorf("read the AppProject %s: %w", name, err)
	default:
		given, refused, err := v1alpha1.DecodeProject(object.Object)
		if err != nil {
			return nil, fmt.Errorf("read the AppProject %s: %w", name, err)
		}
		var more []refusal.Refusal
		compiled, more = Compile(given)
		if refused = append(refused, more...); len(refused) > 0 {
			return nil, refusal.New("spec.project", refusal.NotAllowed, "the AppProject %s: %s", name, refusal.Summary(refused))
		}
	}
	if app.Namespace != control && !compiled.AllowsNamespace(app.Namespace) {
		return nil, refusal.New("spec.project", refusal.NotAllowed, "project %s does not allow Applications in the namespace %s", name, app.Namespace)
	}
	return compiled, nil
}
