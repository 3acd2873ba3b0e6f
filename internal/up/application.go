package up

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitserver"
	"slipway.dev/slipway/internal/kube"
)

const (
	// maxProblem bounds what is quoted of an error in the Application's status.
	maxProblem     = 300
	releaseTimeout = 10 * time.Second
)

// demoApplication is the manifest of the demo's Application. It adopts objects
// that an older version of this program applied without Git.
func demoApplication(repository string) string {
	return fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: %[1]s
  finalizers: [resources-finalizer.argocd.argoproj.io/foreground]
spec:
  project: default
  source: {repoURL: %[2]q, targetRevision: %[3]s, path: deploy}
  destination: {server: https://kubernetes.default.svc, namespace: %[1]s}
  syncPolicy:
    automated: {prune: true, selfHeal: true}
    syncOptions: [CreateNamespace=true]
`, demoName, repository, gitserver.Branch)
}

// applications returns the client for Applications of the control namespace.
func applications(cluster *kube.Cluster) dynamic.ResourceInterface {
	return cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(controlNamespace)
}

// moveApplication updates the repository URL of the Application: with another
// --port-offset the port is another. An Application that the user has pointed
// to a repository of their own is left alone. It reports whether the
// Application is gone.
func moveApplication(ctx context.Context, cluster *kube.Cluster, repository string) (gone bool, err error) {
	found, err := applications(cluster).Get(ctx, demoName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the Application of the demo: %w", err)
	}
	at, _, _ := unstructured.NestedString(found.Object, "spec", "source", "repoURL")
	if at == repository || !isSample(at) {
		return false, nil
	}
	// Only the URL is changed: the rest of the spec may be the user's.
	patch := fmt.Sprintf(`{"spec":{"source":{"repoURL":%q}}}`, repository)
	_, err = applications(cluster).Patch(ctx, demoName, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: upOwner})
	if err != nil {
		return false, fmt.Errorf("set the repository of the demo's Application: %w", err)
	}
	return false, nil
}

// isSample reports whether an address is that of the sample repository, at any
// port.
func isSample(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && parsed.Scheme == "http" && parsed.Hostname() == "127.0.0.1" && parsed.Path == "/"+demoRepository
}

// awaitApplication waits until the Application is Synced and Healthy.
func (d *demoStatus) awaitApplication(ctx context.Context, cluster *kube.Cluster, report func(string)) error {
	_, err := kube.WaitFor(ctx, applications(cluster), kube.Named(demoName), func(found []*unstructured.Unstructured) error {
		err := d.observeApplication(found)
		if err != nil {
			report(err.Error())
		}
		return err
	})
	if err != nil {
		// The Pods often have the reason that the health of the Application
		// lacks.
		if problem := podProblem(ctx, cluster); problem != "" {
			report(d.application + ", " + problem)
		}
	}
	return err
}

// observeApplication returns what is missing until the Application is Synced
// and Healthy.
func (d *demoStatus) observeApplication(found []*unstructured.Unstructured) error {
	if len(found) == 0 {
		return errors.New("there is no Application")
	}
	var status v1alpha1.ApplicationStatus
	content, _ := found[0].Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status); err != nil {
		return fmt.Errorf("the status of the Application cannot be read: %w", err)
	}
	// The agent has not reconciled the Application yet.
	if status.Sync.Status == "" {
		d.application = "not looked at yet"
		return errors.New("waiting for the agent to look at the Application")
	}
	d.application = string(status.Sync.Status) + " and " + string(status.Health.Status)
	if status.Sync.Status == v1alpha1.SyncSynced && status.Health.Status == v1alpha1.Healthy {
		return nil
	}
	if problem := applicationProblem(status); problem != "" {
		return fmt.Errorf("the Application is %s: %s", d.application, problem)
	}
	return fmt.Errorf("the Application is %s", d.application)
}

// applicationProblem returns the first error in the status. Conditions come
// first: after a failed comparison the resources are out of date.
func applicationProblem(status v1alpha1.ApplicationStatus) string {
	for _, condition := range status.Conditions {
		if strings.HasSuffix(condition.Type, "Error") {
			return brief(condition.Message)
		}
	}
	for i := range status.Resources {
		if one := &status.Resources[i]; one.Health != nil && one.Health.Status != v1alpha1.Healthy && one.Health.Message != "" {
			return one.Kind + " " + one.Name + ": " + brief(one.Health.Message)
		}
	}
	return brief(status.Health.Message)
}

// brief shortens a text to one line of bounded length.
func brief(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxProblem {
		// The cut may split a character.
		return strings.ToValidUTF8(text[:maxProblem], "") + "…"
	}
	return text
}

// ownedByUp reports whether an older version of this program has applied an
// object of the demo itself.
func ownedByUp(object metav1.Object) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == upOwner && entry.Operation == metav1.ManagedFieldsOperationApply
	})
}

// releaseDemo gives up the fields that an older version has applied, so that
// what is removed from Git is removed from the cluster. The agent owns them by
// now. The Deployment comes last: as long as it is ours, the next start repeats
// this.
func releaseDemo(ctx context.Context, cluster *kube.Cluster) error {
	// Applying an object without fields gives up every field of the manager.
	const held = `apiVersion: v1
kind: Service
metadata: {name: demo}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: demo}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: demo}
`
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if _, err := cluster.Apply(ctx, kube.Target{Namespace: demoName, Manager: upOwner}, held); err != nil {
		return fmt.Errorf("leave the demo to the agent: %w", err)
	}
	return nil
}
