package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/backoff"
)

const (
	// ownManager marks what is created beside a release.
	ownManager = "slipway"
	// releaseLabel names the release that it belongs to.
	releaseLabel = "slipway.dev/release"
	// namespaceTime is how long a namespace is waited for that is being
	// deleted.
	namespaceTime = time.Minute
)

// prepared is what was created before the release, for an undo.
type prepared struct {
	secrets   []string
	namespace bool
}

// planSecret plans a Secret, and refuses one that another tool created.
func (c *Client) planSecret(ctx context.Context, wanted Secret, newNamespace bool) (Change, error) {
	change := Change{Action: Create, ID: ID{Kind: "Secret", Namespace: c.place.Namespace, Name: wanted.Name}}
	// A namespace that does not exist has no Secrets.
	if newNamespace {
		return change, nil
	}
	found, err := c.cluster.Client.CoreV1().Secrets(c.place.Namespace).Get(ctx, wanted.Name, metav1.GetOptions{})
	// A Secret of another tool is accepted if it has the same data: nothing is
	// overwritten then.
	switch {
	case apierrors.IsNotFound(err):
		return change, nil
	case err != nil:
		return change, fmt.Errorf("read the Secret %s/%s: %w", c.place.Namespace, wanted.Name, err)
	case !c.made(found) && !sameData(found, wanted):
		return change, fmt.Errorf("the Secret %s/%s is there and was not made by this command: delete it, or use it by leaving the file with its content out", c.place.Namespace, wanted.Name)
	}
	change.Action = Update
	return change, nil
}

// made reports whether a Secret was created beside this release.
func (c *Client) made(object metav1.Object) bool {
	labels := object.GetLabels()
	return labels[helmLabel] == ownManager && labels[releaseLabel] == c.place.Release
}

// sameData reports whether a Secret has the wanted data.
func sameData(found *corev1.Secret, wanted Secret) bool {
	for key, value := range wanted.Data {
		if !bytes.Equal(found.Data[key], []byte(value.Reveal())) {
			return false
		}
	}
	return true
}

// prepare creates the namespace, the Secrets and the definitions, in this
// order. The result has what was created even if there is an error, so that it
// can be deleted again.
func (c *Client) prepare(ctx context.Context, plan *Plan) (done prepared, err error) {
	if plan.newNamespace {
		made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.place.Namespace, Labels: map[string]string{helmLabel: ownManager}}}
		_, err := c.cluster.Client.CoreV1().Namespaces().Create(ctx, made, metav1.CreateOptions{FieldManager: fieldManager})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return done, fmt.Errorf("make the namespace %s: %w", c.place.Namespace, err)
		}
		// A namespace that appeared since the plan belongs to others, and an
		// undo must not delete it.
		done.namespace = err == nil
	}
	for _, one := range plan.spec.Secrets {
		fresh, err := c.writeSecret(ctx, one)
		if err != nil {
			return done, fmt.Errorf("make the Secret %s/%s: %w", c.place.Namespace, one.Name, err)
		}
		if fresh {
			done.secrets = append(done.secrets, one.Name)
		}
	}
	return done, c.writeCRDs(ctx, plan)
}

// writeSecret creates or updates a Secret, and reports whether it is new.
func (c *Client) writeSecret(ctx context.Context, wanted Secret) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	client := c.cluster.Client.CoreV1().Secrets(c.place.Namespace)
	data := map[string][]byte{}
	for key, value := range wanted.Data {
		data[key] = []byte(value.Reveal())
	}
	made := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: wanted.Name, Labels: map[string]string{helmLabel: ownManager, releaseLabel: c.place.Release}},
		Type:       corev1.SecretTypeOpaque, Data: data,
	}
	// Create comes first: it decides without a race whether the Secret is new.
	_, err := client.Create(ctx, made, metav1.CreateOptions{FieldManager: fieldManager})
	if !apierrors.IsAlreadyExists(err) {
		return err == nil, err
	}
	found, err := client.Get(ctx, wanted.Name, metav1.GetOptions{})
	if err != nil || !c.made(found) {
		return false, err // the plan has seen that the content is the same
	}
	found.Data = data
	_, err = client.Update(ctx, found, metav1.UpdateOptions{FieldManager: fieldManager})
	return false, err
}

// unprepare deletes what prepare created in this run. Definitions stay: objects
// of them may exist by now.
func (c *Client) unprepare(ctx context.Context, done prepared) error {
	var problems []error
	for _, name := range done.secrets {
		err := c.cluster.Client.CoreV1().Secrets(c.place.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			problems = append(problems, fmt.Errorf("delete the Secret %s/%s: %w", c.place.Namespace, name, err))
		}
	}
	// A namespace that this run created has nothing that must be kept.
	if done.namespace {
		err := c.cluster.Client.CoreV1().Namespaces().Delete(ctx, c.place.Namespace, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			problems = append(problems, fmt.Errorf("delete the namespace %s: %w", c.place.Namespace, err))
		} else {
			c.awaitNoNamespace(ctx)
		}
	}
	return errors.Join(problems...)
}

// awaitNoNamespace waits for a while until the namespace is gone, so that a
// retry finds a free name. A namespace that takes longer is no error.
func (c *Client) awaitNoNamespace(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, namespaceTime)
	defer cancel()
	for {
		_, err := c.cluster.Client.CoreV1().Namespaces().Get(ctx, c.place.Namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		if backoff.Sleep(ctx, goneEvery) != nil {
			return
		}
	}
}
