package inspect

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/signature"
	"slipway.dev/slipway/internal/kube"
)

// Credentials reads the repository credentials of a control namespace, as far
// as the user may. A user without the right gets a warning and public
// repositories. Missing or forbidden ConfigMaps with known hosts and CAs are
// skipped.
func (i *Inspector) Credentials(ctx context.Context, namespace string, warn func(string)) (*credential.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	book := &credential.Store{}
	secrets, err := i.Client.CoreV1().Secrets(namespace).List(ctx, kube.Labelled(credential.TypeLabel))
	switch {
	case apierrors.IsForbidden(err):
		warn(fmt.Sprintf("You may not read the Secrets of the namespace %s: repositories are opened without credentials.", namespace))
		secrets = &corev1.SecretList{}
	case err != nil:
		return nil, fmt.Errorf("read the credentials of repositories: %w", err)
	}
	for n := range secrets.Items {
		// Secrets that cannot be parsed, such as those of clusters, open no
		// repository.
		if given, err := credential.Parse(&secrets.Items[n]); err == nil {
			book.Set(types.NamespacedName{Namespace: namespace, Name: secrets.Items[n].Name}, given)
		}
	}
	for _, name := range []string{credential.KnownHostsConfigMap, credential.AuthoritiesConfigMap, signature.ConfigMap} {
		content, err := i.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			book.SetConfigMap(content)
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return nil, fmt.Errorf("read the ConfigMap %s/%s: %w", namespace, name, err)
		}
	}
	return book, nil
}

// ReadSettings returns the settings of a control namespace; nil if there are
// none.
func (i *Inspector) ReadSettings(ctx context.Context, namespace string) (*customization.Settings, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	found, err := i.Client.CoreV1().ConfigMaps(namespace).Get(ctx, customization.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return customization.Read(found.Data, jq.New()), nil
}

// Fetch resolves sources and returns them with their files. The comparison can
// then fetch what they need of elsewhere. The rights are those of the user, who
// reads the Secrets himself; the project decides which of them is used.
func (c *Comparison) Fetch(ctx context.Context, from *source.Sources, sources []v1alpha1.ApplicationSource) ([]render.Input, error) {
	limits := project.Unlimited(c.App.Spec.ProjectName())
	c.Resolve = from.Dependencies(limits, -1)
	var inputs []render.Input
	for _, wanted := range sources {
		// One after the other: an Application has few sources.
		admitted, err := limits.Admit(wanted)
		if err != nil {
			return nil, err
		}
		found, err := from.Resolve(ctx, admitted, 0)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, render.Input{Source: wanted, Store: found.Store, Path: found.Path, Revision: found.Revision, Chart: found.Chart})
	}
	return inputs, nil
}
