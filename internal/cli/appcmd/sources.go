package appcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/cli/localrepo"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/kube"
)

// inputs returns the sources of an Application with their files: of a local
// folder, or fetched into a temporary folder that the returned function
// removes. After an error the caller has nothing to clean up. The comparison can
// fetch what the sources need of elsewhere, unless the folder is local.
func (f *diffFlags) inputs(ctx context.Context, cluster *appCluster, compared *inspect.Comparison, warnings io.Writer) ([]render.Input, func(), error) {
	sources := compared.App.Spec.AllSources()
	if f.local != "" {
		// Nothing is fetched and no credential is read for a local folder.
		store, err := tree.NewFolder(f.local)
		if err != nil {
			return nil, nil, fmt.Errorf("read the folder %s: %w", f.local, err)
		}
		inputs, err := localrepo.Inputs(sources, store)
		return inputs, func() {}, err
	}
	if f.revision != "" {
		if len(sources) != 1 {
			return nil, nil, errors.New("the Application has several sources, and --revision is for one")
		}
		// The slice may share its array with the Application; only this command
		// uses it.
		sources[0].TargetRevision = f.revision
	}
	book, err := cluster.credentials(ctx, f.controlNamespace, warnings)
	if err != nil {
		return nil, nil, err
	}
	// A temporary cache: the command must not touch the agent's.
	folder, err := os.MkdirTemp("", "slipway-diff-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(folder) }
	fetched, err := source.New(source.Options{Folder: folder, Credentials: book})
	if err != nil {
		remove()
		return nil, nil, err
	}
	closeAll := func() {
		_ = fetched.Close()
		remove()
	}
	// The rights are those of the user, who reads the Secrets himself; the
	// project decides which of them is used.
	limits := project.Unlimited(compared.App.Spec.ProjectName())
	compared.Resolve = fetched.Dependencies(limits, -1)
	var inputs []render.Input
	for _, wanted := range sources {
		// One after the other: an Application has few sources.
		admitted, err := limits.Admit(wanted)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		found, err := fetched.Resolve(ctx, admitted, 0)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		inputs = append(inputs, render.Input{Source: wanted, Store: found.Store, Path: found.Path, Revision: found.Revision, Chart: found.Chart})
	}
	return inputs, closeAll, nil
}

// credentials reads the repository credentials of the control namespace, as far
// as the user may. A user without the right gets a warning and public
// repositories. Missing or forbidden ConfigMaps with known hosts and CAs are
// skipped.
func (c *appCluster) credentials(ctx context.Context, namespace string, warnings io.Writer) (*credential.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeflags.RequestTimeout)
	defer cancel()
	book := &credential.Store{}
	secrets, err := c.Client.CoreV1().Secrets(namespace).List(ctx, kube.Labelled(credential.TypeLabel))
	switch {
	case apierrors.IsForbidden(err):
		_, _ = fmt.Fprintf(warnings, "You may not read the Secrets of the namespace %s: repositories are opened without credentials. With --local nothing is fetched.\n", namespace)
		secrets = &corev1.SecretList{}
	case err != nil:
		return nil, fmt.Errorf("read the credentials of repositories: %w", err)
	}
	for i := range secrets.Items {
		// Secrets that cannot be parsed, such as those of clusters, open no
		// repository.
		if given, err := credential.Parse(&secrets.Items[i]); err == nil {
			book.Set(types.NamespacedName{Namespace: namespace, Name: secrets.Items[i].Name}, given)
		}
	}
	for _, name := range []string{credential.KnownHostsConfigMap, credential.AuthoritiesConfigMap} {
		content, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			book.SetConfigMap(content)
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return nil, fmt.Errorf("read the ConfigMap %s/%s: %w", namespace, name, err)
		}
	}
	return book, nil
}
