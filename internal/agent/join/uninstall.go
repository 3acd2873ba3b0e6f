package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// uninstalledMessage explains the state of an uninstalled runtime.
func (m *Membership) uninstalledMessage() string {
	return fmt.Sprintf("the runtime was uninstalled: finish with helm uninstall; to join again delete the Secret %s/%s", m.options.Namespace, SecretName)
}

// uninstallNow cleans up and unregisters the runtime. A step that fails is
// retried, also by the next process.
func (m *Membership) uninstallNow(ctx context.Context, cleanRepository bool, failures *backoff.Retries) (next time.Duration, goOn bool) {
	m.setPhase(ctx, Uninstalling, "the platform requested that the runtime be uninstalled")
	if err := m.uninstall(ctx, cleanRepository); err != nil {
		if ctx.Err() != nil {
			return 0, false
		}
		m.options.Log.Error("cannot uninstall runtime; retrying", observe.KeyError, err)
		return failures.Next(), true
	}
	m.setPhase(ctx, Uninstalled, m.uninstalledMessage())
	return 0, false
}

// uninstall runs the steps in order: the Shared Configuration Repository needs
// the credential, which ends with the last step. The request is stored first,
// so that the next leader continues after a crash. Every step can be repeated.
func (m *Membership) uninstall(ctx context.Context, cleanRepository bool) error {
	current := *m.credential()
	if current.Uninstall != uninstallRequested {
		current.Uninstall = uninstallRequested
		if err := m.store(ctx, &current); err != nil {
			return err
		}
		m.adopt(&current)
	}
	if cleanRepository && m.options.CleanSharedRepository != nil {
		if err := m.options.CleanSharedRepository(ctx); err != nil {
			return fmt.Errorf("remove the runtime from the Shared Configuration Repository: %w", err)
		}
	}
	if err := m.releaseApplications(ctx); err != nil {
		return err
	}
	calling, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	_, err := m.agent.Unregister(calling, connect.NewRequest(&platformv1.UnregisterRequest{}))
	if err != nil && !isUnregistered(connect.CodeOf(err)) {
		return fmt.Errorf("take leave of the platform: %w", err)
	}
	if err := m.finishUninstall(ctx, &current); phaseOf(err) != Uninstalled {
		return err
	}
	return nil
}

// isUnregistered reports whether the platform has removed the runtime: it
// received the request, and its response was lost.
func isUnregistered(code connect.Code) bool {
	return code == connect.CodeUnauthenticated || code == connect.CodeNotFound || code == connect.CodePermissionDenied
}

// finishUninstall replaces the Secret by one that marks the runtime as
// uninstalled and contains no token. Without it the agent, which runs until
// Helm removes it, would register again. Its error is that the runtime is
// uninstalled.
func (m *Membership) finishUninstall(ctx context.Context, from *credential) error {
	left := &credential{Platform: from.Platform, Runtime: from.Runtime, KeyPrint: from.KeyPrint, Uninstall: uninstallDone}
	if err := m.store(ctx, left); err != nil {
		return err
	}
	return problemf(Uninstalled, "%s", m.uninstalledMessage())
}

// releaseAttempts is how often the Applications are listed: one of them may
// restore another from Git before it is changed itself.
const releaseAttempts = 3

// releaseApplications removes the finalizers of the runtime's own Applications:
// no agent would be left to act on them, and the user's objects stay. It also
// disables their automated sync: objects that Helm deletes next would be
// created again and have no owner.
func (m *Membership) releaseApplications(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	client := m.options.Cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(m.options.Namespace)
	for range releaseAttempts {
		found, err := client.List(ctx, metav1.ListOptions{LabelSelector: m.options.Internal})
		if apierrors.IsNotFound(err) {
			return nil // the kind is gone, and with it all of them
		}
		if err != nil {
			return fmt.Errorf("list the runtime's own Applications: %w", err)
		}
		var problems []error
		for i := range found.Items {
			problems = append(problems, release(ctx, client, &found.Items[i]))
		}
		if err := errors.Join(problems...); err != nil {
			return err
		}
	}
	return nil
}

// release removes the finalizers of one Application, if it has any.
func release(ctx context.Context, client dynamic.ResourceInterface, app *unstructured.Unstructured) error {
	_, automated, _ := unstructured.NestedFieldNoCopy(app.Object, "spec", "syncPolicy", "automated")
	if !automated && len(app.GetFinalizers()) == 0 {
		return nil
	}
	patch := `{"metadata":{"finalizers":null}}`
	if automated {
		patch = `{"metadata":{"finalizers":null},"spec":{"syncPolicy":{"automated":null}}}`
	}
	_, err := client.Patch(ctx, app.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("let the Application %s go: %w", app.GetName(), err)
	}
	return nil
}
