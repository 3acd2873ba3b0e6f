package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

const (
	// RequestTimeout bounds the requests before a wait or a stream.
	RequestTimeout = time.Minute
	// listPage is the page size of lists.
	listPage = 500
	// patchTries bounds the retries of a change after conflicts.
	patchTries = 10
)

// Inspector reads the Applications of a cluster. It is safe for concurrent use.
type Inspector struct {
	*kube.Cluster
	// Manager is the field manager of its changes.
	Manager string
	// Health has the rules of the cluster; nil has the built-in ones only.
	Health *health.Rules
}

// AccessError is an error of the API server for a request about Applications.
// Callers explain it by verb and namespace, as most are missing rights.
type AccessError struct {
	// Verb is the verb of the request: get, list, patch, delete.
	Verb string
	// Namespace is that of the request; empty is all.
	Namespace string
	Err       error
}

// Error names the request.
func (e *AccessError) Error() string {
	if e.Namespace == metav1.NamespaceAll {
		return fmt.Sprintf("%s Applications in all namespaces: %v", e.Verb, e.Err)
	}
	return fmt.Sprintf("%s Applications in the namespace %s: %v", e.Verb, e.Namespace, e.Err)
}

// Unwrap returns the error of the API server.
func (e *AccessError) Unwrap() error { return e.Err }

// Application is an Application as it was read.
type Application struct {
	*v1alpha1.Application
	// Object is the whole object.
	Object *unstructured.Unstructured
	// Refused are the fields that are not supported.
	Refused []refusal.Refusal
}

// ID returns the identity of the Application.
func (a *Application) ID() tracking.App {
	return tracking.App{Namespace: a.Namespace, Name: a.Name}
}

// Decode decodes an Application.
func Decode(object *unstructured.Unstructured) (*Application, error) {
	app, refused, err := v1alpha1.Decode(object.Object)
	if err != nil {
		return nil, fmt.Errorf("read the Application %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return &Application{Application: app, Object: object, Refused: refused}, nil
}

// Applications is the client for a namespace, or for all.
func (i *Inspector) Applications(namespace string) dynamic.ResourceInterface {
	return i.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(namespace)
}

// Get returns an Application. An error of the API server is an *[AccessError].
func (i *Inspector) Get(ctx context.Context, place tracking.App) (*Application, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	object, err := i.Applications(place.Namespace).Get(ctx, place.Name, metav1.GetOptions{})
	if err != nil {
		return nil, &AccessError{Verb: "get", Namespace: place.Namespace, Err: err}
	}
	return Decode(object)
}

// List returns the Applications of a namespace, or of all, by name. An object
// that cannot be decoded fails the list: it would otherwise be missing without
// a trace.
func (i *Inspector) List(ctx context.Context, namespace, selector string) ([]*Application, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	var apps []*Application
	options := metav1.ListOptions{LabelSelector: selector, Limit: listPage}
	for {
		page, err := i.Applications(namespace).List(ctx, options)
		if err != nil {
			return nil, &AccessError{Verb: "list", Namespace: namespace, Err: err}
		}
		for n := range page.Items {
			app, err := Decode(&page.Items[n])
			if err != nil {
				return nil, err
			}
			apps = append(apps, app)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	Sort(apps)
	return apps, nil
}

// Sort orders Applications by namespace and name.
func Sort(apps []*Application) {
	slices.SortFunc(apps, func(a, b *Application) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
}

// Follow watches an Application until done returns an empty text or an error.
// The text is what is missing, for the error of a timeout.
func (i *Inspector) Follow(ctx context.Context, place tracking.App, done func(*Application) (missing string, err error)) (*Application, error) {
	var last *Application
	var failed error
	// The condition also ends the wait on failures, which are kept in failed.
	_, err := kube.WaitFor(ctx, i.Applications(place.Namespace), kube.Named(place.Name), func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			failed = Gone(place)
			return nil
		}
		last, failed = Decode(found[0])
		if failed != nil {
			return nil
		}
		var missing string
		if missing, failed = done(last); failed != nil || missing == "" {
			return nil
		}
		return errors.New(missing)
	})
	if err == nil {
		err = failed
	}
	return last, err
}

// Gone is the error for an Application that was deleted during a wait.
func Gone(place tracking.App) error { return fmt.Errorf("the Application %s is gone", place) }

// Change patches an Application as it was read. After a conflict it is read
// again, and patch decides again. After patchTries conflicts the last one is
// returned: a controller that writes that often needs attention.
func (i *Inspector) Change(ctx context.Context, app *Application, patch func(*Application) (map[string]any, error)) (*Application, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	applications := i.Applications(app.Namespace)
	for try := 1; ; try++ {
		content, err := patch(app)
		if err != nil {
			return nil, err
		}
		metadata, _ := content["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
			content["metadata"] = metadata
		}
		// The version makes the patch conditional: patch decided on this state.
		metadata["resourceVersion"] = app.ResourceVersion
		body, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		subresources, err := i.subresourcesOf(ctx, content)
		if err != nil {
			return nil, err
		}
		changed, err := applications.Patch(ctx, app.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: i.Manager}, subresources...)
		if err == nil {
			return Decode(changed)
		}
		if !apierrors.IsConflict(err) || try == patchTries {
			return nil, &AccessError{Verb: "patch", Namespace: app.Namespace, Err: err}
		}
		if app, err = i.Get(ctx, app.ID()); err != nil {
			return nil, err
		}
	}
}

// subresourcesOf returns the subresource that a patch is for: the status is one in
// our definition of Applications, and not in Argo CD's.
func (i *Inspector) subresourcesOf(ctx context.Context, patch map[string]any) ([]string, error) {
	if patch["status"] == nil {
		return nil, nil
	}
	serves, err := i.Serves(ctx, v1alpha1.APIVersion, "applications/status")
	if err != nil || !serves {
		return nil, err
	}
	return []string{"status"}, nil
}
