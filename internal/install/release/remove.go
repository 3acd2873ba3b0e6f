package release

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	helmrelease "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/backoff"
)

const (
	// goneEvery is the poll interval for objects that are being deleted.
	goneEvery = 500 * time.Millisecond
	// leasePrefix starts the names of a runtime's Leases.
	leasePrefix = "slipway-"
)

// Removed describes a removed release.
type Removed struct {
	// Found is set when there was a release.
	Found bool
	// Definitions are the names of the chart's CustomResourceDefinitions, which stay.
	Definitions []string
}

// Objects returns what an uninstall would delete; nothing is changed.
func (c *Client) Objects(ctx context.Context) ([]ID, error) {
	all, err := c.history(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	objects, err := objectsOf(newest(all).Manifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of the release %s: %w", c.place, err)
	}
	var ids []ID
	for _, object := range objects {
		id, err := c.identify(object)
		if err != nil {
			continue // the kind is gone, and with it the object
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Remove uninstalls the release and waits until its objects are gone, including
// Pods. Objects that hooks have left, and the Secrets beside the release, are
// deleted with it. It goes on after an error and returns all of them.
func (c *Client) Remove(ctx context.Context, timeout time.Duration) (Removed, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errLate)
	defer cancel()
	all, err := c.history(ctx)
	if err != nil {
		return Removed{}, err
	}
	removed := Removed{Found: len(all) > 0}
	var problems []error
	if len(all) > 0 {
		last := newest(all)
		// The record of the release has the chart, so its definitions need no
		// other source.
		if last.Chart != nil {
			if chart, err := newChart(last.Chart); err == nil {
				for _, crd := range chart.crds {
					removed.Definitions = append(removed.Definitions, crd.GetName())
				}
			}
		}
		problems = append(problems, c.uninstall(ctx, last, timeout))
		// Failed hooks of earlier revisions may still be there.
		for _, one := range all {
			problems = append(problems, c.deleteHooks(ctx, one.Hooks))
		}
	}
	problems = append(problems, c.deleteSecrets(ctx, removed.Found))
	// Without a release the Leases are those of another one.
	if removed.Found {
		problems = append(problems, c.deleteLeases(ctx))
	}
	return removed, errors.Join(problems...)
}

// uninstall lets Helm delete, and waits until everything is gone. Helm's own
// wait can end while Pods of a Deployment still terminate.
func (c *Client) uninstall(ctx context.Context, last *helmrelease.Release, timeout time.Duration) error {
	objects, err := objectsOf(last.Manifest)
	if err != nil {
		return fmt.Errorf("read the manifest of the release %s: %w", c.place, err)
	}
	// Foreground deletion keeps an owner until its dependents are gone: a
	// Deployment that is gone has no Pods left.
	uninstall := action.NewUninstall(c.config)
	uninstall.Timeout, uninstall.DeletionPropagation = timeout, "foreground"
	uninstall.WaitStrategy, uninstall.WaitOptions = helmkube.HookOnlyStrategy, []helmkube.WaitOption{helmkube.WithWaitContext(ctx)}
	if _, err = uninstall.Run(c.place.Release); err != nil {
		return fmt.Errorf("uninstall the release %s: %w", c.place, shortError(err))
	}
	return c.awaitDeletion(ctx, objects)
}

// awaitDeletion waits until objects are gone, and reports which are left.
func (c *Client) awaitDeletion(ctx context.Context, objects []*unstructured.Unstructured) error {
	lastProblem, started := "", time.Now()
	for {
		var there []string
		for _, object := range objects {
			if text := c.lingering(ctx, object); text != "" {
				there = append(there, text)
			}
		}
		text := cutLine(strings.Join(there, ", "))
		// The end of ctx fails every read, which must not look like an empty
		// list.
		switch {
		case text == "" && ctx.Err() == nil:
			return nil
		case text != "" && text != lastProblem && time.Since(started) > lookEvery:
			// Most objects go within the first interval and need no line.
			lastProblem = text
			c.report("waits until these are gone: " + text)
		}
		if backoff.Sleep(ctx, goneEvery) != nil {
			return fmt.Errorf("these do not go: %s: look at their finalizers and at what they wait for", lastProblem)
		}
	}
}

// lingering describes an object that is still there.
func (c *Client) lingering(ctx context.Context, object *unstructured.Unstructured) string {
	id, err := c.identify(object)
	if err != nil {
		return ""
	}
	resource, err := c.resourceOf(object)
	if err != nil {
		return ""
	}
	found, err := c.cluster.Metadata.Resource(resource).Namespace(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
	// An object that is not being deleted is kept by Helm's policy, or was
	// created again by others. It is not waited for.
	if err != nil || found.DeletionTimestamp == nil {
		return ""
	}
	if len(found.Finalizers) > 0 {
		return fmt.Sprintf("%s (%s)", id, strings.Join(found.Finalizers, ", "))
	}
	return id.String()
}

// deleteHooks deletes what hooks have left: Helm keeps a failed hook, and the
// values in it.
func (c *Client) deleteHooks(ctx context.Context, hooks []*helmrelease.Hook) error {
	var problems []error
	// Deleting a Job in the background deletes its Pods too.
	background := metav1.DeletePropagationBackground
	for _, hook := range hooks {
		objects, err := objectsOf(hook.Manifest)
		// Helm could not have applied a manifest that is not decoded.
		if err != nil {
			continue
		}
		for _, object := range objects {
			id, err := c.identify(object)
			if err != nil {
				continue
			}
			resource, err := c.resourceOf(object)
			if err != nil {
				continue
			}
			err = c.cluster.Dynamic.Resource(resource).Namespace(id.Namespace).Delete(ctx, id.Name, metav1.DeleteOptions{PropagationPolicy: &background})
			if err != nil && !apierrors.IsNotFound(err) {
				problems = append(problems, fmt.Errorf("delete %s: %w", id, err))
			}
		}
	}
	return errors.Join(problems...)
}

// ownSecrets are those that a runtime creates for itself: its credential, and
// the secret of agent and edge. The first would keep another runtime from
// joining.
func ownSecrets() []string { return []string{"slipway-token", "slipway-edge-traffic"} }

// deleteSecrets deletes the Secrets beside the release, and with own those of
// its runtime. Without a release the latter belong to another one.
func (c *Client) deleteSecrets(ctx context.Context, own bool) error {
	client := c.cluster.Client.CoreV1().Secrets(c.place.Namespace)
	found, err := client.List(ctx, metav1.ListOptions{LabelSelector: helmLabel + "=" + ownManager + "," + releaseLabel + "=" + c.place.Release})
	if err != nil {
		return fmt.Errorf("list the Secrets of the release %s: %w", c.place, err)
	}
	var names []string
	if own {
		names = ownSecrets()
	}
	for i := range found.Items {
		names = append(names, found.Items[i].Name)
	}
	var problems []error
	for _, name := range names {
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			problems = append(problems, fmt.Errorf("delete the Secret %s/%s: %w", c.place.Namespace, name, err))
		}
	}
	return errors.Join(problems...)
}

// deleteLeases deletes the Leases of leader election: the agent of a new
// installation could have to wait until they expire.
func (c *Client) deleteLeases(ctx context.Context) error {
	client := c.cluster.Client.CoordinationV1().Leases(c.place.Namespace)
	found, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return ignoreForbidden(err)
	}
	var problems []error
	for i := range found.Items {
		name := found.Items[i].Name
		if !strings.HasPrefix(name, leasePrefix) {
			continue
		}
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			problems = append(problems, fmt.Errorf("delete the Lease %s/%s: %w", c.place.Namespace, name, err))
		}
	}
	return errors.Join(problems...)
}
