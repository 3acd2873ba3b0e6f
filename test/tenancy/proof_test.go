package tenancy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/programs"
)

// kinds are the resources that proofs name by their kind.
func kinds() map[string]schema.GroupVersionResource {
	const argo, rbac = "argoproj.io", "rbac.authorization.k8s.io"
	return map[string]schema.GroupVersionResource{
		"ConfigMap":                {Version: "v1", Resource: "configmaps"},
		"Secret":                   {Version: "v1", Resource: "secrets"},
		"ServiceAccount":           {Version: "v1", Resource: "serviceaccounts"},
		"Namespace":                {Version: "v1", Resource: "namespaces"},
		"Deployment":               {Group: "apps", Version: "v1", Resource: "deployments"},
		"RoleBinding":              {Group: rbac, Version: "v1", Resource: "rolebindings"},
		"ClusterRole":              {Group: rbac, Version: "v1", Resource: "clusterroles"},
		"Application":              {Group: argo, Version: "v1alpha1", Resource: "applications"},
		"ApplicationSet":           {Group: argo, Version: "v1alpha1", Resource: "applicationsets"},
		"AppProject":               {Group: argo, Version: "v1alpha1", Resource: "appprojects"},
		"Gateway":                  {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"},
		"HTTPRoute":                {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
		"TLSRoute":                 {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "tlsroutes"},
		"TCPRoute":                 {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "tcproutes"},
		"ListenerSet":              {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "listenersets"},
		"GRPCRoute":                {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "grpcroutes"},
		"UDPRoute":                 {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "udproutes"},
		"BackendTLSPolicy":         {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "backendtlspolicies"},
		"CustomResourceDefinition": {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	}
}

// get reads an object by its kind, namespace and name, as "ConfigMap bank/site";
// nil if there is none.
func (w *world) get(object string) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(context.Background(), programs.Timeout)
	defer cancel()
	kind, name, _ := strings.Cut(object, " ")
	resource, known := kinds()[kind]
	if !known {
		return nil, fmt.Errorf("%s is no kind that proofs know", kind)
	}
	namespace, rest, hasNamespace := strings.Cut(name, "/")
	if name = rest; !hasNamespace {
		namespace, name = "", namespace
	}
	found, err := w.admin.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// absent: an object was not made.
func absent(object string) proof {
	return func(w *world) error {
		found, err := w.get(object)
		if err == nil && found != nil {
			err = errors.New(object + " was made")
		}
		return err
	}
}

// present: an object is there.
func present(object string) proof {
	return func(w *world) error {
		found, err := w.get(object)
		if err == nil && (found == nil || found.GetDeletionTimestamp() != nil) {
			err = errors.New(object + " is gone")
		}
		return err
	}
}

// intact: an object is as it was before all attempts.
func intact(object string) proof {
	return func(w *world) error {
		found, err := w.get(object)
		if err != nil {
			return err
		}
		if now := content(found); now != w.before[object] {
			return fmt.Errorf("%s was\n%s\nand is\n%s", object, w.before[object], now)
		}
		return nil
	}
}

// content is an object without what the API server and controllers write.
func content(of *unstructured.Unstructured) string {
	if of == nil {
		return "gone"
	}
	of = of.DeepCopy()
	delete(of.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(of.Object, "metadata", field)
	}
	text, err := json.Marshal(of.Object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// remember keeps objects for intact.
func (w *world) remember(t *testing.T, objects ...string) {
	t.Helper()
	for _, object := range objects {
		found, err := w.get(object)
		if err != nil || found == nil {
			t.Fatalf("%s: %v", object, err)
		}
		w.before[object] = content(found)
	}
}

// all is several proofs.
func all(proofs ...proof) proof {
	return func(w *world) error {
		for _, one := range proofs {
			if err := one(w); err != nil {
				return err
			}
		}
		return nil
	}
}

// served: no request for these hosts and paths reaches evil, nor is it broken.
func served(targets ...string) proof {
	return func(w *world) error {
		for _, target := range targets {
			if got, err := w.ask(target); err != nil || got == evil || got == "503" {
				return fmt.Errorf("%s is served by %s: %w", target, got, err)
			}
		}
		return nil
	}
}

// synced: bank's Application is as it should be.
func synced(w *world) error {
	found, err := w.get("Application bank/site")
	if err != nil {
		return err
	}
	if status, _, _ := unstructured.NestedString(found.Object, "status", "sync", "status"); status != "Synced" {
		return fmt.Errorf("the Application of bank is %s", status)
	}
	return nil
}

// uncalled: no plugin was called.
func uncalled(w *world) error {
	if calls := w.plugin.Generated.Load() + w.plugin.Matched.Load(); calls > 0 {
		return fmt.Errorf("the plugin was called %d times", calls)
	}
	return nil
}
