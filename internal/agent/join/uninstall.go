package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/platformv1"
)

func (m *Membership) uninstalledMessage() string {
	return fmt.Sprintf("the runtime was uninstalled: finish with helm uninstall; to join again delete the Secret %s/%s", m.options.Namespace, SecretName)
}

// uninstallNow cleans up and takes leave. A step that fails is tried again, also
// by the next process.
func (m *Membership) uninstallNow(ctx context.Context, cleanRepository bool, failures *pauses) (next time.Duration, goOn bool) {
	m.became(ctx, Uninstalling, "the platform has asked for the runtime to be uninstalled")
	if err := m.uninstall(ctx, cleanRepository); err != nil {
		if ctx.Err() != nil {
			return 0, false
		}
		m.options.Log.Error("the runtime is not uninstalled yet; it is tried again", observe.KeyError, err)
		return failures.next(), true
	}
	m.became(ctx, Uninstalled, m.uninstalledMessage())
	return 0, false
}

func (m *Membership) uninstall(ctx context.Context, cleanRepository bool) error {
	asked := *m.known()
	if asked.Uninstall != uninstallAsked {
		asked.Uninstall = uninstallAsked
		if err := m.store(ctx, &asked); err != nil {
			return err
		}
		m.adopt(&asked)
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
	if err != nil && !forgotten(connect.CodeOf(err)) {
		return fmt.Errorf("take leave of the platform: %w", err)
	}
	if err := m.finishUninstall(ctx, &asked); phaseOf(err) != Uninstalled {
		return err
	}
	return nil
}

// forgotten reports whether the platform does not know the runtime any more: it
// has heard the leave, and its answer was lost.
func forgotten(code connect.Code) bool {
	return code == connect.CodeUnauthenticated || code == connect.CodeNotFound || code == connect.CodePermissionDenied
}

// finishUninstall leaves a Secret that says that the runtime was uninstalled, and
// nothing that is secret. Without it the agent, which runs until helm ends it,
// would register again. Its error is that the runtime is uninstalled.
func (m *Membership) finishUninstall(ctx context.Context, from *credential) error {
	left := &credential{Platform: from.Platform, Runtime: from.Runtime, KeyPrint: from.KeyPrint, Uninstall: uninstallDone}
	if err := m.store(ctx, left); err != nil {
		return err
	}
	return problemf(Uninstalled, "%s", m.uninstalledMessage())
}

// releaseApplications takes the finalizers of the runtime's own Applications away:
// nobody would be left to act on them, and the user's objects stay.
func (m *Membership) releaseApplications(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	client := m.options.Cluster.Dynamic.Resource(v1alpha1.ApplicationResource()).Namespace(m.options.Namespace)
	found, err := client.List(ctx, metav1.ListOptions{LabelSelector: m.options.Internal})
	if apierrors.IsNotFound(err) {
		return nil // the kind is gone, and with it all of them
	}
	if err != nil {
		return fmt.Errorf("list the runtime's own Applications: %w", err)
	}
	var problems []error
	for i := range found.Items {
		if len(found.Items[i].GetFinalizers()) == 0 {
			continue
		}
		name := found.Items[i].GetName()
		_, err := client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			problems = append(problems, fmt.Errorf("take the finalizers of the Application %s away: %w", name, err))
		}
	}
	return errors.Join(problems...)
}
